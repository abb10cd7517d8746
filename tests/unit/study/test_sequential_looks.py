from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tuner.study.sequential_looks import crossing, sequential_level


def bound(level: float) -> float:
    return float(stats.norm.isf((1 - level) / 2))


@pytest.mark.parametrize(
    ("looks", "error", "known"),
    [
        (1, 0.05, 1.960),
        (2, 0.05, 2.178),
        (3, 0.05, 2.289),
        (5, 0.05, 2.413),
        (10, 0.05, 2.555),
        (2, 0.10, 1.875),
        (5, 0.10, 2.122),
    ],
)
def test_evenly_spaced_looks_have_the_bounds_of_the_literature(
    looks: int, error: float, known: float
) -> None:
    found = bound(sequential_level(tuple(range(1, looks + 1)), error))
    assert found == pytest.approx(known, abs=0.01)


def test_uneven_looks_cross_as_often_as_random_walks_do() -> None:
    looks = (3, 4, 5, 8, 12)
    walks = np.random.default_rng(7).standard_normal((40_000, looks[-1])).cumsum(axis=1)
    beyond = np.zeros(len(walks), dtype=np.bool_)
    for look in looks:
        beyond |= np.abs(walks[:, look - 1]) > 2.0 * math.sqrt(look)
    assert crossing(looks, 2.0) == pytest.approx(float(beyond.mean()), abs=0.006)


@settings(max_examples=15, deadline=None)
@given(st.integers(2, 6), st.integers(1, 6), st.floats(0.02, 0.3))
def test_a_further_look_never_lowers_the_level_and_a_union_bound_is_never_exceeded(
    first: int, more: int, error: float
) -> None:
    looks = tuple(range(first, first + more))
    level = sequential_level(looks, error)
    assert 1 - error <= level + 1e-6
    assert level <= sequential_level((*looks, first + more), error) + 1e-6
    assert level <= 1 - error / len(looks) + 1e-3
