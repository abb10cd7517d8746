from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from objectives.preemption import penalty, rate
from tests.support.measurement_strategies import (
    capacity_segment,
    latency_segment,
    measurement,
)

rates = st.floats(min_value=0, max_value=100)


def test_a_healthy_servers_preemptions_cost_nothing() -> None:
    assert penalty(1538 / 19801) == 0.0
    assert penalty(0.1) == 0.0


def test_one_preemption_per_request_costs_everything() -> None:
    assert penalty(1.0) == 1.0
    assert penalty(7.0) == 1.0
    assert penalty(0.55) == pytest.approx(0.5)


@given(rates, rates)
def test_the_penalty_is_monotone_and_bounded(one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert 0.0 <= penalty(low) <= penalty(high) <= 1.0


@pytest.mark.parametrize("value", [-0.1, float("nan")])
def test_an_impossible_rate_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="preemptions per request"):
        penalty(value)


@pytest.mark.parametrize(
    ("latency", "capacity", "expected"),
    [(100, 300, 0.3), (300, 100, 0.3), (None, 100, None), (100, None, None), (0, 0, 0.0)],
)
def test_the_rate_is_the_worse_segments_and_unknown_when_one_is(
    latency: int | None, capacity: int | None, expected: float | None
) -> None:
    own = measurement(latency_segment(preemptions=latency), capacity_segment(preemptions=capacity))
    assert rate(own) == expected
