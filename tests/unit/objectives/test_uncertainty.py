from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from objectives.measurement import Estimate, Measurement
from objectives.uncertainty import Z_90, log_spread, score_spread
from objectives.weighted import WeightedObjective
from tests.support.study_measurements import measurement

EQUAL = WeightedObjective.named({"ttft_p95": 1, "tpot_p95": 1, "throughput": 1})


def around(value: float, spread: float) -> Estimate:
    """An estimate whose logarithm has this standard deviation."""
    factor = math.exp(Z_90 * spread)
    return Estimate(value, 100, value / factor, value * factor)


def with_spreads(ttft: float, tpot: float, throughput: float) -> Measurement:
    base = measurement()
    assert base.latency.ttft_ms is not None
    assert base.latency.tpot_ms is not None
    latency = dataclasses.replace(
        base.latency,
        ttft_ms=dataclasses.replace(base.latency.ttft_ms, p95=around(400, ttft)),
        tpot_ms=dataclasses.replace(base.latency.tpot_ms, p95=around(40, tpot)),
    )
    capacity = dataclasses.replace(base.capacity, output_tokens_per_s=around(1000, throughput))
    return dataclasses.replace(base, latency=latency, capacity=capacity)


@given(st.floats(1e-3, 1e6), st.floats(0, 2))
def test_a_log_normal_interval_gives_back_its_spread(value: float, spread: float) -> None:
    found = log_spread(around(value, spread))
    assert found == pytest.approx(spread, abs=1e-9)


@pytest.mark.parametrize(
    "estimate",
    [
        None,
        Estimate(5.0, 9),
        Estimate(5.0, 9, low=4.0),
        Estimate(0.0, 9, 0.0, 1.0),
        Estimate(-1.0, 9, -2.0, 1.0),
        Estimate(5.0, 9, 6.0, 4.0),
        Estimate(math.inf, 9, 1.0, 2.0),
    ],
)
def test_what_has_no_usable_interval_has_no_spread(estimate: Estimate | None) -> None:
    assert log_spread(estimate) is None


def test_an_interval_down_to_zero_is_taken_as_symmetric() -> None:
    spread = log_spread(Estimate(10.0, 9, 0.0, 2 * Z_90))
    assert spread == pytest.approx(0.1)


def test_the_open_loops_terms_add_up_and_saturation_adds_in_quadrature() -> None:
    measured = with_spreads(ttft=0.3, tpot=0.6, throughput=0.3)
    spread = score_spread(EQUAL.score(measured, measurement()), measured)
    assert spread == pytest.approx(math.hypot(0.1 + 0.2, 0.1))


def test_a_term_without_interval_leaves_the_spread_unknown() -> None:
    plain = measurement()
    assert score_spread(EQUAL.score(plain, plain), plain) is None


def test_a_metric_of_no_weight_needs_no_interval() -> None:
    base, capacity = measurement(), with_spreads(0.1, 0.1, 0.2).capacity
    measured = dataclasses.replace(base, capacity=capacity)
    only = WeightedObjective.named({"throughput": 1})
    assert score_spread(only.score(measured, base), measured) == pytest.approx(0.2)


def test_what_cannot_be_scored_has_no_spread() -> None:
    measured = with_spreads(0.1, 0.1, 0.1)
    nothing = dataclasses.replace(
        measured, latency=dataclasses.replace(measured.latency, ttft_ms=None)
    )
    assert score_spread(EQUAL.score(nothing, measured), nothing) is None


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1), st.floats(1, 3))
def test_wider_intervals_never_give_a_smaller_spread(
    ttft: float, tpot: float, throughput: float, factor: float
) -> None:
    narrow, wide = (
        with_spreads(ttft, tpot, throughput),
        with_spreads(factor * ttft, factor * tpot, factor * throughput),
    )
    one = score_spread(EQUAL.score(narrow, narrow), narrow)
    two = score_spread(EQUAL.score(wide, wide), wide)
    assert one is not None
    assert two is not None
    assert two >= one - 1e-12
