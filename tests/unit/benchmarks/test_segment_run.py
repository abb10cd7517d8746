from __future__ import annotations

import numpy as np
import pytest

from benchmarks.virtual_time.segment_run import at_speed, run_segment, token_times
from tests.support.virtual_machines import closed_loop, open_loop, requests, started
from tuner.loadgen.plan import ClosedLoopSegment, OpenLoopSegment, UserLoopSegment
from tuner.loadgen.records import Outcome
from tuner.loadgen.request_metrics import itl_ms, tokens_within, tpot_ms, ttft_from_due_ms
from tuner.simulator.hardware import Hardware
from tuner.simulator.memory import memory_account


def test_an_open_loop_ends_with_its_last_measured_request() -> None:
    segment = open_loop()
    run = run_segment(started(), segment)
    due = run.records.due_s
    measured = (due >= 1.0) & (due < 5.0)
    assert run.records.completed[measured].all()
    assert run.end_s == pytest.approx(max(5.0, run.records.ended_s[measured].max()))
    assert run.end_s < 10.0
    assert not run.died
    assert not run.stalled


def test_what_is_due_after_the_end_is_never_sent() -> None:
    run = run_segment(started(), open_loop(count=100))
    late = run.records.due_s > run.end_s
    assert late.any()
    assert (run.records.outcome[late] == Outcome.NOT_SENT).all()
    assert np.isnan(run.records.sent_s[late]).all()
    assert (run.records.http_status[late] == 0).all()


def test_an_overloaded_open_loop_is_cut_at_the_end_of_its_drain() -> None:
    segment = OpenLoopSegment(requests(900, 150.0, output=200), 1.0, 4.0, 1.0)
    run = run_segment(started(max_num_seqs=2), segment)
    records = run.records
    assert run.end_s == 6.0
    unfinished = records.outcome == Outcome.UNFINISHED
    assert unfinished.any()
    assert (records.ended_s[unfinished] == 6.0).all()
    assert records.frame_s.max() <= 6.0
    assert np.nanmax(records.last_s) <= 6.0


def test_a_closed_loop_records_what_was_sent_and_cuts_it_at_the_window() -> None:
    run = run_segment(started(), closed_loop())
    records = run.records
    assert run.end_s == 4.0
    assert records.sent.all()
    assert records.size < 3000
    assert not run.list_exhausted
    in_flight = int((records.outcome == Outcome.UNFINISHED).sum())
    assert in_flight == 8
    assert np.isnan(records.due_s).all()


def test_a_closed_loop_that_needs_its_whole_list_gets_it() -> None:
    short = ClosedLoopSegment(requests(4000, None, output=1), 4, 1.0, 3.0)
    run = run_segment(started(), short)
    assert run.records.size > 2 * 4 + 500
    assert not run.list_exhausted


def test_a_closed_loop_says_when_its_list_is_used_up() -> None:
    run = run_segment(started(), closed_loop(count=30))
    assert run.list_exhausted
    assert run.records.completed.all()


def test_token_times_are_those_of_the_engines_steps() -> None:
    run = run_segment(started(), open_loop())
    records = run.records
    done = records.completed
    assert (records.received_tokens[done] == 20).all()
    np.testing.assert_array_equal(records.first_s[done], run.run.first_token_s[done])
    np.testing.assert_array_equal(records.last_s[done], run.run.last_token_s[done])
    step_end_s = run.run.steps.start_s + run.run.steps.duration_s
    assert np.isin(records.frame_s, step_end_s).all()


def test_every_token_of_the_steps_is_in_the_records() -> None:
    run = run_segment(started(), closed_loop())
    steps = run.run.steps
    ended = steps.start_s + steps.duration_s
    within = (ended >= 1.0) & (ended < 4.0)
    counted = tokens_within(run.records, 1.0, 4.0, 1)[0]
    assert counted == steps.emitted[within].sum()


def test_latencies_are_those_of_the_engine_model() -> None:
    run = run_segment(started(), open_loop())
    done = run.records.completed
    np.testing.assert_allclose(
        ttft_from_due_ms(run.records)[done], 1000 * run.run.ttft_s[done], rtol=1e-9
    )
    np.testing.assert_allclose(tpot_ms(run.records)[done], 1000 * run.run.tpot_s[done], rtol=1e-9)
    assert itl_ms(run.records, done).max() == pytest.approx(1000 * run.run.max_gap_s[done].max())


def test_a_preempted_request_keeps_its_longest_gap() -> None:
    launch = started(num_gpu_blocks_override=140, max_num_seqs=32)
    segment = OpenLoopSegment(requests(120, 40.0, output=120), 0.5, 3.0, 20.0)
    run = run_segment(launch, segment)
    once = (run.run.preemptions == 1) & run.records.completed & (run.run.output_tokens > 1)
    assert once.any()
    start = run.records.frame_start
    for row in np.flatnonzero(once):
        frames = run.records.frame_s[start[row] : start[row + 1]]
        assert (np.diff(frames) > 0).all()
        assert np.diff(frames).max() == pytest.approx(run.run.max_gap_s[row])


def test_token_times_without_any_request_are_empty() -> None:
    run = run_segment(started(), open_loop())
    start, times = token_times(run.run, np.empty(0, dtype=np.int64), 1.0)
    assert start.tolist() == [0]
    assert times.size == 0


def test_speed_scales_every_step_and_leaves_memory_alone() -> None:
    slow, fast = started(speed=0.5), started(speed=1.0)
    own = memory_account(slow.gpu, 1, slow.model, slow.config, 2048, slow.hardware)
    other = memory_account(fast.gpu, 1, fast.model, fast.config, 2048, fast.hardware)
    assert own == other
    one = requests(1, 1.0)
    times = [run_segment(launch, OpenLoopSegment(one, 0.0, 1.0, 9.0)) for launch in (slow, fast)]
    assert times[0].run.end_s == pytest.approx(2 * times[1].run.end_s, rel=1e-6)


def test_full_speed_is_the_machine_itself() -> None:
    assert at_speed(Hardware.hidden(3), 1.0) == Hardware.hidden(3)


def user_loop(concurrency: int = 6, think_s: float = 0.0) -> UserLoopSegment:
    return UserLoopSegment(requests(3000, None), concurrency, 1.0, 4.0, 5.0, think_s)


def test_users_are_due_when_they_send_and_waited_for_after_the_window() -> None:
    run = run_segment(started(), user_loop())
    records = run.records
    assert (records.due_s == records.sent_s).all()
    measured = (records.due_s >= 1.0) & (records.due_s < 5.0)
    assert records.completed[measured].all()
    assert run.end_s == pytest.approx(max(5.0, records.ended_s[measured].max()))
    for moment_s in np.linspace(0.5, 5.0, 10):
        here = (records.sent_s <= moment_s) & (records.ended_s > moment_s)
        assert int(here.sum()) <= 6


def test_users_who_think_are_refused() -> None:
    with pytest.raises(ValueError, match=r"set arrival\.think_s to 0"):
        run_segment(started(), user_loop(think_s=1.0))
