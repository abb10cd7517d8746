from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from objectives.metric import Direction
from objectives.pareto import dominates, front, hypervolume, knee

UP, DOWN = Direction.HIGHER_IS_BETTER, Direction.LOWER_IS_BETTER
TWO_UP, THREE_UP = (UP, UP), (UP, UP, UP)

grid = st.integers(0, 6).map(float)
maybe = st.none() | grid
points_2d = st.lists(st.tuples(grid, grid), max_size=8)
points_3d = st.lists(st.tuples(grid, grid, grid), max_size=7)
gappy_3d = st.lists(st.tuples(maybe, maybe, maybe), max_size=8)
directions_3d = st.tuples(*[st.sampled_from(Direction)] * 3)


def test_directions_decide_what_dominates() -> None:
    assert dominates((1, 5), (2, 4), (DOWN, UP))
    assert not dominates((1, 5), (2, 4), TWO_UP)
    assert dominates((2, 4), (1, 4), TWO_UP)


def test_equal_points_do_not_dominate_each_other_and_both_stay() -> None:
    assert not dominates((1, 1), (1, 1), TWO_UP)
    assert front([(1, 1), (1, 1), (0, 1)], TWO_UP) == (0, 1)


def test_a_point_with_a_missing_value_takes_no_part() -> None:
    points = [(None, 9.0), (1.0, 1.0), (9.0, None)]
    assert front(points, TWO_UP) == (1,)
    assert not dominates((9, None), (1, 1), TWO_UP)
    assert not dominates((1, 1), (None, 0), TWO_UP)


@given(gappy_3d, directions_3d)
def test_the_front_is_what_nothing_dominates(
    points: list[tuple[float | None, ...]], directions: tuple[Direction, ...]
) -> None:
    on_front = set(front(points, directions))
    for index, point in enumerate(points):
        if None in point:
            assert index not in on_front
        else:
            beaten = any(dominates(other, point, directions) for other in points)
            assert (index in on_front) != beaten


@given(gappy_3d, directions_3d)
def test_everything_off_the_front_is_dominated_by_something_on_it(
    points: list[tuple[float | None, ...]], directions: tuple[Direction, ...]
) -> None:
    on_front = front(points, directions)
    for index, point in enumerate(points):
        if index not in on_front and None not in point:
            assert any(dominates(points[i], point, directions) for i in on_front)


@given(st.tuples(grid, grid, grid), st.tuples(grid, grid, grid), st.tuples(grid, grid, grid))
def test_dominance_is_a_strict_order(
    a: tuple[float, ...], b: tuple[float, ...], c: tuple[float, ...]
) -> None:
    assert not dominates(a, a, THREE_UP)
    assert not (dominates(a, b, THREE_UP) and dominates(b, a, THREE_UP))
    if dominates(a, b, THREE_UP) and dominates(b, c, THREE_UP):
        assert dominates(a, c, THREE_UP)


@given(points_3d, st.randoms(use_true_random=False))
def test_the_front_does_not_depend_on_the_order(
    points: list[tuple[float, ...]], shuffler: random.Random
) -> None:
    shuffled = points.copy()
    shuffler.shuffle(shuffled)
    assert sorted(points[i] for i in front(points, THREE_UP)) == sorted(
        shuffled[i] for i in front(shuffled, THREE_UP)
    )


def _cells(points: list[tuple[float, ...]], dimensions: int) -> int:
    """Unit cells of the grid [0, 6)^d inside any box from the origin."""
    return sum(
        any(all(cell[k] < point[k] for k in range(dimensions)) for point in points)
        for cell in itertools.product(range(6), repeat=dimensions)
    )


@given(points_2d)
def test_the_volume_in_two_dimensions_equals_counting_cells(
    points: list[tuple[float, ...]],
) -> None:
    assert hypervolume(points, (0, 0), TWO_UP) == _cells(points, 2)


@given(points_3d)
@settings(max_examples=50)
def test_the_volume_in_three_dimensions_equals_counting_cells(
    points: list[tuple[float, ...]],
) -> None:
    assert hypervolume(points, (0, 0, 0), THREE_UP) == _cells(points, 3)


@given(points_3d, st.tuples(grid, grid, grid))
def test_another_point_never_shrinks_the_volume(
    points: list[tuple[float, ...]], another: tuple[float, ...]
) -> None:
    before = hypervolume(points, (1, 1, 1), THREE_UP)
    after = hypervolume([*points, another], (1, 1, 1), THREE_UP)
    assert after >= before
    if any(dominates(point, another, THREE_UP) for point in points):
        assert after == before


@given(points_3d)
def test_only_the_front_makes_volume(points: list[tuple[float, ...]]) -> None:
    best = [points[i] for i in front(points, THREE_UP)]
    assert hypervolume(best, (0, 0, 0), THREE_UP) == hypervolume(points, (0, 0, 0), THREE_UP)


@given(points_2d)
def test_turning_a_metric_around_with_its_direction_keeps_the_volume(
    points: list[tuple[float, ...]],
) -> None:
    turned = [(a, -b) for a, b in points]
    assert hypervolume(turned, (0, 0), (UP, DOWN)) == hypervolume(points, (0, 0), TWO_UP)


def test_points_beyond_the_reference_or_incomplete_add_nothing() -> None:
    assert hypervolume([(2, 2)], (3, 0), TWO_UP) == 0.0
    assert hypervolume([(2, None), (2, 2)], (0, 0), TWO_UP) == 4.0
    assert hypervolume([], (0, 0), TWO_UP) == 0.0


def test_the_volume_of_four_metrics() -> None:
    up = (UP,) * 4
    assert hypervolume([(1, 2, 3, 4)], (0, 0, 0, 0), up) == 24.0
    assert hypervolume([(1, 2, 3, 4), (2, 1, 1, 1)], (0, 0, 0, 0), up) == 25.0


def test_a_reference_must_be_complete() -> None:
    with pytest.raises(ValueError, match="reference"):
        hypervolume([(1, 1)], (None, 0), TWO_UP)  # type: ignore[arg-type] # the fault


@pytest.mark.parametrize(
    ("point", "directions", "message"),
    [
        ((1.0,), TWO_UP, "1 values for 2"),
        ((1.0, float("nan")), TWO_UP, "missing is None"),
        ((1.0, float("inf")), TWO_UP, "missing is None"),
        ((), (), "at least one metric"),
    ],
)
def test_impossible_points_are_refused(
    point: tuple[float, ...], directions: tuple[Direction, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        front([point], directions)


def test_the_knee_bulges_most() -> None:
    points = [(0, 10), (6, 9), (8, 5), (10, 0), (1, 1)]
    assert knee(points, TWO_UP) == 1


def test_the_knee_respects_directions() -> None:
    latency_and_rate = [(100, 10), (110, 19), (200, 20)]
    assert knee(latency_and_rate, (DOWN, UP)) == 1


@pytest.mark.parametrize(
    "points",
    [
        [],
        [(1, 1)],
        [(0, 10), (10, 0)],
        [(0, 10), (5, 5), (10, 0)],
        [(0, 10), (2, 2), (10, 0)],
        [(3, 3), (3, 3), (3, 3)],
        [(None, 1), (1, None), (2, None)],
    ],
)
def test_a_front_without_a_bulge_has_no_knee(points: list[tuple[float | None, ...]]) -> None:
    assert knee(points, TWO_UP) is None


@given(points_3d, directions_3d)
def test_a_knee_lies_on_the_front(
    points: list[tuple[float, ...]], directions: tuple[Direction, ...]
) -> None:
    found = knee(points, directions)
    assert found is None or found in front(points, directions)


@given(points_2d, st.sampled_from([0.25, 0.5, 2.0, 4.0]))
def test_the_knee_does_not_depend_on_units(points: list[tuple[float, ...]], factor: float) -> None:
    stretched = [(a * factor, b) for a, b in points]
    assert knee(stretched, TWO_UP) == knee(points, TWO_UP)
