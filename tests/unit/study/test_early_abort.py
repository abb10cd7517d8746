from __future__ import annotations

import dataclasses
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from objectives.measurement import Distribution, PrefixSummary
from tests.support.study_measurements import distribution
from tuner.study.early_abort import (
    FEWEST_REQUESTS,
    Bar,
    aborts_report,
    extrapolated_value,
    hope,
    judge,
    margin,
    pruned_score,
    shortfall,
)

INCUMBENT = PrefixSummary(15.0, 31.0, 40, 0, distribution(400.0), distribution(40.0))


def beginning(
    ttft_ms: float = 400.0, tpot_ms: float | None = 40.0, *, requests: int = 40, unanswered: int = 0
) -> PrefixSummary:
    tpot = None if tpot_ms is None else distribution(tpot_ms)
    return PrefixSummary(15.0, 31.0, requests, unanswered, distribution(ttft_ms), tpot)


def bar(**changes: float) -> Bar:
    plain = Bar(
        incumbent=3,
        incumbent_score=0.2,
        prefix=INCUMBENT,
        ttft_weight=1 / 3,
        ttft_percentile="p95",
        tpot_weight=1 / 3,
        tpot_percentile="p95",
        hope=0.05,
        margin=0.35,
    )
    return dataclasses.replace(plain, **changes)  # type: ignore[arg-type]


def test_a_hopeless_beginning_is_cut_short_with_its_evidence() -> None:
    found = judge(bar(), beginning(ttft_ms=4000.0), 80.0)
    behind = math.log(10) / 3
    assert found is not None
    assert found.behind == pytest.approx(behind)
    assert found.allowed == pytest.approx(0.4)
    assert found.extrapolated == pytest.approx(0.2 - behind)
    assert (found.incumbent, found.requests, found.unanswered) == (3, 40, 0)
    assert (found.looked_at_s, found.saved_s) == (31.0, 80.0)
    assert json.loads(json.dumps(found.to_dict())) == dataclasses.asdict(found)
    assert "0.77 below trial 3" in found.reason


@pytest.mark.parametrize(
    "good",
    [
        beginning(),
        beginning(ttft_ms=100.0, tpot_ms=20.0),
        beginning(ttft_ms=1200.0),
        beginning(ttft_ms=4000.0, tpot_ms=10.0),
        beginning(tpot_ms=None),
    ],
    ids=["equal", "better", "behind, within the margin", "made up for", "nothing decoded yet"],
)
def test_what_may_still_come_near_goes_on(good: PrefixSummary) -> None:
    assert judge(bar(), good, 80.0) is None


def test_a_bad_tail_of_a_good_median_goes_on() -> None:
    spread = distribution(400.0)
    tail = dataclasses.replace(spread, p95=distribution(9000.0).p95)
    assert judge(bar(), dataclasses.replace(beginning(), ttft_ms=tail), 80.0) is None


def test_an_engine_that_drowns_is_cut_short_where_the_incumbent_does_not() -> None:
    drowning = beginning(ttft_ms=500.0, tpot_ms=None, unanswered=25)
    found = judge(bar(), drowning, 80.0)
    assert found is not None
    assert "25 of the first 40 requests had no token" in found.reason
    assert found.extrapolated is not None
    assert found.allowed is not None
    assert found.extrapolated <= 0.2 - found.allowed
    both = bar()
    both = dataclasses.replace(both, prefix=dataclasses.replace(INCUMBENT, unanswered=20))
    assert judge(both, drowning, 80.0) is None


@pytest.mark.parametrize("few", [0, FEWEST_REQUESTS - 1])
def test_too_few_requests_prove_nothing(few: int) -> None:
    assert judge(bar(), beginning(ttft_ms=1e6, requests=few, unanswered=few), 80.0) is None


def test_noise_widens_the_margin() -> None:
    assert margin(None) == 0.35
    assert margin(0.05) == 0.35
    assert margin(0.2) == pytest.approx(0.6)


def test_hope_is_a_quarter_more_than_the_best_throughput_yet() -> None:
    assert hope(0.5, 1000.0, 1000.0) == pytest.approx(0.5 * math.log(1.25))
    assert hope(0.5, 2000.0, 1000.0) == pytest.approx(0.5 * math.log(2.5))
    assert hope(0.0, 2000.0, 1000.0) == 0.0
    assert hope(0.5, None, 1000.0) == 0.0
    assert hope(0.5, 100.0, 1000.0) == 0.0


latencies = st.floats(1, 1e5)


@given(latencies, latencies, st.floats(0.35, 2), st.floats(0, 1), st.floats(-2, 2))
def test_only_what_lies_below_the_bar_is_cut_short_and_it_is_told_as_worse(
    ttft: float, tpot: float, allowed: float, hoped: float, score: float
) -> None:
    held = bar(margin=allowed, hope=hoped, incumbent_score=score)
    found = judge(held, beginning(ttft, tpot), 10.0)
    behind = shortfall(held, beginning(ttft, tpot))
    assert (found is not None) == (behind > allowed + hoped)
    if found is not None:
        assert found.extrapolated is not None
        assert found.extrapolated < score - 0.35


@given(latencies, latencies, st.floats(1.0, 50.0))
def test_a_slower_beginning_is_never_judged_kinder(ttft: float, tpot: float, factor: float) -> None:
    fast, slow = beginning(ttft, tpot), beginning(ttft * factor, tpot * factor)
    assert shortfall(bar(), slow) >= shortfall(bar(), fast) - 1e-9


@given(latencies, latencies)
def test_the_incumbents_own_beginning_is_never_cut_short(ttft: float, tpot: float) -> None:
    own = beginning(ttft, tpot)
    held = dataclasses.replace(bar(), prefix=own)
    assert shortfall(held, own) == pytest.approx(0.0)
    assert judge(held, own, 10.0) is None


def test_a_distribution_without_values_counts_as_equal() -> None:
    nothing: Distribution | None = None
    blank = PrefixSummary(15.0, 31.0, 40, 0, nothing, nothing)
    assert shortfall(bar(), blank) == 0.0


def test_what_is_stored_of_an_abort_is_no_score_but_its_evidence() -> None:
    found = judge(bar(), beginning(ttft_ms=4000.0), 80.0)
    assert found is not None
    stored = json.loads(json.dumps(pruned_score(found)))
    assert stored["value"] is None
    assert extrapolated_value(stored) == found.extrapolated
    assert extrapolated_value({"value": 0.3}) is None
    assert extrapolated_value(None) is None
    scores = [None, {"value": 0.1}, stored, stored]
    assert aborts_report(scores) == {"trials": 2, "saved_engine_s": 160.0}
    assert aborts_report([]) == {"trials": 0, "saved_engine_s": 0.0}
