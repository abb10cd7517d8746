from __future__ import annotations

from dataclasses import replace

import pytest

from objectives.measurement import Instrument
from tests.support.load_records import Row, closed_segment, open_segment, result_of
from tuner.domain.engine_window import EngineWindow
from tuner.loadgen.instrument import instrument
from tuner.loadgen.load_result import GeneratorHealth, SegmentResult
from tuner.loadgen.plan import PlannedRequest, UserLoopSegment
from tuner.loadgen.records import Outcome

HEALTH = GeneratorHealth(cpu_share=0.2, loop_stall_max_ms=3.0, reads=100)


def sent_late(*lags_s: float) -> SegmentResult:
    """Requests due in the window, each with one token after 0.2 s."""
    rows = [
        Row(due_s=10 + 9 * i / len(lags_s), sent_s=10 + 9 * i / len(lags_s) + lag, frames=(15.0,))
        for i, lag in enumerate(lags_s)
    ]
    return result_of(open_segment(), rows, health=HEALTH)


def many_tokens(count: int) -> SegmentResult:
    frames = tuple(10 + 9.9 * i / count for i in range(count))
    return result_of(closed_segment(), [Row(sent_s=9.0, frames=frames)], health=HEALTH)


def judge(
    *results: SegmentResult,
    windows: tuple[EngineWindow, ...] | None = None,
    time_scale: float = 1.0,
    ttft_p95_ms: float | None = None,
    slo_ttft_ms: float | None = None,
) -> Instrument:
    return instrument(
        results,
        windows or (EngineWindow(),) * len(results),
        time_scale=time_scale,
        ttft_p95_ms=ttft_p95_ms,
        slo_ttft_ms=slo_ttft_ms,
    )


def test_a_good_instrument_is_valid_and_says_what_it_saw() -> None:
    verdict = judge(sent_late(*[0.001] * 100), ttft_p95_ms=200.0)
    assert verdict.valid
    assert verdict.reasons == ()
    assert verdict.send_lag_p50_ms is not None
    assert abs(verdict.send_lag_p50_ms - 1.0) < 1e-6
    assert (verdict.client_cpu_share, verdict.loop_stall_max_ms) == (0.2, 3.0)
    assert verdict.clock == "a clock"


def test_how_many_processes_sent_is_told() -> None:
    one = sent_late(*[0.001] * 20)
    three = replace(one, report=replace(one.report, processes=3))
    assert judge(one).load_processes == 1
    assert judge(one, three).load_processes == 3


def test_users_of_a_closed_loop_have_no_schedule_to_be_late_for() -> None:
    users = UserLoopSegment((PlannedRequest(0, 1, 1, 1),), 2, 10.0, 10.0, 5.0)
    rows = [Row(due_s=11.0, sent_s=11.5, frames=(11.9,)) for _ in range(40)]
    verdict = judge(result_of(users, rows), ttft_p95_ms=900.0)
    assert verdict.valid
    assert (verdict.send_lag_p95_ms, verdict.sent_over_offered) == (None, None)
    assert verdict.client_ttft_mean_ms == pytest.approx(400.0)


def test_first_tokens_of_users_are_held_against_the_engines_own_clock() -> None:
    users = UserLoopSegment((PlannedRequest(0, 1, 1, 1),), 2, 10.0, 10.0, 5.0)
    begun_s = [11.0 + i / 10 for i in range(40)]
    rows = [Row(due_s=at_s, sent_s=at_s, frames=(at_s + 0.1,)) for at_s in begun_s]
    windows = (EngineWindow(ttft_mean_ms=400.0),)
    verdict = judge(result_of(users, rows), windows=windows, ttft_p95_ms=100.0)
    assert not verdict.valid
    assert "first tokens took 100 ms here but 400 ms" in verdict.reasons[0]


def test_a_late_generator_is_invalid() -> None:
    verdict = judge(sent_late(*[0.003] * 100))
    assert not verdict.valid
    assert verdict.reasons == (
        "requests left 3.0 ms late (p95), more than 2.0 ms",
        "requests left 3.0 ms late (p99), more than 2.0 ms",
    )


def test_lateness_that_cannot_move_the_ttft_is_allowed() -> None:
    assert judge(sent_late(*[0.009] * 100), ttft_p95_ms=200.0).valid
    assert not judge(sent_late(*[0.011] * 100), ttft_p95_ms=200.0).valid


def test_lateness_within_the_slo_share_is_allowed() -> None:
    assert judge(sent_late(*[0.009] * 100), slo_ttft_ms=500.0).valid
    assert not judge(sent_late(*[0.011] * 100), slo_ttft_ms=500.0).valid


def test_one_late_request_in_a_hundred_is_no_fault_unless_very_late() -> None:
    assert judge(sent_late(*[0.001] * 198, 0.04, 0.04), ttft_p95_ms=200.0).valid
    verdict = judge(sent_late(*[0.001] * 97, 0.06, 0.06, 0.06), ttft_p95_ms=200.0)
    assert verdict.reasons == ("requests left 60.0 ms late (p99), more than 50.0 ms",)


def test_a_single_stall_does_not_spoil_a_window_of_few_requests() -> None:
    late_once = sent_late(*[0.001] * 43, 0.3)
    verdict = judge(late_once, ttft_p95_ms=300.0)
    assert verdict.valid
    assert verdict.send_lag_p99_ms is not None
    assert verdict.send_lag_p99_ms > 100  # told as it was
    twice = judge(sent_late(*[0.001] * 42, 0.3, 0.3), ttft_p95_ms=300.0)
    assert "(p99)" in " ".join(twice.reasons)


def test_of_fewer_than_twenty_requests_none_may_be_late() -> None:
    verdict = judge(sent_late(*[0.001] * 15, 0.3), ttft_p95_ms=300.0)
    assert "(p99)" in " ".join(verdict.reasons)


def test_on_a_faster_than_real_engine_wall_clock_lateness_weighs_more() -> None:
    # Records are engine time: 0.015 s at ten times real time were 1.5 ms on the wall.
    verdict = judge(sent_late(*[0.015] * 100), time_scale=10.0, ttft_p95_ms=200.0)
    assert not verdict.valid
    assert verdict.send_lag_p99_ms is not None
    assert abs(verdict.send_lag_p99_ms - 1.5) < 1e-6
    assert judge(sent_late(*[0.015] * 100), time_scale=10.0, ttft_p95_ms=400.0).valid


def test_only_requests_of_the_window_count_for_the_lag() -> None:
    rows = [
        Row(due_s=1.0, sent_s=3.0, frames=(4.0,)),
        Row(due_s=12.0, sent_s=12.001, frames=(13.0,)),
        Row(due_s=22.0, sent_s=24.0, frames=(25.0,)),
    ]
    assert judge(result_of(open_segment(), rows)).valid


def test_a_generator_at_its_limit_is_invalid() -> None:
    busy = result_of(open_segment(), [], health=GeneratorHealth(0.85, 1.0, 1))
    assert judge(busy).reasons == ("the generator used 85% of a processor, more than 80%",)


def test_the_worst_segment_decides() -> None:
    busy = result_of(closed_segment(), [], health=GeneratorHealth(0.9, 1.0, 1))
    verdict = judge(sent_late(0.001), busy)
    assert not verdict.valid
    assert verdict.client_cpu_share == 0.9


def test_a_generator_that_stood_still_is_invalid() -> None:
    stalled = result_of(open_segment(), [], health=GeneratorHealth(0.1, 30.0, 1))
    assert judge(stalled).valid
    assert judge(stalled, time_scale=10.0).reasons == (
        "the generator stood still for 300 ms, more than 100 ms",
    )
    assert judge(stalled, time_scale=10.0, ttft_p95_ms=400.0).valid


def test_requests_that_were_not_sent_in_time_are_told() -> None:
    rows = [Row(due_s=10 + i / 20, sent_s=10 + i / 20, frames=(19.0,)) for i in range(98)]
    rows += [Row(due_s=19.0, outcome=Outcome.NOT_SENT)] * 2
    verdict = judge(result_of(open_segment(), rows))
    assert verdict.reasons == ("only 98.0% of the requests were sent in time",)


def test_a_request_that_was_never_sent_is_not_forgiven() -> None:
    rows = [Row(due_s=10 + i / 20, sent_s=10 + i / 20, frames=(19.0,)) for i in range(43)]
    rows.append(Row(due_s=19.0, outcome=Outcome.NOT_SENT))
    (reason,) = judge(result_of(open_segment(), rows)).reasons
    assert reason == "only 97.7% of the requests were sent in time"


def test_the_engines_token_counter_is_compared() -> None:
    agreeing = EngineWindow(generation_tokens=2050.0)
    verdict = judge(many_tokens(2000), windows=(agreeing,))
    assert verdict.valid
    assert (verdict.client_output_tokens, verdict.server_output_tokens) == (2000, 2050)
    verdict = judge(many_tokens(2000), windows=(EngineWindow(generation_tokens=2200.0),))
    assert verdict.reasons == ("2000 tokens arrived but the engine counted 2200",)


def test_a_few_tokens_more_or_less_prove_nothing() -> None:
    assert judge(many_tokens(20), windows=(EngineWindow(generation_tokens=60.0),)).valid


def test_tokens_are_not_compared_when_a_window_has_no_counter() -> None:
    windows = (EngineWindow(generation_tokens=9000.0), EngineWindow())
    verdict = judge(many_tokens(2000), many_tokens(2000), windows=windows)
    assert verdict.valid
    assert verdict.server_output_tokens is None
    assert verdict.client_output_tokens == 4000


def test_a_warm_prefix_cache_is_found_out() -> None:
    warm = EngineWindow(prefix_hit_rate=0.3, preemptions=0)
    verdict = judge(sent_late(0.001), windows=(warm,))
    assert verdict.reasons == ("the prefix cache answered 30.0% of unique prompts",)
    assert verdict.prefix_hit_rate == 0.3


def sharing(*blocks: tuple[tuple[int, int], ...]) -> SegmentResult:
    """Requests of 100 prompt tokens that begin with these blocks, sent in this order."""
    requests = tuple(
        PlannedRequest(i, 100, 1, i, 10.0 + i, blocks=each) for i, each in enumerate(blocks)
    )
    rows = [
        Row(due_s=10.0 + i, sent_s=10.0 + i, frames=(19.0,), prompt_tokens=100)
        for i in range(len(blocks))
    ]
    return result_of(replace(open_segment(), requests=requests), rows, health=HEALTH)


def test_hits_that_the_workload_implies_are_no_fault() -> None:
    shared = sharing(((1, 60),), ((1, 60),), ((1, 60), (2, 30)), ((1, 30),))
    # 0 + 60 + 60 + 30 of 400 tokens.
    window = EngineWindow(prefix_hit_rate=0.375, preemptions=0)
    verdict = judge(shared, windows=(window,))
    assert verdict.valid
    assert verdict.prefix_hit_rate == 0.0


def test_what_was_sent_before_and_admitted_in_the_window_is_implied_too() -> None:
    shared = sharing(((1, 60),), ((1, 60),))
    # Of 150 tokens that were asked for 60 are implied: the counter began with the second request.
    window = EngineWindow(prefix_hit_rate=0.4, prefix_query_tokens=150.0, preemptions=0)
    assert judge(shared, windows=(window,)).valid
    warm = EngineWindow(prefix_hit_rate=0.6, prefix_query_tokens=150.0, preemptions=0)
    assert judge(shared, windows=(warm,)).reasons == (
        "the prefix cache answered 20.0% of unique prompts",
    )


def test_hits_beyond_those_are_a_warm_cache() -> None:
    shared = sharing(((1, 60),), ((2, 60),))
    window = EngineWindow(prefix_hit_rate=0.3, preemptions=0)
    assert judge(shared, windows=(window,)).reasons == (
        "the prefix cache answered 30.0% of unique prompts",
    )


def test_hits_of_preempted_requests_on_their_own_blocks_are_no_fault() -> None:
    preempted = EngineWindow(prefix_hit_rate=0.3, preemptions=5)
    assert judge(sent_late(0.001), windows=(preempted,)).valid


def test_a_warm_prefix_cache_cannot_hide_behind_preemptions() -> None:
    # Two requests of eleven tokens explain 22 of 300 tokens found.
    warm = EngineWindow(prefix_hit_rate=0.3, prefix_query_tokens=1000.0, preemptions=2)
    verdict = judge(sent_late(0.001), windows=(warm,))
    assert verdict.reasons == ("the prefix cache answered 27.8% of unique prompts",)
    own = EngineWindow(prefix_hit_rate=0.3, prefix_query_tokens=1000.0, preemptions=30)
    assert judge(sent_late(0.001), windows=(own,)).valid


def prompts(*tokens: int) -> SegmentResult:
    """Requests in the window that each had a first token."""
    rows = [
        Row(due_s=11.0 + i, sent_s=11.0 + i, frames=(11.5 + i,), prompt_tokens=count)
        for i, count in enumerate(tokens)
    ]
    return result_of(open_segment(), rows, health=HEALTH)


def test_prompts_of_somebody_else_are_found_out() -> None:
    ours = prompts(1000, 2000, 3000)
    foreign = EngineWindow(prompt_tokens=6000.0 + 6001.0)
    verdict = judge(ours, windows=(foreign,))
    assert verdict.reasons == ("the engine read 12001 prompt tokens but 6000 were ours",)
    assert judge(ours, windows=(EngineWindow(prompt_tokens=12000.0),)).valid


def test_fewer_prompts_than_we_sent_and_a_missing_counter_are_no_foreign_ones() -> None:
    assert judge(prompts(1000, 2000), windows=(EngineWindow(prompt_tokens=0.0),)).valid
    assert judge(prompts(1000, 2000), windows=(EngineWindow(),)).valid


def test_a_load_that_was_given_up_or_ran_out_is_invalid() -> None:
    given_up = result_of(open_segment(), [], health=None, given_up="32 in a row")
    assert judge(given_up).reasons == ("the load was given up: 32 in a row",)
    exhausted = result_of(closed_segment(), [], health=HEALTH, list_exhausted=True)
    assert judge(exhausted).reasons == ("the engine used up all 1 requests of the list",)


def test_an_engine_that_was_started_anew_is_found_out() -> None:
    (reason,) = judge(sent_late(0.001), windows=(EngineWindow(restarted=True),)).reasons
    assert "started anew" in reason


def test_a_window_whose_counters_were_not_read_at_both_ends_is_refused() -> None:
    """Its preemptions would be unknown, and an unknown penalty would be none."""
    (reason,) = judge(sent_late(0.001), windows=(EngineWindow(cut_off=True),)).reasons
    assert "could not be read before and after" in reason


def test_what_was_not_measured_is_none() -> None:
    verdict = judge(result_of(closed_segment(), [], health=None))
    assert verdict.send_lag_p50_ms is None
    assert verdict.client_cpu_share is None
    assert verdict.loop_stall_max_ms is None
    assert verdict.prefix_hit_rate is None


def two_tokens(ttft_s: float, gap_s: float) -> SegmentResult:
    rows = [
        Row(due_s=due_s, sent_s=due_s, frames=(due_s + ttft_s, due_s + ttft_s + gap_s))
        for due_s in (11.0, 12.0, 13.0)
    ]
    return result_of(open_segment(), rows, health=HEALTH)


def test_an_embedded_engine_that_falls_behind_its_own_clock_is_found_out() -> None:
    own = EngineWindow(ttft_mean_ms=200.0, itl_mean_ms=100.0)
    late = judge(two_tokens(0.3, 0.3), windows=(own,), time_scale=10.0, ttft_p95_ms=500.0)
    assert late.reasons == (
        "first tokens took 300 ms here but 200 ms by the engine's own clock",
        "tokens took 300 ms here but 100 ms by the engine's own clock",
    )


def test_an_embedded_engine_may_differ_a_little_from_its_own_clock() -> None:
    own = EngineWindow(ttft_mean_ms=200.0, itl_mean_ms=100.0)
    near = two_tokens(0.26, 0.11)
    assert judge(near, windows=(own,), time_scale=10.0, ttft_p95_ms=500.0).valid
    quick = EngineWindow(ttft_mean_ms=1.0, itl_mean_ms=1.0)
    assert judge(two_tokens(0.004, 0.004), windows=(quick,), time_scale=10.0).valid


@pytest.mark.parametrize("time_scale", [1.0, 2.5])
def test_of_few_requests_one_at_an_end_may_count_on_one_side_only(time_scale: float) -> None:
    """Eight of 0.1 s, and one of 0.5 s that the engine's reading of the window still holds."""
    rows = [
        Row(due_s=at, sent_s=at, frames=(at + 0.1, at + 0.2))
        for at in (11.0, 12.0, 13.0, 14.0, 15.0, 16.0, 17.0)
    ]
    slow = Row(due_s=18.0, sent_s=18.0, frames=(18.5, 18.6))
    result = result_of(open_segment(), [*rows, slow], health=HEALTH)
    theirs = (7 * 100.0 + 2 * 500.0) / 9
    near, far = EngineWindow(ttft_mean_ms=theirs), EngineWindow(ttft_mean_ms=2.0 * theirs)

    assert judge(result, windows=(near,), time_scale=time_scale, ttft_p95_ms=120.0).valid
    assert not judge(result, windows=(far,), time_scale=time_scale, ttft_p95_ms=120.0).valid


def test_what_a_real_engines_http_server_adds_is_no_error() -> None:
    own = EngineWindow(ttft_mean_ms=200.0, itl_mean_ms=100.0)
    verdict = judge(two_tokens(0.9, 0.9), windows=(own,), ttft_p95_ms=500.0)
    assert verdict.valid
    assert verdict.client_ttft_mean_ms == pytest.approx(900.0)
    assert verdict.server_ttft_mean_ms == 200.0


def test_a_real_engines_tokens_that_come_before_it_made_them_are_found_out() -> None:
    own = EngineWindow(ttft_mean_ms=400.0)
    verdict = judge(two_tokens(0.3, 0.1), windows=(own,), ttft_p95_ms=500.0)
    assert verdict.reasons == (
        "first tokens took 300 ms here but 400 ms by the engine's own clock",
    )


def test_a_real_engines_tokens_may_come_a_little_before_it_says() -> None:
    own = EngineWindow(ttft_mean_ms=340.0)
    assert judge(two_tokens(0.3, 0.1), windows=(own,), ttft_p95_ms=500.0).valid


def test_first_tokens_are_not_compared_where_the_engine_does_not_count_them() -> None:
    verdict = judge(two_tokens(0.3, 0.1), windows=(EngineWindow(),), ttft_p95_ms=500.0)
    assert verdict.valid
    assert verdict.server_ttft_mean_ms is None


def test_a_clock_that_was_set_during_the_load_is_found_out() -> None:
    kept, moved = many_tokens(10), many_tokens(10)
    moved = replace(moved, report=replace(moved.report, clock_step_ms=1500.0))
    assert judge(kept).valid
    (reason,) = judge(kept, moved).reasons
    assert reason == "the host's clock was set by 1500.0 ms during the load"


def test_the_time_to_first_token_in_saturation_only_measures_the_queue() -> None:
    own = EngineWindow(ttft_mean_ms=200.0)
    row = Row(sent_s=11.0, frames=(15.0, 15.1))
    saturated = result_of(closed_segment(), [row], health=HEALTH)
    assert judge(saturated, windows=(own,), time_scale=10.0).valid


def streams(*gaps_s: float, count: int = 10) -> SegmentResult:
    """Answers in a saturated window whose tokens come at these gaps."""
    rows = []
    for number in range(count):
        begin_s = 10.5 + 0.1 * number
        frames = [begin_s]
        for gap_s in gaps_s:
            frames.append(frames[-1] + gap_s)
        rows.append(Row(sent_s=9.0, frames=tuple(frames)))
    return result_of(closed_segment(), rows, health=HEALTH)


def stalling(result: SegmentResult, stall_ms: float) -> SegmentResult:
    health = GeneratorHealth(0.2, stall_ms, 100)
    return replace(result, report=replace(result.report, health=health))


TOGETHER = (0.02, 0.0, 0.02, 0.02)


def test_tokens_read_together_by_a_generator_that_stood_still_are_found_out() -> None:
    verdict = judge(stalling(streams(*TOGETHER), 50.0))
    assert verdict.reasons == ("25.0% of the tokens were read together with the one before",)
    assert verdict.coalesced_share == pytest.approx(0.25)


def test_tokens_that_the_engine_sent_together_are_no_fault_of_the_instrument() -> None:
    verdict = judge(stalling(streams(*TOGETHER), 3.0))
    assert verdict.valid
    assert verdict.coalesced_share == pytest.approx(0.25)


def test_tokens_read_one_by_one_need_no_explanation() -> None:
    verdict = judge(stalling(streams(0.02, 0.02), 50.0))
    assert verdict.valid
    assert verdict.coalesced_share == 0.0
    assert judge(sent_late(0.001)).coalesced_share is None


def test_an_embedded_engine_answers_for_its_tokens_itself() -> None:
    assert judge(stalling(streams(*TOGETHER), 5.0), time_scale=10.0).valid


def in_flight(count: int) -> SegmentResult:
    """So many requests in flight throughout a saturated window."""
    rows = [Row(sent_s=9.0, frames=(15.0,), ended_s=25.0)] * count
    return result_of(closed_segment(concurrency=count), rows, health=HEALTH)


def test_requests_that_something_before_the_engine_holds_back_are_found_out() -> None:
    verdict = judge(in_flight(200), windows=(EngineWindow(in_flight_mean=100.0),))
    assert verdict.reasons == ("200 requests were in flight but only 100 of them at the engine",)
    assert verdict.client_in_flight == pytest.approx(200.0)
    assert verdict.server_in_flight == 100.0


def test_requests_of_somebody_else_at_the_engine_are_found_out() -> None:
    verdict = judge(in_flight(40), windows=(EngineWindow(in_flight_mean=60.0),))
    assert verdict.reasons == ("60 requests were at the engine but 40 were ours",)


@pytest.mark.parametrize("at_engine", [35.0, 45.0, None])
def test_a_few_requests_more_or_less_at_the_engine_prove_nothing(at_engine: float | None) -> None:
    assert judge(in_flight(40), windows=(EngineWindow(in_flight_mean=at_engine),)).valid
    few = judge(in_flight(2), windows=(EngineWindow(in_flight_mean=4.0),))
    assert few.valid


def test_in_an_open_loop_the_number_in_flight_is_not_held_and_not_compared() -> None:
    verdict = judge(sent_late(*[0.001] * 30), windows=(EngineWindow(in_flight_mean=500.0),))
    assert verdict.valid
    assert verdict.client_in_flight is None


def test_the_whole_block_is_told() -> None:
    kept = judge(sent_late(*[0.001] * 100), in_flight(5))
    assert kept.sent_over_offered == 1.0
    assert kept.send_lag_p95_ms == pytest.approx(1.0)
    assert kept.clock_step_ms == 0.0
    assert (kept.cache_salt, kept.cache_reset) == (True, None)
