from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.search.surrogate import expected_gain

GRID = [[i / 20] for i in range(21)]
GRID_2D = [[i / 9, j / 9] for i in range(10) for j in range(10)]


def hill(x: float) -> float:
    return -((x - 0.7) ** 2)


def test_between_close_points_of_a_known_hill_nothing_is_to_be_gained() -> None:
    points = [[i / 16] for i in range(17)]
    assert expected_gain(points, [hill(x) for (x,) in points], GRID) < 0.002


def test_where_nothing_was_measured_much_may_be_gained() -> None:
    points = [[0.0], [0.1], [0.2], [0.3]]
    rising = [0.0, 0.3, 0.6, 0.9]
    assert expected_gain(points, rising, GRID) > 0.03


def test_each_further_measurement_of_a_hill_leaves_less_to_expect() -> None:
    def left(step: int) -> float:
        points = [[i / step, j / step] for i in range(step + 1) for j in range(step + 1)]
        scores = [hill(x) + hill(y) for x, y in points]
        return expected_gain(points, scores, GRID_2D)

    assert left(8) < left(4) < left(2)


def test_equal_scores_promise_nothing() -> None:
    assert expected_gain([[0.1], [0.9]], [0.5, 0.5], GRID) == 0.0
    assert expected_gain([[0.1], [0.9]], [0.1, 0.5], []) == 0.0


def test_a_lucky_observation_is_not_what_has_to_be_beaten() -> None:
    rng = np.random.default_rng(5)
    points = rng.random((30, 1)).tolist()
    noisy = rng.normal(0.0, 0.1, 30).tolist()
    assert expected_gain(points, noisy, GRID, noise=0.1) < 0.05


@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=15),
    st.integers(0, 1000),
    st.floats(0, 0.5),
    st.floats(-5, 5),
)
def test_a_gain_is_never_negative_and_shifts_with_nothing(
    points: list[tuple[float, float]], seed: int, noise: float, shift: float
) -> None:
    scores = np.random.default_rng(seed).normal(size=len(points)).tolist()
    gain = expected_gain(points, scores, GRID_2D, noise)
    assert gain >= 0
    assert math.isfinite(gain)
    moved = expected_gain(points, [score + shift for score in scores], GRID_2D, noise)
    assert moved == pytest.approx(gain, rel=1e-4, abs=1e-6)


def test_scores_in_other_units_give_the_gain_in_those_units() -> None:
    points = [[0.0], [0.3], [0.5], [1.0]]
    scores = [hill(x) for (x,) in points]
    single, tenfold = (
        expected_gain(points, [factor * score for score in scores], GRID) for factor in (1, 10)
    )
    assert tenfold == pytest.approx(10 * single)
