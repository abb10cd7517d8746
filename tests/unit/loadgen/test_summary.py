from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from objectives.measurement import Distribution, LatencySegment, RequestCounts
from objectives.slo import Slo
from tests.support.load_records import Row, closed_segment, open_segment, result_of
from tuner.domain.engine_window import EngineWindow
from tuner.loadgen.load_result import SegmentResult
from tuner.loadgen.plan import PlannedRequest, UserLoopSegment
from tuner.loadgen.records import Outcome
from tuner.loadgen.summary import capacity_segment, latency_segment

ENGINE = EngineWindow(
    preemptions=3, kv_usage_peak=0.5, running_peak=7.0, waiting_peak=2.0, gpu_utilization=0.9
)
WARMUP = Row(due_s=9.9, sent_s=9.9, frames=(10.5, 10.6))
COOLDOWN = Row(due_s=20.0, sent_s=20.0, frames=(20.1, 20.2))


def row(due_s: float, ttft_s: float = 0.5, tokens: int = 3, lag_s: float = 0.0) -> Row:
    """A completed request with 0.1 s between its tokens."""
    frames = tuple(due_s + ttft_s + 0.1 * number for number in range(tokens))
    return Row(due_s=due_s, sent_s=due_s + lag_s, frames=frames)


def latency(*rows: Row, slo: Slo | None = None) -> LatencySegment:
    """Warm-up until 10 s, window until 20 s, drain until 25 s."""
    return latency_segment(result_of(open_segment(), rows), ENGINE, slo=slo)


def of(distribution: Distribution | None) -> Distribution:
    assert distribution is not None
    return distribution


def test_only_requests_scheduled_in_the_window_are_measured() -> None:
    segment = latency(WARMUP, row(10.0), row(19.99), COOLDOWN)
    assert segment.requests == RequestCounts(scheduled=2, completed=2, failed=0, unfinished=0)
    assert of(segment.ttft_ms).mean.n == 2
    assert of(segment.ttft_ms).max.value == pytest.approx(500.0)
    assert segment.offered_per_s == pytest.approx(0.2)


def test_ttft_includes_the_generators_own_delay() -> None:
    segment = latency(row(10.0, ttft_s=0.5, lag_s=0.2))
    assert of(segment.ttft_ms).max.value == pytest.approx(500.0)
    assert of(segment.e2e_ms).max.value == pytest.approx(500.0)


def test_achieved_counts_what_was_sent_within_the_window() -> None:
    late = Row(due_s=19.0, sent_s=20.5, frames=(21.0,))
    unsent = Row(due_s=19.5, outcome=Outcome.NOT_SENT)
    segment = latency(row(10.0), late, unsent)
    assert segment.offered_per_s == pytest.approx(0.3)
    assert segment.achieved_per_s == pytest.approx(0.1)


def test_a_request_without_a_first_token_is_censored_at_the_drains_length() -> None:
    waiting = Row(due_s=12.0, sent_s=12.0, outcome=Outcome.UNFINISHED, ended_s=25.0)
    segment = latency(row(10.0), waiting)
    assert of(segment.ttft_ms).max.value == 5000.0
    assert of(segment.ttft_ms).censored == 1
    assert segment.requests == RequestCounts(scheduled=2, completed=1, failed=0, unfinished=1)


def test_a_first_token_beyond_the_cap_is_cut_there_too() -> None:
    segment = latency(row(10.0, ttft_s=9.0), row(11.0, ttft_s=5.0))
    assert of(segment.ttft_ms).max.value == 5000.0
    assert of(segment.ttft_ms).censored == 1


@pytest.mark.parametrize("outcome", [Outcome.HTTP_ERROR, Outcome.STALLED, Outcome.NOT_SENT])
def test_a_request_that_failed_before_its_first_token_flatters_nobody(outcome: Outcome) -> None:
    segment = latency(row(10.0), Row(due_s=12.0, sent_s=12.0, outcome=outcome))
    assert of(segment.ttft_ms).censored == 1
    assert of(segment.ttft_ms).max.value == 5000.0


def test_failures_and_unfinished_are_counted_apart() -> None:
    rows = [Row(due_s=12.0, sent_s=12.0, outcome=outcome) for outcome in Outcome]
    counts = latency(*rows).requests
    assert (counts.completed, counts.unfinished) == (1, 2)
    assert counts.failed == len(Outcome) - 3
    assert counts.scheduled == counts.completed + counts.failed + counts.unfinished


def test_tpot_of_an_interrupted_request_is_counted_as_censored() -> None:
    interrupted = Row(
        due_s=12.0, sent_s=12.0, frames=(13.0, 14.0), outcome=Outcome.UNFINISHED, ended_s=25.0
    )
    segment = latency(row(10.0), interrupted)
    assert of(segment.tpot_ms).max.value == pytest.approx(1000.0)
    assert of(segment.tpot_ms).censored == 1
    assert of(segment.e2e_ms).censored == 1
    assert of(segment.ttft_ms).censored == 0


def test_single_token_answers_have_no_tpot() -> None:
    segment = latency(row(10.0, tokens=1), row(11.0, tokens=1))
    assert segment.tpot_ms is None
    assert segment.itl_ms is None
    assert of(segment.ttft_ms).mean.n == 2


def test_itl_pools_the_gaps_of_measured_requests() -> None:
    segment = latency(WARMUP, row(10.0, tokens=3), row(11.0, tokens=5))
    assert of(segment.itl_ms).mean.n == 6
    assert of(segment.itl_ms).p99.value == pytest.approx(100.0)


def test_throughput_counts_tokens_by_arrival_in_the_window_of_all_requests() -> None:
    straddling = Row(due_s=9.0, sent_s=9.0, frames=(9.5, 10.5, 11.5))
    late = Row(due_s=19.0, sent_s=19.0, frames=(19.5, 20.5))
    segment = latency(straddling, late)
    assert segment.output_tokens_per_s is not None
    assert segment.output_tokens_per_s.value == pytest.approx(0.3)
    assert segment.output_tokens_per_s.n == 3
    assert segment.output_tokens_per_s.low is not None


def test_a_window_without_requests_has_no_latencies() -> None:
    segment = latency(WARMUP)
    assert segment.ttft_ms is None
    assert segment.e2e_ms is None
    assert segment.requests.scheduled == 0
    assert segment.output_tokens_per_s is not None
    assert segment.output_tokens_per_s.value == pytest.approx(0.2)


def test_what_the_engine_reported_is_passed_on() -> None:
    segment = latency(row(10.0))
    assert (segment.preemptions, segment.kv_usage_peak) == (3, 0.5)
    assert (segment.running_peak, segment.waiting_peak) == (7.0, 2.0)
    assert segment.gpu_utilization == 0.9


def test_what_the_engine_did_not_report_stays_none() -> None:
    segment = latency_segment(result_of(open_segment(), [row(10.0)]), EngineWindow())
    assert segment.preemptions is None
    assert segment.kv_usage_peak is None
    assert segment.preemptions_per_request is None


def test_attainment_counts_every_scheduled_request() -> None:
    failed = Row(due_s=12.0, sent_s=12.0, outcome=Outcome.HTTP_ERROR)
    waiting = Row(due_s=13.0, sent_s=13.0, outcome=Outcome.UNFINISHED)
    slow = row(14.0, ttft_s=2.0)
    segment = latency(row(10.0), failed, waiting, slow, slo=Slo(ttft_ms=1000.0))
    assert segment.slo_attainment is not None
    assert (segment.slo_attainment.value, segment.slo_attainment.n) == (0.25, 4)
    assert segment.goodput_per_s is not None
    assert segment.goodput_per_s.value == pytest.approx(0.1)


def test_the_slo_counts_ttft_from_the_schedule() -> None:
    late = row(10.0, ttft_s=0.6, lag_s=0.5)
    segment = latency(late, slo=Slo(ttft_ms=500.0))
    assert segment.slo_attainment is not None
    assert segment.slo_attainment.value == 0.0


def test_without_an_slo_there_is_no_attainment() -> None:
    segment = latency(row(10.0))
    assert segment.slo_attainment is None
    assert segment.goodput_per_s is None


def test_latencies_are_not_of_saturation_and_capacity_is_of_nothing_else() -> None:
    with pytest.raises(TypeError, match="saturation"):
        latency_segment(result_of(closed_segment(), []), ENGINE)
    with pytest.raises(TypeError, match="closed loop"):
        capacity_segment(result_of(open_segment(), []), ENGINE)


def closed_rows() -> list[Row]:
    return [
        Row(sent_s=8.0, frames=(9.0, 11.0), ended_s=11.0),
        Row(sent_s=10.0, frames=(12.0, 13.0), ended_s=13.0),
        Row(sent_s=11.0, outcome=Outcome.HTTP_ERROR, ended_s=11.5),
        Row(sent_s=13.0, frames=(19.0,), outcome=Outcome.UNFINISHED, ended_s=20.001),
        Row(sent_s=2.0, frames=(3.0,), ended_s=3.0),
    ]


def test_capacity_counts_what_ended_within_the_window() -> None:
    segment = capacity_segment(result_of(closed_segment(), closed_rows()), ENGINE)
    assert segment.requests == RequestCounts(scheduled=3, completed=2, failed=1, unfinished=1)
    assert segment.output_tokens_per_s is not None
    assert segment.output_tokens_per_s.value == pytest.approx(0.4)
    assert segment.requests_per_s is not None
    assert segment.requests_per_s.value == pytest.approx(0.2)
    assert segment.preemptions_per_request == 1.5
    assert segment.concurrency == 2


def steady(rate: float) -> SegmentResult:
    step = 1 / rate
    rows = [
        Row(sent_s=10 + step * index, frames=(10 + step * (index + 0.5),))
        for index in range(int(10 * rate))
    ]
    return result_of(closed_segment(), rows)


@pytest.mark.parametrize("rate", [10.0, 100.0])
def test_a_steady_engines_throughput_has_a_narrow_interval(rate: float) -> None:
    tokens = capacity_segment(steady(rate), ENGINE).output_tokens_per_s
    assert tokens is not None
    assert tokens.value == pytest.approx(rate)
    assert tokens.low is not None
    assert tokens.high is not None
    assert tokens.high - tokens.low < 0.1 * rate


@given(
    dues=st.lists(st.floats(10.0, 19.9), min_size=1, max_size=40, unique=True).map(sorted),
    factor=st.floats(1.0, 20.0),
)
def test_slower_first_tokens_never_lower_any_percentile(dues: list[float], factor: float) -> None:
    fast = of(latency(*(row(due, ttft_s=0.4) for due in dues)).ttft_ms)
    slow = of(latency(*(row(due, ttft_s=0.4 * factor) for due in dues)).ttft_ms)
    for name in ("p50", "p90", "p95", "p99"):
        assert slow.percentile(name).value >= fast.percentile(name).value - 1e-6
    assert slow.max.value <= 5000.0


USERS = UserLoopSegment((PlannedRequest(0, 1, 1, 1),), 3, 10.0, 10.0, 5.0, 1.5)


def test_of_users_those_requests_count_whose_turn_came_in_the_window() -> None:
    waits = Row(due_s=19.0, sent_s=19.0, outcome=Outcome.UNFINISHED)
    refused = Row(due_s=12.0, outcome=Outcome.CONNECT_FAILED, ended_s=12.0)
    rows = (WARMUP, row(10.0), row(15.0, ttft_s=2.0), refused, waits, COOLDOWN)
    segment = latency_segment(result_of(USERS, rows), ENGINE, slo=Slo(ttft_ms=1000))
    assert segment.requests == RequestCounts(scheduled=4, completed=2, failed=1, unfinished=1)
    assert segment.offered_per_s == pytest.approx(0.4)
    assert segment.slo_attainment is not None
    assert segment.goodput_per_s is not None
    assert segment.slo_attainment.value == 0.25
    assert segment.goodput_per_s.value == pytest.approx(0.1)
    assert of(segment.ttft_ms).max.value == 5000.0
    assert of(segment.ttft_ms).censored == 2
    assert (segment.concurrency, segment.think_s) == (3, 1.5)
    assert segment.prefix is None, "two configurations were not sent the same requests first"


def test_an_open_loop_has_no_users() -> None:
    segment = latency(row(10.0))
    assert (segment.concurrency, segment.think_s) == (None, None)
    assert segment.prefix is not None
