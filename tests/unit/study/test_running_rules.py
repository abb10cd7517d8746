from __future__ import annotations

import dataclasses
import json
import math

import pytest

from objectives.measurement import PrefixSummary
from tests.support.load_records import closed_segment
from tests.support.study_measurements import distribution
from tests.unit.study.test_early_abort import bar
from tuner.loadgen.load_result import LoadProgress
from tuner.loadgen.plan import OpenLoopSegment, PlannedRequest, Segment
from tuner.study.early_abort import Abort
from tuner.study.running_rules import EARLIEST_TREND, STILL_SERVED, BacklogRule, FailureRule

RATE, WARMUP_S, WINDOW_S = 10.0, 10.0, 100.0


def latency() -> OpenLoopSegment:
    """Ten requests a second."""
    requests = tuple(PlannedRequest(i, 10, 5, i, i / RATE) for i in range(1300))
    return OpenLoopSegment(requests, WARMUP_S, WINDOW_S, 20.0)


SEGMENTS: tuple[Segment, ...] = (latency(), closed_segment())


def progress(
    elapsed_s: float,
    unanswered: int = 0,
    *,
    completed: int = 0,
    failed: int = 0,
    phase: str = "window",
    segment: int = 0,
) -> LoadProgress:
    counts = (completed, failed, 50, None, (), unanswered)
    return LoadProgress(segment, phase, elapsed_s, 130.0, *counts)


def backlog_rule(**changes: object) -> BacklogRule:
    held = dataclasses.replace(bar(), **changes)  # type: ignore[arg-type]
    return BacklogRule(held, SEGMENTS, latency())


def until_abort(rule: BacklogRule, growth_per_s: float, until_s: float) -> Abort | None:
    """A queue that grows from five requests on, reported four times a second."""
    found = None
    for tick in range(int(4 * (until_s - WARMUP_S))):
        at_s = WARMUP_S + tick / 4
        waiting = 5 + round(growth_per_s * (at_s - WARMUP_S))
        found = found or rule.look(progress(at_s, waiting))
    return found


def test_a_configuration_that_cannot_hold_the_rate_is_cut_short_with_its_numbers() -> None:
    found = until_abort(backlog_rule(), growth_per_s=5.0, until_s=109.0)
    assert found is not None
    assert found.rule == "backlog"
    assert WARMUP_S + EARLIEST_TREND * WINDOW_S <= found.looked_at_s < 45.0
    numbers = found.evidence
    assert numbers["now"] - numbers["before"] > numbers["allowed_growth"]
    assert numbers["arrivals"] == pytest.approx(RATE * (found.looked_at_s - WARMUP_S), abs=2)
    # Half of the rate is not served: 0.95 of the window's arrivals, halved, wait at ten a second.
    assert numbers["wait_ms"] == pytest.approx(1000 * (5 + 0.95 * 500) / RATE, rel=0.05)
    assert found.behind == pytest.approx(math.log(numbers["wait_ms"] / 400.0) / 3)
    assert found.behind is not None
    assert found.extrapolated == pytest.approx(0.2 - found.behind)
    assert found.saved_s == pytest.approx(110.0 + 20.0 - found.looked_at_s)
    assert "requests without a token after 5 at the window's beginning" in found.reason
    assert json.loads(json.dumps(found.to_dict()))["evidence"] == numbers


def test_a_queue_that_stands_goes_on() -> None:
    rule = backlog_rule()
    assert until_abort(rule, growth_per_s=0.0, until_s=109.0) is None


def test_a_burst_goes_on() -> None:
    """Thirty waiting at once after two seconds, and all served afterwards."""
    rule = backlog_rule()
    assert rule.look(progress(WARMUP_S, 2)) is None
    assert rule.look(progress(WARMUP_S + 2.0, 32)) is None
    assert rule.look(progress(WARMUP_S + 20.0, 3)) is None


def test_where_the_best_trial_cannot_hold_the_rate_either_nothing_is_hopeless() -> None:
    drowned = PrefixSummary(15.0, 31.0, 40, 20, distribution(400.0), distribution(40.0))
    assert until_abort(backlog_rule(prefix=drowned), 5.0, 109.0) is None


def test_a_wait_that_the_rest_might_make_up_for_goes_on() -> None:
    assert until_abort(backlog_rule(hope=2.0), 5.0, 109.0) is None
    assert until_abort(backlog_rule(ttft_weight=0.1, tpot_weight=0.9), 5.0, 109.0) is None
    slow = PrefixSummary(15.0, 31.0, 40, 0, distribution(20_000.0), distribution(40.0))
    assert until_abort(backlog_rule(prefix=slow), 5.0, 109.0) is None


@pytest.mark.parametrize(
    "elsewhere", [{"phase": "warmup"}, {"phase": "drain"}, {"segment": 1}], ids=str
)
def test_only_the_latency_window_is_looked_at(elsewhere: dict[str, object]) -> None:
    rule = backlog_rule()
    assert rule.look(progress(WARMUP_S, 0)) is None
    late = progress(60.0, 400, **elsewhere)  # type: ignore[arg-type]
    assert rule.look(late) is None
    assert rule.look(progress(60.0, 400)) is not None


def failures(failed_share: float = 0.0) -> FailureRule:
    return FailureRule(3, failed_share, SEGMENTS)


def test_failing_requests_end_a_load_that_is_served_all_the_same() -> None:
    rule = failures()
    assert rule.look(progress(20.0, completed=100, failed=1)) is None
    assert rule.look(progress(30.0, completed=180, failed=20)) is None
    found = rule.look(progress(32.0, completed=180 + STILL_SERVED, failed=21))
    assert found is not None
    assert (found.rule, found.behind, found.allowed, found.extrapolated) == (
        "errors",
        None,
        None,
        None,
    )
    assert found.evidence == {"ended": 211, "failed": 21}
    assert found.reason == "cut short: 21 of 211 requests failed, 0.0% with trial 3"
    assert found.saved_s == pytest.approx(130.0 - 32.0)


def test_an_engine_that_answers_nothing_any_more_is_left_to_its_diagnosis() -> None:
    rule = failures()
    for failed in range(0, 400, 8):
        assert rule.look(progress(30.0 + failed / 100, completed=180, failed=failed)) is None


def test_failures_that_stop_are_forgiven() -> None:
    rule = failures()
    assert rule.look(progress(20.0, completed=40, failed=5)) is None
    for completed in range(200, 2000, 50):
        assert rule.look(progress(30.0, completed=completed, failed=5)) is None


def test_what_fails_with_the_best_trial_too_is_no_fault_of_the_configuration() -> None:
    rule = failures(failed_share=0.03)
    for completed in range(100, 2000, 50):
        assert rule.look(progress(30.0, completed=completed, failed=completed // 10)) is None


def test_each_segment_counts_its_own_failures() -> None:
    rule = failures()
    assert rule.look(progress(30.0, completed=180, failed=20)) is None
    saturated = progress(5.0, completed=200, failed=0, segment=1)
    assert rule.look(saturated) is None
    assert rule.look(progress(8.0, completed=300, failed=30, segment=1)) is None
    found = rule.look(progress(9.0, completed=320, failed=30, segment=1))
    assert found is not None
    assert found.saved_s == pytest.approx(20.0 - 9.0)
