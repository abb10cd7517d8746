from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.search.rounding import round_count, round_utilization

counts = st.floats(min_value=1, max_value=1e6)
utilizations = st.floats(0.1, 1.0)


@pytest.mark.parametrize(
    ("count", "rounded"),
    [(0.2, 1), (1, 1), (7.4, 7), (63.4, 63), (101, 100), (255, 256), (2047, 2048), (10321, 10240)],
)
def test_counts_are_rounded_to_six_leading_bits(count: float, rounded: int) -> None:
    assert round_count(count) == rounded


@given(counts)
def test_rounding_a_count_changes_little_and_only_once(count: float) -> None:
    rounded = round_count(count)
    assert abs(rounded - count) <= max(0.5, count / 63)
    assert round_count(rounded) == rounded


@given(counts, counts)
def test_rounding_a_count_keeps_order(one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert round_count(low) <= round_count(high)


@given(utilizations, utilizations, utilizations)
def test_a_utilization_stays_within_its_bounds(value: float, one: float, other: float) -> None:
    low, high = sorted((one, other))
    rounded = round_utilization(value, low, high)
    assert low - 1e-9 <= rounded <= high + 1e-9
    assert round_utilization(rounded, low, high) == rounded


def test_a_utilization_moves_in_steps_of_half_a_percent() -> None:
    assert round_utilization(0.9012, 0.5, 0.97) == 0.9
    assert round_utilization(0.903, 0.5, 0.97) == 0.905


def test_a_utilization_is_never_rounded_above_its_ceiling() -> None:
    assert round_utilization(0.944, 0.5, 0.944) == 0.94
    assert round_utilization(0.872, 0.871, 0.874) == 0.871
