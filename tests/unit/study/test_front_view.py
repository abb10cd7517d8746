from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.errors import InvalidInputError
from tuner.study.front_view import axes_of, front_view
from tuner.study.quantities import BY_NAME, COST, Reading


def reading(value: float | None) -> Reading | None:
    return None if value is None else Reading(value, None, None)


def trials(*rows: tuple[float | None, float | None]) -> dict[int, dict[str, Reading | None]]:
    return {
        number: {"ttft_p95_ms": reading(ttft), "output_tokens_per_s": reading(rate)}
        for number, (ttft, rate) in enumerate(rows)
    }


AXES = axes_of(["ttft_p95_ms", "output_tokens_per_s"])


def test_a_trial_that_is_worse_in_both_is_dominated() -> None:
    view = front_view(trials((100, 10), (120, 9), (80, 8)), AXES)
    assert [point.on_front for point in view.points] == [True, False, True]


def test_a_trial_without_one_quantity_is_listed_off_the_front() -> None:
    view = front_view(trials((100, 10), (None, 50)), AXES)
    assert [(p.trial_number, p.on_front) for p in view.points] == [(0, True), (1, False)]
    assert view.points[1].values["ttft_p95_ms"] is None
    assert view.points[1].values["output_tokens_per_s"] == Reading(50, None, None)


def test_a_quantity_that_nobody_stored_leaves_the_front_empty() -> None:
    view = front_view(trials((100, 10)), axes_of(["ttft_p95_ms", "goodput_per_s"]))
    assert [point.on_front for point in view.points] == [False]


def test_points_carry_only_the_axes_asked_for() -> None:
    view = front_view({3: {name: reading(1.0) for name in BY_NAME}}, AXES)
    assert set(view.points[0].values) == {"ttft_p95_ms", "output_tokens_per_s"}
    assert view.axes == AXES


@given(
    st.lists(
        st.tuples(st.floats(1, 1e4), st.floats(1, 1e4)),
        min_size=1,
        max_size=12,
    )
)
def test_somebody_is_always_on_the_front_and_nobody_on_it_is_dominated(
    rows: list[tuple[float, float]],
) -> None:
    view = front_view(trials(*rows), AXES)
    best = [rows[point.trial_number] for point in view.points if point.on_front]
    assert best
    for ttft, rate in best:
        assert not any((a <= ttft and b >= rate) and (a, b) != (ttft, rate) for a, b in rows)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["ttft_p95_ms", "happiness"], "happiness"),
        (["ttft_p95_ms"], "two to four"),
        ([], "two to four"),
        (["ttft_p95_ms", "ttft_p95_ms"], "different"),
        (["ttft_p50_ms", "ttft_p95_ms", "ttft_p99_ms", COST, "goodput_per_s"], "two to four"),
    ],
)
def test_axes_that_make_no_front_are_refused(names: list[str], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words) as caught:
        axes_of(names)
    assert caught.value.where == "axes"
