from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.study.intervals import PRACTICAL_GAIN, SPREAD_FLOOR, GainInterval, gain_interval

differences = st.lists(st.floats(-2, 2), min_size=2, max_size=12)


def test_nothing_measured_gives_no_interval() -> None:
    assert gain_interval([]) is None


def test_a_single_round_has_no_spread_and_is_never_significant() -> None:
    interval = gain_interval([0.5])
    assert interval is not None
    assert (interval.low, interval.high) == (None, None)
    assert not interval.significant
    assert interval.undecided


def test_three_rounds_match_the_textbook_t_interval() -> None:
    interval = gain_interval([0.1, 0.2, 0.3])
    assert interval is not None
    assert interval.low is not None
    assert interval.mean == pytest.approx(0.2)
    # t(0.95, 2) = 2.91999, s = 0.1
    assert interval.low == pytest.approx(0.2 - 2.91999 * 0.1 / math.sqrt(3), abs=1e-5)


def test_identical_rounds_keep_the_floor_of_spread() -> None:
    interval = gain_interval([0.1, 0.1, 0.1])
    assert interval is not None
    assert interval.low is not None
    assert interval.low == pytest.approx(0.1 - 2.91999 * SPREAD_FLOOR / math.sqrt(3), abs=1e-5)


@given(differences, st.floats(-1, 1))
def test_shifting_every_round_shifts_the_interval(values: list[float], shift: float) -> None:
    one, two = gain_interval(values), gain_interval([v + shift for v in values])
    assert one is not None
    assert two is not None
    assert one.low is not None
    assert two.low is not None
    assert two.mean == pytest.approx(one.mean + shift, abs=1e-9)
    assert two.low == pytest.approx(one.low + shift, abs=1e-6)


@given(differences)
def test_reversing_the_arms_mirrors_the_interval(values: list[float]) -> None:
    one, two = gain_interval(values), gain_interval([-v for v in values])
    assert one is not None
    assert two is not None
    assert one.low is not None
    assert two.high is not None
    assert two.high == pytest.approx(-one.low, abs=1e-9)


@given(differences)
def test_never_significant_and_undecided_at_once(values: list[float]) -> None:
    interval = gain_interval(values)
    assert interval is not None
    assert not (interval.significant and interval.undecided)


@pytest.mark.parametrize(
    ("low", "mean", "high", "significant", "undecided"),
    [
        (0.02, 0.05, 0.08, True, False),
        (0.001, PRACTICAL_GAIN / 2, 0.009, False, False),
        (-0.01, 0.02, 0.05, False, True),
        (-0.05, -0.02, 0.005, False, False),
        (-0.08, -0.05, -0.02, False, False),
    ],
)
def test_what_counts_as_a_gain(
    low: float, mean: float, high: float, significant: bool, undecided: bool
) -> None:
    interval = GainInterval(mean, low, high, 3)
    assert interval.significant is significant
    assert interval.undecided is undecided


def test_the_gain_is_spoken_in_per_cent() -> None:
    assert GainInterval(0.1, math.log(1.05), math.log(1.2), 3).percent == "5.0 to 20.0 %"
    assert GainInterval(math.log(1.1), None, None, 1).percent == "10.0 %"
