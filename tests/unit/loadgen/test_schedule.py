from __future__ import annotations

from pathlib import Path

import pytest

from tuner.domain.study_spec import ArrivalSpec, ConstantLength, LengthsSpec, WorkloadSpec
from tuner.loadgen.plan import OpenLoopSegment
from tuner.loadgen.schedule import closed_loop_segment, open_loop_segment
from tuner.loadgen.workload import Workload, build_workload


@pytest.fixture(scope="module")
def chat() -> Workload:
    return build_workload(WorkloadSpec(), max_model_len=4096, seed=0, base_dir=Path())


def open_segment(chat: Workload, *, rate: float = 4.0, seed: int = 5) -> OpenLoopSegment:
    return open_loop_segment(chat, ArrivalSpec(), rate, 10.0, 60.0, 20.0, seed)


def test_equal_seeds_give_equal_segments(chat: Workload) -> None:
    assert open_segment(chat) == open_segment(chat)
    assert closed_loop_segment(chat, 8, 5.0, 10.0, 5) == closed_loop_segment(chat, 8, 5.0, 10.0, 5)


def test_other_seeds_give_other_requests(chat: Workload) -> None:
    assert open_segment(chat).requests != open_segment(chat, seed=6).requests


def test_the_two_segments_of_one_seed_share_no_prompt(chat: Workload) -> None:
    latency = {request.prompt_seed for request in open_segment(chat).requests}
    capacity = {r.prompt_seed for r in closed_loop_segment(chat, 8, 5.0, 10.0, 5).requests}
    assert not latency & capacity


def test_prompts_of_one_segment_are_all_different(chat: Workload) -> None:
    requests = open_segment(chat).requests
    assert len({request.prompt_seed for request in requests}) == len(requests)


def test_load_goes_on_through_the_drain(chat: Workload) -> None:
    due = [request.due_s or 0.0 for request in open_segment(chat).requests]
    assert len(due) == round(4.0 * 90.0)
    assert max(due) > 80.0


def test_requests_are_numbered_in_order_and_sorted_by_due_time(chat: Workload) -> None:
    requests = open_segment(chat).requests
    assert [request.index for request in requests] == list(range(len(requests)))
    due = [request.due_s or 0.0 for request in requests]
    assert due == sorted(due)


def test_lengths_come_from_the_workload_in_pairs(chat: Workload) -> None:
    pairs = set(zip(chat.prompt_tokens.tolist(), chat.output_tokens.tolist(), strict=True))
    requests = open_segment(chat).requests
    assert {(request.prompt_tokens, request.output_tokens) for request in requests} <= pairs


def test_a_closed_loop_has_no_due_times(chat: Workload) -> None:
    segment = closed_loop_segment(chat, 8, 5.0, 10.0, 5)
    assert {request.due_s for request in segment.requests} == {None}
    assert (segment.concurrency, segment.warmup_s, segment.window_s) == (8, 5.0, 10.0)


def test_a_closed_loop_list_outlasts_an_engine_of_200_000_tokens_per_second(
    chat: Workload,
) -> None:
    segment = closed_loop_segment(chat, 64, 10.0, 30.0, 5)
    tokens = sum(request.prompt_tokens + request.output_tokens for request in segment.requests)
    assert tokens > 0.95 * 200_000 * 40.0
    assert len(segment.requests) > 128


def test_a_closed_loop_list_of_tiny_requests_stays_bounded() -> None:
    length = ConstantLength(type="constant", value=1)
    spec = WorkloadSpec(lengths=LengthsSpec(prompt_tokens=length, output_tokens=length))
    tiny = build_workload(spec, max_model_len=100, seed=0, base_dir=Path())
    assert len(closed_loop_segment(tiny, 1, 10.0, 30.0, 5).requests) == 2 + 3000 * 40
