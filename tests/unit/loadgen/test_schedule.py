from __future__ import annotations

import json
from pathlib import Path

import pytest

from tuner.domain.study_spec import (
    ClosedLoopArrivalSpec,
    ConstantLength,
    LengthsSpec,
    PoissonArrivalSpec,
    TraceArrivalSpec,
    TraceSpec,
    WorkloadSpec,
)
from tuner.loadgen.plan import OpenLoopSegment, PlannedRequest, UserLoopSegment
from tuner.loadgen.prefix_share import shared_tokens
from tuner.loadgen.schedule import (
    closed_loop_segment,
    latency_segment_of,
    open_loop_segment,
    rate_arrival,
    rescoped,
    user_loop_segment,
)
from tuner.loadgen.workload import Workload, build_workload


@pytest.fixture(scope="module")
def chat() -> Workload:
    return build_workload(WorkloadSpec(), max_model_len=4096, seed=0, base_dir=Path())


def open_segment(chat: Workload, *, rate: float = 4.0, seed: int = 5) -> OpenLoopSegment:
    return open_loop_segment(chat, PoissonArrivalSpec(), rate, 10.0, 60.0, 20.0, seed)


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


DATA = Path(__file__).parents[2] / "support" / "data" / "traces"
TURNS = "".join(
    json.dumps({"prompt_tokens": 20 + turn, "output_tokens": 5, "session": session}) + "\n"
    for session in range(6)
    for turn in range(4)
)


def workload_of(file: str, base_dir: Path = DATA, *, longest: int = 200_000) -> Workload:
    spec = WorkloadSpec(trace=TraceSpec(file=file, turn_pause_s=3.0))
    return build_workload(spec, max_model_len=longest, seed=0, base_dir=base_dir)


def share_of(requests: tuple[PlannedRequest, ...]) -> float:
    shared = shared_tokens(request.blocks for request in requests)
    return sum(shared) / sum(request.prompt_tokens for request in requests)


@pytest.mark.parametrize("process", ["poisson", "trace"])
def test_prompts_share_what_the_hashes_of_the_trace_say(process: str) -> None:
    mooncake = workload_of("mooncake_conversation.jsonl")
    arrival = PoissonArrivalSpec() if process == "poisson" else TraceArrivalSpec(process="trace")
    segment = open_loop_segment(mooncake, arrival, 1.0, 0.0, 100.0, 50.0, 5)
    assert len(segment.requests) == 150
    assert share_of(segment.requests) == pytest.approx(0.046, abs=0.002)
    closed = closed_loop_segment(mooncake, 4, 5.0, 20.0, 5)
    assert share_of(closed.requests[:150]) == pytest.approx(0.046, abs=0.002)


def test_a_second_round_of_a_trace_shares_nothing_with_the_first() -> None:
    mooncake = workload_of("mooncake_conversation.jsonl")
    segment = open_loop_segment(mooncake, PoissonArrivalSpec(), 3.0, 0.0, 100.0, 0.0, 5)
    assert len(segment.requests) == 300
    assert share_of(segment.requests) == pytest.approx(0.046, abs=0.002)
    seeds = [{seed for r in half for seed, _ in r.blocks} for half in _halves(segment)]
    assert seeds[0]
    assert not seeds[0] & seeds[1]


def _halves(segment: OpenLoopSegment) -> tuple[tuple[PlannedRequest, ...], ...]:
    return segment.requests[:150], segment.requests[150:]


def test_the_two_segments_of_one_seed_share_no_block() -> None:
    mooncake = workload_of("mooncake_conversation.jsonl")
    latency = open_loop_segment(mooncake, PoissonArrivalSpec(), 1.0, 0.0, 100.0, 0.0, 5)
    capacity = closed_loop_segment(mooncake, 4, 5.0, 20.0, 5)
    one, other = ({s for r in seg.requests for s, _ in r.blocks} for seg in (latency, capacity))
    assert one
    assert not one & other


def test_segments_of_two_seeds_share_no_block() -> None:
    mooncake = workload_of("mooncake_conversation.jsonl")
    segments = [closed_loop_segment(mooncake, 4, 5.0, 20.0, seed) for seed in (5, 6)]
    one, other = ({s for r in segment.requests for s, _ in r.blocks} for segment in segments)
    assert one
    assert not one & other


def test_blocks_never_reach_beyond_a_prompt_that_was_cut() -> None:
    mooncake = workload_of("mooncake_conversation.jsonl", longest=2000)
    requests = closed_loop_segment(mooncake, 4, 5.0, 20.0, 5).requests
    assert all(sum(tokens for _, tokens in r.blocks) <= r.prompt_tokens for r in requests)
    assert any(r.blocks and r.prompt_tokens > 512 for r in requests)


@pytest.mark.parametrize("kind", ["open", "closed"])
def test_a_turn_follows_the_turn_before_and_carries_its_prompt(tmp_path: Path, kind: str) -> None:
    (tmp_path / "turns.jsonl").write_text(TURNS)
    chats = workload_of("turns.jsonl", tmp_path)
    segment = (
        open_loop_segment(chats, PoissonArrivalSpec(), 4.0, 5.0, 30.0, 5.0, 5)
        if kind == "open"
        else closed_loop_segment(chats, 3, 1.0, 1.0, 5)
    )
    following = [request for request in segment.requests if request.after is not None]
    assert len(following) > len(segment.requests) / 2
    for request in following:
        before = segment.requests[request.after or 0]
        assert before.index < request.index
        said = sum(tokens for _, tokens in before.blocks)
        # The last turn's own words are shared with nobody and no block.
        assert request.blocks[: len(before.blocks)] == before.blocks
        assert said == before.prompt_tokens
        assert request.prompt_tokens > before.prompt_tokens + before.output_tokens


def test_literal_prompts_are_sent_as_they_are_in_scopes_of_their_own(tmp_path: Path) -> None:
    line = json.dumps({"token_ids": list(range(50)), "output_tokens": 3})
    (tmp_path / "ids.jsonl").write_text(line + "\n")
    literal = workload_of("ids.jsonl", tmp_path, longest=40)
    first, second = open_loop_segment(literal, PoissonArrivalSpec(), 1.0, 0.0, 2.0, 0.0, 5).requests
    assert first.token_ids == second.token_ids == tuple(range(37))
    closed = closed_loop_segment(literal, 1, 0.1, 0.1, 5).requests
    assert len({first.scope, second.scope, closed[0].scope}) == 3


def test_a_request_of_another_scope_has_nothing_in_common() -> None:
    request = PlannedRequest(0, 40, 1, 9, blocks=((3, 20), (4, 10)))
    moved, again, other = rescoped(request, 5), rescoped(request, 5), rescoped(request, 6)
    assert moved == again
    assert [tokens for _, tokens in moved.blocks] == [20, 10]
    assert not {seed for seed, _ in moved.blocks} & {seed for seed, _ in other.blocks}
    unique = PlannedRequest(0, 40, 1, 9)
    assert rescoped(unique, 5) == unique


def user_segment(chat: Workload, *, think_s: float = 0.0, seed: int = 5) -> UserLoopSegment:
    arrival = ClosedLoopArrivalSpec(process="closed_loop", concurrency=6, think_s=think_s)
    return user_loop_segment(chat, arrival, 5.0, 20.0, 30.0, seed)


def test_users_get_the_same_requests_for_equal_seeds_and_no_due_times(chat: Workload) -> None:
    segment = user_segment(chat)
    assert segment == user_segment(chat)
    assert segment.requests != user_segment(chat, seed=6).requests
    assert {request.due_s for request in segment.requests} == {None}
    assert {request.pause_after_s for request in segment.requests} == {0.0}
    assert (segment.concurrency, segment.drain_s, segment.think_s) == (6, 30.0, 0.0)


def test_users_think_for_exponential_times_that_change_no_request(chat: Workload) -> None:
    segment = user_segment(chat, think_s=0.02)
    pauses_s = [request.pause_after_s for request in segment.requests]
    mean_s = sum(pauses_s) / len(pauses_s)
    longer = sum(pause_s > 0.02 for pause_s in pauses_s) / len(pauses_s)
    assert mean_s == pytest.approx(0.02, rel=0.05)
    assert longer == pytest.approx(0.368, abs=0.02)
    plain = user_segment(chat).requests
    pairs = zip(segment.requests, plain, strict=True)
    assert all(one.prompt_seed == other.prompt_seed for one, other in pairs)


def test_users_outlast_the_drain_and_share_no_prompt_with_saturation(chat: Workload) -> None:
    segment = user_segment(chat)
    tokens = sum(request.prompt_tokens + request.output_tokens for request in segment.requests)
    assert tokens > 0.95 * 200_000 * 55.0
    capacity = {r.prompt_seed for r in closed_loop_segment(chat, 6, 5.0, 20.0, 5).requests}
    assert not capacity & {request.prompt_seed for request in segment.requests}


def test_users_who_think_need_no_list_of_the_fastest_engine(chat: Workload) -> None:
    """Six users who think for two seconds send three requests a second at most, on average."""
    count = len(user_segment(chat, think_s=2.0).requests)
    assert 2 * 3 * 55.0 < count < 3 * 3 * 55.0
    assert count < len(user_segment(chat).requests)


def test_a_user_holds_one_conversation_at_a_time(tmp_path: Path) -> None:
    (tmp_path / "turns.jsonl").write_text(TURNS)
    segment = user_segment(workload_of("turns.jsonl", tmp_path), think_s=1.0)
    following = [request for request in segment.requests if request.after is not None]
    assert len(following) > len(segment.requests) / 2


def test_the_document_decides_what_latencies_are_measured_in(chat: Workload) -> None:
    rest = (5.0, 20.0, 30.0, 5)
    users = ClosedLoopArrivalSpec(process="closed_loop", concurrency=6)
    assert latency_segment_of(chat, users, None, *rest) == user_segment(chat)
    timed = latency_segment_of(chat, PoissonArrivalSpec(), 4.0, *rest)
    assert timed == open_loop_segment(chat, PoissonArrivalSpec(), 4.0, *rest)
    with pytest.raises(ValueError, match="poisson need a rate"):
        latency_segment_of(chat, PoissonArrivalSpec(), None, *rest)


def test_a_closed_loop_has_no_rate_to_be_tried() -> None:
    assert rate_arrival(PoissonArrivalSpec()) == PoissonArrivalSpec()
    with pytest.raises(ValueError, match="no rate"):
        rate_arrival(ClosedLoopArrivalSpec(process="closed_loop", concurrency=6))
