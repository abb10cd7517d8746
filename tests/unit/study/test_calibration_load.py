from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.support.load_records import Row, closed_segment, result_of
from tests.support.study_fakes import attempt_request
from tuner.domain.study_spec import ConstantArrivalSpec, TraceSpec, WorkloadSpec
from tuner.loadgen.load_result import LoadResult
from tuner.loadgen.plan import OpenLoopSegment, PlannedRequest
from tuner.loadgen.records import Outcome
from tuner.loadgen.workload import Workload, build_workload
from tuner.study.calibration_load import (
    FEWEST_REQUESTS,
    JUDGED_LADDER_SHARE,
    LADDER_SHARE,
    STAIRCASE_SHARE,
    STEP_SHARES,
    Staircase,
    ladder,
    measurement_load_s,
    rates_to_try,
    read_rung,
    read_steps,
    staircase,
)
from tuner.study.load_segments import load_s, workload_of
from tuner.telemetry.series import MetricSeries

SPEC = WorkloadSpec()
"""10 s of warm-up twice, windows of 60 and 30 s."""


@pytest.fixture
def workload(tmp_path: Path) -> Workload:
    return workload_of(attempt_request(tmp_path))


def lengths(prompt: int, output: int) -> Workload:
    pool = np.full(10, prompt), np.full(10, output)
    return Workload("equal", *pool, None, 4096, 0, "digest")


def test_calibration_takes_a_stated_share_of_one_measurement(workload: Workload) -> None:
    assert measurement_load_s(SPEC) == 110.0
    segments = ladder(workload, SPEC, 384, 0, judging=False)
    assert load_s(segments) == pytest.approx(LADDER_SHARE * 110)
    stairs = staircase(workload, SPEC, (1.0, 2.0, 3.0), 0, judging=False)
    assert load_s((stairs.segment,)) == pytest.approx(STAIRCASE_SHARE * 110)
    assert LADDER_SHARE + STAIRCASE_SHARE <= 1.5
    judged = ladder(workload, SPEC, 384, 0, judging=True)
    assert load_s(judged) == pytest.approx(JUDGED_LADDER_SHARE * 110)


def test_more_in_flight_is_probed_longer_and_with_other_prompts(workload: Workload) -> None:
    segments = ladder(workload, SPEC, 64, 0, judging=False)
    assert [s.concurrency for s in segments] == [8, 16, 32, 64]
    windows = [s.window_s for s in segments]
    assert windows == sorted(windows)
    seeds = [{r.prompt_seed for r in s.requests} for s in segments]
    assert not set.intersection(*seeds)


def test_a_rung_is_read_as_a_balance_of_prompts_and_outputs() -> None:
    """Ten prompts at 0.1 s each, then nothing but decoding at 20 tokens/s over all of them."""
    rows = []
    for slot in range(10):
        first = 0.1 * (slot + 1)
        later = 1.0 + 0.5 * np.arange(1, 39) - 0.05 * slot
        rows.append(
            Row(
                sent_s=0.0,
                frames=(first, *later.tolist()),
                prompt_tokens=100,
                outcome=Outcome.UNFINISHED,
            )
        )
    segment = closed_segment(concurrency=10, warmup_s=10.0, window_s=10.0)
    rung = read_rung(result_of(segment, rows), lengths(100, 40))
    # Steady: 0.1 s for a prompt and 40 tokens at 20/s for its output.
    assert rung.requests_per_s == pytest.approx(1 / 2.1, rel=0.05)
    assert rung.settled
    assert rung.concurrency == 10
    assert rung.ttft_ms == pytest.approx(500, abs=1)


def test_a_rung_that_saw_only_prompts_is_not_settled() -> None:
    rows = [
        Row(sent_s=0.0, frames=(2.0 * n + 2.0,), prompt_tokens=100, outcome=Outcome.UNFINISHED)
        for n in range(9)
    ]
    segment = closed_segment(concurrency=9, warmup_s=10.0, window_s=10.0)
    assert not read_rung(result_of(segment, rows), lengths(100, 40)).settled


def test_a_rung_in_which_nothing_came_has_no_rate() -> None:
    rows = [Row(sent_s=0.0, outcome=Outcome.UNFINISHED, ended_s=20.0)]
    rung = read_rung(result_of(closed_segment(), rows), lengths(100, 40))
    assert rung.requests_per_s == 0.0
    assert not rung.settled
    assert rung.ttft_ms == pytest.approx(20_000)


def test_rates_surround_the_knee_as_far_as_there_are_requests() -> None:
    assert rates_to_try(10.0, SPEC, None) == pytest.approx([10 * s for s in STEP_SHARES[5]])
    few = rates_to_try(1.0, SPEC, None)
    assert 2 <= len(few) < 5
    assert rates_to_try(0.1, SPEC, None) == ()


def test_a_given_rate_is_compared_with_low_load() -> None:
    assert rates_to_try(10.0, SPEC, 4.0) == (2.0, 4.0)
    assert rates_to_try(10.0, SPEC, 40.0) == (5.0, 40.0)
    assert rates_to_try(10.0, SPEC, 0.1) == ()


def test_the_staircase_rises_with_the_same_pattern_and_unique_prompts(workload: Workload) -> None:
    spec = SPEC.model_copy(update={"arrival": ConstantArrivalSpec(process="constant")})
    stairs = staircase(workload, spec, (2.0, 4.0, 8.0), 0, judging=False)
    requests = stairs.segment.requests
    due = np.array([r.due_s for r in requests])
    assert (np.diff(due) >= 0).all()
    assert [r.index for r in requests] == list(range(len(requests)))
    assert len({r.prompt_seed for r in requests}) == len(requests)
    counts = np.histogram(due, bins=3, range=(0, 3 * stairs.step_s))[0]
    assert counts == pytest.approx(stairs.step_s * np.array([2, 4, 8]), abs=1.5)
    first, second = requests[0], requests[int(counts[0])]
    assert first.prompt_tokens == second.prompt_tokens


def test_steps_share_no_block_and_turns_stay_within_their_step(tmp_path: Path) -> None:
    line = '{"prompt_tokens": 40, "output_tokens": 10, "session": %d}\n'
    (tmp_path / "t.jsonl").write_text("".join(line % session for session in range(9)) * 4)
    trace = TraceSpec(file="t.jsonl", turn_pause_s=1.0)
    spec = SPEC.model_copy(update={"preset": None, "lengths": None, "trace": trace})
    chats = build_workload(spec, max_model_len=4096, seed=0, base_dir=tmp_path)
    stairs = staircase(chats, spec, (2.0, 4.0), 0, judging=False)
    requests = stairs.segment.requests
    steps = [int((request.due_s or 0.0) >= stairs.step_s) for request in requests]
    seeds = [
        {seed for r, step in zip(requests, steps, strict=True) if step == n for seed, _ in r.blocks}
        for n in (0, 1)
    ]
    assert seeds[0]
    assert not seeds[0] & seeds[1]
    turns = [request for request in requests if request.after is not None]
    assert turns
    assert all(steps[request.after or 0] == steps[request.index] for request in turns)


def stairs_of(rows: list[Row]) -> tuple[Staircase, LoadResult]:
    """Two steps of 9 s, of which 3 to 9 and 12 to 18 are measured."""
    requests = tuple(PlannedRequest(n, 10, 10, n, row.due_s) for n, row in enumerate(rows))
    segment = OpenLoopSegment(requests, 0.0, 18.0, 2.0)
    return Staircase(segment, (1.0, 2.0), 9.0), LoadResult((result_of(segment, rows),), 1.0)


def answered(due_s: float, ttft_s: float) -> Row:
    return Row(due_s=due_s, sent_s=due_s, frames=(due_s + ttft_s,))


def test_a_step_is_measured_once_the_one_before_has_faded() -> None:
    low = [answered(3.0 + 0.5 * n, 0.2) for n in range(10)]
    high = [answered(12.0 + 0.5 * n, 0.6) for n in range(12)]
    settling = [answered(0.5, 9.0), answered(9.5, 9.0)]
    stairs, result = stairs_of([*settling[:1], *low, *settling[1:], *high])
    one, two = read_steps(stairs, result, MetricSeries())
    assert (one.rate_per_s, one.requests, two.requests) == (1.0, 10, 12)
    assert one.ttft_ms == pytest.approx(200)
    assert two.ttft_ms == pytest.approx(600)
    assert one.running_peak is None


def test_a_request_without_a_token_has_waited_until_the_end() -> None:
    waiting = [
        Row(due_s=12.0, sent_s=12.0, outcome=Outcome.UNFINISHED, ended_s=20.0) for _ in range(9)
    ]
    stairs, result = stairs_of(waiting)
    assert read_steps(stairs, result, MetricSeries())[1].ttft_ms == pytest.approx(8000)


def test_a_step_of_few_requests_has_no_latency() -> None:
    few = [answered(3.0 + 0.1 * n, 0.2) for n in range(FEWEST_REQUESTS - 1)]
    stairs, result = stairs_of(few)
    step = read_steps(stairs, result, MetricSeries())[0]
    assert step.requests == FEWEST_REQUESTS - 1
    assert step.ttft_ms is None
