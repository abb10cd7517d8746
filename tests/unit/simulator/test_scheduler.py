from __future__ import annotations

import pytest

from tests.support.engine_model import LLAMA_8B, MISTRAL_7B, config, cost_model, request, scheduler
from tuner.errors import InvalidInputError
from tuner.simulator.limits import engine_limits
from tuner.simulator.memory import LoadLimit
from tuner.simulator.requests import StepResult
from tuner.simulator.scheduler import Scheduler


def run(engine: Scheduler, steps: int = 10_000) -> list[StepResult]:
    """All steps until there is no work; fails when there is no end to it."""
    results: list[StepResult] = []
    now_s = 0.0
    while engine.has_work():
        assert len(results) < steps, "the scheduler does not come to an end"
        result = engine.step(now_s)
        now_s = result.end_s
        results.append(result)
    return results


def test_a_single_request_prefills_in_one_step_and_decodes_one_token_per_step() -> None:
    engine = scheduler(config(8, 2048))
    engine.add(request(7, 100, 4))
    steps = run(engine)
    assert [s.prefill_tokens for s in steps] == [100, 0, 0, 0]
    assert [s.decode_tokens for s in steps] == [0, 1, 1, 1]
    assert [s.emitted for s in steps] == [(7,)] * 4
    assert [s.finished for s in steps] == [(), (), (), (7,)]


def test_each_step_starts_where_it_is_told_and_takes_time() -> None:
    engine = scheduler(config(8, 2048))
    engine.add(request(1, 100, 2))
    result = engine.step(12.5)
    assert result.start_s == 12.5
    assert result.end_s == 12.5 + result.duration_s
    assert result.duration_s > 0.0


def test_a_long_prompt_is_cut_into_chunks_of_the_budget() -> None:
    engine = scheduler(config(8, 512))
    engine.add(request(1, 1200, 1))
    assert [s.prefill_tokens for s in run(engine)] == [512, 512, 176]


def test_only_the_last_chunk_emits_a_token() -> None:
    engine = scheduler(config(8, 512))
    engine.add(request(1, 1200, 2))
    assert [s.emitted for s in run(engine)] == [(), (), (1,), (1,)]


def test_decodes_go_first_and_prefill_gets_what_they_leave() -> None:
    """P3: high decode load means small chunks."""
    engine = scheduler(config(64, 64))
    for index in range(40):
        engine.add(request(index, 1, 20))
    engine.step(0.0)
    engine.add(request(99, 1000, 1))
    step = engine.step(1.0)
    assert step.decode_tokens == 40
    assert step.prefill_tokens == 24
    assert step.scheduled_tokens == 64


def test_both_limits_hold_at_once() -> None:
    """P1: at most so many requests and so many tokens."""
    engine = scheduler(config(4, 100))
    for index in range(10):
        engine.add(request(index, 30, 5))
    first = engine.step(0.0)
    assert first.scheduled_tokens == 100
    assert first.running == 4
    assert first.waiting == 6
    for step in run(engine):
        assert step.running <= 4
        assert step.scheduled_tokens <= 100


def test_without_chunking_a_prompt_waits_until_it_fits_whole() -> None:
    engine = scheduler(config(8, 4096, enable_chunked_prefill=False))
    engine.add(request(1, 3000, 3))
    engine.add(request(2, 2000, 1))
    engine.add(request(3, 10, 1))
    first = engine.step(0.0)
    # The head of the queue does not fit, so nobody behind it is looked at.
    assert first.prefill_tokens == 3000
    assert first.waiting == 2
    second = engine.step(first.end_s)
    assert second.prefill_tokens == 2010
    assert second.decode_tokens == 1


def test_with_chunking_the_budget_is_used_up() -> None:
    engine = scheduler(config(8, 4096))
    engine.add(request(1, 3000, 3))
    engine.add(request(2, 2000, 1))
    assert engine.step(0.0).prefill_tokens == 4096


def test_the_long_prefill_threshold_leaves_budget_for_others() -> None:
    engine = scheduler(config(8, 2048, long_prefill_token_threshold=256))
    engine.add(request(1, 4000, 1))
    engine.add(request(2, 100, 1))
    first = engine.step(0.0)
    assert first.prefill_tokens == 256 + 100
    assert first.finished == (2,)


def test_without_the_threshold_a_long_prefill_takes_the_whole_budget() -> None:
    engine = scheduler(config(8, 2048))
    engine.add(request(1, 4000, 1))
    engine.add(request(2, 60, 1))
    assert engine.step(0.0).finished == ()
    assert engine.step(1.0).emitted == (1, 2)


def test_first_come_first_served() -> None:
    engine = scheduler(config(1, 2048))
    for index in (5, 3, 9):
        engine.add(request(index, 10, 2))
    assert [i for s in run(engine) for i in s.finished] == [5, 3, 9]


def test_priority_goes_before_arrival_and_smaller_is_more_urgent() -> None:
    engine = scheduler(config(1, 2048, scheduling_policy="priority"))
    for index, priority in ((1, 5), (2, 0), (3, 5), (4, -1)):
        engine.add(request(index, 10, 2, priority=priority))
    assert [i for s in run(engine) for i in s.finished] == [4, 2, 1, 3]


def test_priorities_mean_nothing_under_first_come_first_served() -> None:
    engine = scheduler(config(1, 2048))
    engine.add(request(1, 10, 2, priority=5))
    engine.add(request(2, 10, 2, priority=0))
    assert [i for s in run(engine) for i in s.finished] == [1, 2]


def test_blocks_are_taken_as_tokens_need_them_and_given_back() -> None:
    engine = scheduler(config(8, 2048))
    engine.add(request(1, 32, 18))
    used = [s.used_blocks for s in run(engine)]
    # 32 prompt tokens fill two blocks; tokens 33 to 48 take a third, 49 a fourth.
    assert used[0] == 2
    assert used[1:17] == [3] * 16
    assert used[17:] == [4]
    assert engine.used_blocks == 0


def test_admission_stops_where_blocks_end() -> None:
    engine = scheduler(config(8, 2048), num_blocks=10, max_model_len=160)
    engine.add(request(1, 100, 1))
    engine.add(request(2, 100, 1))
    first = engine.step(0.0)
    assert first.running == 1
    assert first.waiting == 1


def test_the_youngest_is_preempted_and_starts_anew() -> None:
    engine = scheduler(config(8, 2048), num_blocks=8, max_model_len=128)
    engine.add(request(1, 48, 40))
    engine.add(request(2, 48, 40))
    steps = run(engine)
    preempted = [s.preempted for s in steps if s.preempted]
    assert preempted
    assert all(ids == (2,) for ids in preempted)
    assert engine.preemptions == len(preempted)
    assert [i for s in steps for i in s.finished] == [1, 2]


def test_everything_the_preempted_had_is_computed_again() -> None:
    engine = scheduler(config(8, 2048), num_blocks=8, max_model_len=128)
    engine.add(request(1, 48, 40))
    engine.add(request(2, 48, 40))
    steps = run(engine)
    assert engine.recomputed_tokens > 48
    computed = sum(s.scheduled_tokens for s in steps)
    # Each request computes its prompt and all outputs but the last, plus what was lost.
    assert computed == 2 * (48 + 39) + engine.recomputed_tokens
    assert engine.computed_tokens == computed


def test_nobody_is_admitted_in_a_step_that_preempts() -> None:
    engine = scheduler(config(8, 2048), num_blocks=8, max_model_len=128)
    engine.add(request(1, 48, 40))
    engine.add(request(2, 48, 40))
    engine.add(request(3, 4, 4))
    for step in run(engine):
        if step.preempted:
            assert step.prefill_tokens == 0


def test_the_preempted_goes_to_the_front_of_the_queue() -> None:
    engine = scheduler(config(8, 2048), num_blocks=8, max_model_len=128)
    engine.add(request(1, 48, 40))
    engine.add(request(2, 48, 40))
    while not engine.step(0.0).preempted:
        pass
    engine.add(request(3, 48, 40))
    assert [i for s in run(engine) for i in s.finished] == [1, 2, 3]


def test_the_least_urgent_is_preempted_under_priority() -> None:
    engine = scheduler(
        config(8, 2048, scheduling_policy="priority"), num_blocks=8, max_model_len=128
    )
    engine.add(request(1, 48, 40, priority=9))
    engine.add(request(2, 48, 40, priority=0))
    steps = run(engine)
    assert {i for s in steps for i in s.preempted} == {1}
    assert [i for s in steps for i in s.finished] == [2, 1]


def test_the_budget_of_a_preempted_request_goes_to_those_behind_it() -> None:
    engine = scheduler(config(8, 20, scheduling_policy="priority"), num_blocks=4, max_model_len=64)
    engine.add(request(1, 16, 30, priority=9))
    engine.step(0.0)
    engine.add(request(2, 31, 30, priority=0))
    # 19 tokens of the second prompt fit beside the decode, 12 are left.
    engine.step(0.0)
    engine.step(0.0)
    engine.add(request(3, 16, 30, priority=0))
    while not (step := engine.step(0.0)).preempted:
        assert step.scheduled_tokens <= 20
    assert step.preempted == (1,)
    # The least urgent had been given its token; it is not counted against the others.
    assert 1 not in step.emitted
    assert step.decode_tokens == len(step.emitted)


def test_a_preempted_request_keeps_its_tokens() -> None:
    engine = scheduler(config(8, 2048), num_blocks=8, max_model_len=128)
    engine.add(request(1, 48, 40))
    engine.add(request(2, 48, 40))
    emitted = [i for s in run(engine) for i in s.emitted]
    assert emitted.count(1) == 40
    assert emitted.count(2) == 40


def test_output_is_cut_at_the_maximum_length() -> None:
    engine = scheduler(config(8, 2048), max_model_len=128)
    engine.add(request(1, 120, 1000))
    assert sum(len(s.emitted) for s in run(engine)) == 8


def test_a_prompt_that_leaves_no_room_is_refused() -> None:
    engine = scheduler(config(8, 2048), max_model_len=128)
    with pytest.raises(InvalidInputError, match="128"):
        engine.add(request(1, 128, 1))
    assert not engine.has_work()
    with pytest.raises(InvalidInputError):
        engine.add(request(1, 0, 1))


def test_an_id_cannot_be_in_the_engine_twice_but_may_return() -> None:
    engine = scheduler(config(8, 2048))
    engine.add(request(1, 10, 1))
    with pytest.raises(ValueError, match="1"):
        engine.add(request(1, 10, 1))
    run(engine)
    engine.add(request(1, 10, 1))
    assert len(run(engine)) == 1


@pytest.mark.parametrize("after_steps", [0, 1, 2, 5])
def test_an_aborted_request_leaves_nothing_behind(after_steps: int) -> None:
    engine = scheduler(config(2, 256), num_blocks=100)
    for index in range(4):
        engine.add(request(index, 400, 30))
    for _ in range(after_steps):
        engine.step(0.0)
    for index in (1, 3, 0, 2):
        assert engine.abort(index)
    assert not engine.has_work()
    assert engine.used_blocks == 0
    assert engine.running == engine.waiting == 0


def test_the_others_go_on_after_an_abort() -> None:
    engine = scheduler(config(4, 2048))
    for index in range(4):
        engine.add(request(index, 20, 10))
    engine.step(0.0)
    engine.abort(1)
    assert sorted(i for s in run(engine) for i in s.finished) == [0, 2, 3]


def test_aborting_a_stranger_changes_nothing() -> None:
    engine = scheduler(config(4, 2048))
    engine.add(request(1, 20, 10))
    assert not engine.abort(2)
    assert engine.waiting == 1


def test_a_waiting_request_too_large_for_the_pool_stalls_without_an_end() -> None:
    """F22: running 0, waiting 1, and the engine looks healthy."""
    engine = scheduler(config(8, 2048), num_blocks=4, max_model_len=4096)
    engine.add(request(1, 1000, 1))
    for _ in range(3):
        step = engine.step(0.0)
        assert step.scheduled_tokens == 0
        assert (step.running, step.waiting) == (0, 1)
        assert step.duration_s > 0.0


def test_counters_follow_the_engine_metrics() -> None:
    engine = scheduler(config(8, 100))
    engine.add(request(1, 150, 3))
    engine.step(0.0)
    # A prompt counts when its first token is out.
    assert engine.prompt_tokens == 0
    run(engine)
    assert engine.prompt_tokens == 150
    assert engine.generated_tokens == 3
    assert engine.computed_tokens == 152


def test_first_admissions_are_reported_once() -> None:
    engine = scheduler(config(8, 2048), num_blocks=8, max_model_len=128)
    engine.add(request(1, 48, 40))
    engine.add(request(2, 48, 40))
    steps = run(engine)
    assert engine.preemptions > 0
    assert [a for s in steps for a in s.admitted] == [(1, 0), (2, 0)]


def test_memory_runs_out_in_the_step_that_is_too_large_and_not_before() -> None:
    limits = engine_limits(config(8, 2048), 4096)
    limit = LoadLimit(0.0, 1.0, 0.0, margin_bytes=500.0)
    costs = cost_model(limits).costs(2048, limit)
    engine = Scheduler(limits, LLAMA_8B, costs, 1000)
    engine.add(request(1, 500, 2))
    engine.step(0.0)
    assert not engine.out_of_memory
    engine.add(request(2, 501, 2))
    engine.step(0.0)
    assert engine.out_of_memory


def test_cost_tables_must_cover_the_budget() -> None:
    limits = engine_limits(config(8, 2048), 4096)
    with pytest.raises(ValueError, match="shorter"):
        Scheduler(limits, LLAMA_8B, cost_model(limits).costs(2047), 1000)


def test_a_sliding_window_bounds_the_blocks_of_a_long_request() -> None:
    engine = scheduler(config(8, 2048), model=MISTRAL_7B, max_model_len=32768)
    engine.add(request(1, 20000, 1))
    assert max(s.used_blocks for s in run(engine)) == 4096 // 16


def test_a_step_without_work_is_empty() -> None:
    engine = scheduler(config(8, 2048))
    assert not engine.has_work()
    assert engine.step(0.0).scheduled_tokens == 0
