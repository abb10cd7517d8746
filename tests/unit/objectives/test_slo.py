from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from objectives.measurement import Estimate, MaxRate, Measurement, SloLimits
from objectives.slo import (
    GoodputObjective,
    RequestOutcome,
    Slo,
    attainment,
    goodput,
    goodput_value,
    wilson,
)
from objectives.uncertainty import score_spread
from objectives.weighted_metric import WeightedMetric
from tests.support.measurement_strategies import (
    capacity_segment,
    latency_segment,
    measurement,
)

SLO = Slo(ttft_ms=500, tpot_ms=50)
GOOD = RequestOutcome(completed=True, ttft_ms=100, tpot_ms=20, e2e_ms=900)

times = st.none() | st.floats(min_value=0, max_value=2000)
outcomes = st.lists(st.builds(RequestOutcome, st.booleans(), times, times, times), max_size=60)


@pytest.mark.parametrize(
    ("outcome", "good"),
    [
        (GOOD, True),
        (replace(GOOD, ttft_ms=500, tpot_ms=50), True),
        (replace(GOOD, ttft_ms=500.1), False),
        (replace(GOOD, tpot_ms=50.1), False),
        (replace(GOOD, completed=False), False),
        (replace(GOOD, ttft_ms=None), False),
        (replace(GOOD, tpot_ms=None), True),
        (replace(GOOD, e2e_ms=None), True),
    ],
)
def test_a_request_is_good_when_it_meets_every_limit(outcome: RequestOutcome, good: bool) -> None:
    assert SLO.met_by(outcome) is good


def test_an_end_to_end_limit_needs_an_end() -> None:
    slo = Slo(e2e_ms=1000)
    assert slo.met_by(GOOD)
    assert not slo.met_by(replace(GOOD, e2e_ms=None))


def test_one_token_answers_are_judged_by_their_first_token_alone() -> None:
    slow = RequestOutcome(completed=True, ttft_ms=900, tpot_ms=None, e2e_ms=900)
    assert not SLO.met_by(slow)
    assert SLO.met_by(replace(slow, ttft_ms=90))


@pytest.mark.parametrize(
    "limits",
    [{}, {"ttft_ms": 0.0}, {"ttft_ms": -1.0}, {"ttft_ms": float("nan")}],
)
def test_an_slo_without_usable_limits_is_refused(limits: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="limit"):
        Slo(**limits)


@pytest.mark.parametrize("share", [0.0, 1.1])
def test_an_impossible_share_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match="share"):
        Slo(ttft_ms=1, attainment=share)


@given(outcomes, st.integers(1, 5))
def test_attainment_is_a_share_inside_its_interval(
    requests: list[RequestOutcome], extra_bad: int
) -> None:
    share = attainment(requests, SLO)
    if share is None:
        assert requests == []
        return
    assert share.n == len(requests)
    assert share.low is not None
    assert share.high is not None
    assert 0 <= share.low <= share.value <= share.high <= 1
    bad = [RequestOutcome(completed=False)] * extra_bad
    worse = attainment(requests + bad, SLO)
    assert worse is not None
    assert worse.value <= share.value


@given(outcomes)
def test_stricter_limits_never_raise_attainment(requests: list[RequestOutcome]) -> None:
    strict, loose = attainment(requests, Slo(ttft_ms=100)), attainment(requests, Slo(ttft_ms=1000))
    if strict is not None and loose is not None:
        assert strict.value <= loose.value


def test_wilson_agrees_with_a_published_value() -> None:
    # Newcombe 1998, table I: 81 of 263, 95%: 0.2553 to 0.3662.
    low, high = wilson(81, 263, z=1.959964)
    assert low == pytest.approx(0.2553, abs=5e-5)
    assert high == pytest.approx(0.3662, abs=5e-5)


def test_wilson_is_never_degenerate() -> None:
    assert wilson(0, 10)[0] == 0.0
    assert wilson(0, 10)[1] > 0.1
    assert wilson(10, 10)[0] < 0.9
    assert wilson(10, 10)[1] == 1.0


@pytest.mark.parametrize(("good", "n"), [(1, 0), (-1, 5), (6, 5), (0, 0)])
def test_wilson_refuses_impossible_counts(good: int, n: int) -> None:
    with pytest.raises(ValueError, match="successes"):
        wilson(good, n)


def test_goodput_counts_only_good_requests_over_the_window() -> None:
    requests = [GOOD] * 30 + [replace(GOOD, ttft_ms=9000)] * 10
    rate = goodput(requests, SLO, window_s=20)
    assert rate is not None
    assert rate.value == pytest.approx(1.5)
    assert rate.low is not None
    assert rate.high is not None
    assert rate.low < 1.5 < rate.high <= 2.0
    assert goodput([], SLO, window_s=20) is None


def test_goodput_needs_a_window() -> None:
    with pytest.raises(ValueError, match="window"):
        goodput([GOOD], SLO, window_s=0)


@given(st.floats(0, 100), st.floats(0, 100))
def test_more_goodput_is_never_worth_less(one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert goodput_value(low, 100) <= goodput_value(high, 100)


def test_no_goodput_at_all_is_finite() -> None:
    assert goodput_value(0, 100) == pytest.approx(math.log(2))


@pytest.mark.parametrize(
    ("good", "offered", "epsilon"), [(-1, 1, 0.1), (1, 0, 0.1), (1, 1, 0), (float("nan"), 1, 0.1)]
)
def test_impossible_rates_are_refused(good: float, offered: float, epsilon: float) -> None:
    with pytest.raises(ValueError, match="goodput"):
        goodput_value(good, offered, epsilon)


def test_the_goodput_objective_is_the_gain_over_the_baseline() -> None:
    baseline, own = measurement(), measurement(latency_segment(goodput_per_s=5.0))
    objective = GoodputObjective(epsilon=0.02)
    assert objective.score(baseline, baseline).value == 0.0
    score = objective.score(own, baseline)
    assert score.value == pytest.approx(math.log(5.1 / 4.1))
    assert score.terms[0].improvement == pytest.approx(5.1 / 4.1)


def test_missing_goodput_is_named_and_never_zero() -> None:
    unknown = measurement(latency_segment(goodput_per_s=None))
    objective = GoodputObjective()
    own = objective.score(unknown, measurement())
    assert (own.value, own.missing) == (None, ("goodput",))
    reference = objective.score(measurement(), unknown)
    assert (reference.value, reference.missing) == (None, ("baseline.goodput",))


def test_a_goodput_that_is_no_number_is_missing() -> None:
    broken = measurement()
    broken = replace(
        broken, latency=replace(broken.latency, goodput_per_s=Estimate(float("nan"), 1))
    )
    assert GoodputObjective().score(broken, measurement()).missing == ("goodput",)


def test_preemptions_can_be_charged_to_goodput() -> None:
    own = measurement(capacity=capacity_segment(preemptions=1000))
    assert GoodputObjective(preemption_penalty=0.4).score(own, measurement()).value == -0.4
    unknown = measurement(capacity=capacity_segment(preemptions=None))
    assert GoodputObjective(preemption_penalty=0.4).score(unknown, own).missing == ("preemptions",)


@pytest.mark.parametrize(("epsilon", "penalty"), [(0, 0), (1.5, 0), (0.02, -1)])
def test_a_meaningless_goodput_objective_is_refused(epsilon: float, penalty: float) -> None:
    with pytest.raises(ValueError, match="ε"):
        GoodputObjective(epsilon=epsilon, preemption_penalty=penalty)


def with_rate(value_per_s: float | None, low: float | None = None) -> Measurement:
    """Two measurements of this kind never differ in their goodput at the study's rate."""
    found = MaxRate(value_per_s, low, None, SloLimits(500, None, None, 0.95), 0.9, (), 60.0, "time")
    return replace(measurement(), max_rate=found)


def test_where_the_highest_rates_are_known_they_are_compared() -> None:
    score = GoodputObjective(epsilon=0.02).score(with_rate(6.0), with_rate(4.0))
    assert score.value == pytest.approx(math.log(6.08 / 4.08))
    (term,) = score.terms
    assert (term.metric, term.baseline, term.value) == ("max_rate", 4.0, 6.0)
    assert WeightedMetric.parse(term.metric).read(with_rate(6.0)) == 6.0


@pytest.mark.parametrize(
    ("own", "reference"),
    [
        (with_rate(6.0), measurement()),
        (measurement(), with_rate(4.0)),
        (with_rate(None), with_rate(4.0)),
    ],
)
def test_where_one_of_them_is_not_known_goodput_at_the_rate_is_compared(
    own: Measurement, reference: Measurement
) -> None:
    (term,) = GoodputObjective().score(own, reference).terms
    assert (term.metric, term.improvement) == ("goodput", 1.0)


def test_the_interval_of_a_highest_rate_is_its_scores_spread() -> None:
    objective, reference = GoodputObjective(), with_rate(6.0)
    open_above = with_rate(6.0, low=5.0)
    assert score_spread(objective.score(open_above, reference), open_above) is None
    assert open_above.max_rate is not None
    closed = replace(open_above, max_rate=replace(open_above.max_rate, high_per_s=7.0))
    spread = score_spread(objective.score(closed, reference), closed)
    assert spread == pytest.approx(math.log(7 / 5) / (2 * 1.6449), rel=1e-3)
