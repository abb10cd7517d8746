from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.study.intervals import (
    LEVEL,
    PRACTICAL_GAIN,
    SPREAD_FLOOR,
    UNKNOWN_SPREAD,
    GainInterval,
    chance_of_significance,
    expected_spread,
    gain_interval,
    look_level,
    looks,
)

differences = st.lists(st.floats(-2, 2), min_size=2, max_size=12)


def test_nothing_measured_gives_no_interval() -> None:
    assert gain_interval([]) is None


def test_a_single_round_has_no_spread_and_is_never_significant() -> None:
    interval = gain_interval([0.5])
    assert interval is not None
    assert (interval.low, interval.high) == (None, None)
    assert not interval.significant
    assert interval.undecided


def test_the_interval_is_students_with_the_expected_spread_worth_two_rounds() -> None:
    interval = gain_interval([0.1, 0.2, 0.3], expected_spread=0.05)
    assert interval is not None
    assert interval.low is not None
    assert interval.mean == pytest.approx(0.2)
    # s² = (0.02 + 2 * 0.05²) / (2 + 2); t(0.95, 4) = 2.13185
    spread = math.sqrt((0.02 + 2 * 0.05**2) / 4)
    assert interval.spread == pytest.approx(spread)
    assert interval.low == pytest.approx(0.2 - 2.13185 * spread / math.sqrt(3), abs=1e-5)


def test_rounds_that_agree_by_luck_keep_half_of_the_expected_variance() -> None:
    interval = gain_interval([0.1, 0.1, 0.1], expected_spread=0.2)
    assert interval is not None
    assert interval.spread == pytest.approx(0.2 / math.sqrt(2))


def test_without_intervals_in_the_runs_a_typical_spread_is_expected() -> None:
    assert gain_interval([0.1, 0.3]) == gain_interval([0.1, 0.3], expected_spread=UNKNOWN_SPREAD)


def test_no_spread_is_believed_below_the_floor() -> None:
    interval = gain_interval([0.1, 0.1, 0.1], expected_spread=0.0)
    assert interval is not None
    assert interval.spread == SPREAD_FLOOR


def test_the_expected_spread_is_the_median_of_the_rounds_that_tell() -> None:
    assert expected_spread([None, 0.1, 0.9, 0.2, None]) == pytest.approx(0.2)
    assert expected_spread([None]) is None
    assert expected_spread([]) is None


@pytest.mark.parametrize(
    ("rounds", "most", "expected"),
    [
        (3, 3, (3,)),
        (3, 6, (3, 4, 5, 6)),
        (3, 12, (3, 4, 5, 6, 7, 8, 10, 12)),
        (2, 2, (2,)),
        (20, 40, (20, 25, 31, 38, 40)),
    ],
)
def test_looks_are_fixed_beforehand_and_rarer_with_more_data(
    rounds: int, most: int, expected: tuple[int, ...]
) -> None:
    assert looks(rounds, most) == expected


@given(st.integers(2, 20), st.integers(0, 20))
def test_more_looks_are_each_taken_at_a_higher_level(rounds: int, more: int) -> None:
    assert looks(rounds, rounds + more)[-1] == rounds + more
    assert LEVEL <= look_level(rounds, rounds + more) <= look_level(rounds, rounds + more + 1) < 1


def test_the_best_of_several_finalists_needs_a_higher_level() -> None:
    assert look_level(3, 6, 1) < look_level(3, 6, 2) < look_level(3, 6, 5) < 1


def test_a_single_look_is_taken_at_the_level_itself() -> None:
    assert look_level(3, 3) == pytest.approx(LEVEL)


def test_an_early_mean_far_above_zero_is_nearly_sure_to_be_significant() -> None:
    interval = gain_interval([0.20, 0.25, 0.20], expected_spread=0.05)
    assert interval is not None
    chance = chance_of_significance(interval, 12, look_level(3, 12))
    assert chance is not None
    assert chance > 0.95


def test_an_early_mean_at_zero_hardly_becomes_significant() -> None:
    interval = gain_interval([0.1, -0.1, 0.0], expected_spread=0.1)
    assert interval is not None
    chance = chance_of_significance(interval, 12, look_level(3, 12))
    assert chance is not None
    assert 0 < chance < 0.15


@given(st.lists(st.floats(-0.3, 0.3), min_size=2, max_size=9), st.floats(0.001, 0.3))
def test_a_chance_is_a_probability_and_grows_with_the_gain(
    values: list[float], shift: float
) -> None:
    one, two = gain_interval(values), gain_interval([v + shift for v in values])
    assert one is not None
    assert two is not None
    less, more = (chance_of_significance(i, 12) for i in (one, two))
    assert less is not None
    assert more is not None
    assert 0 <= less <= more <= 1


def test_there_is_no_chance_to_tell_of_before_two_rounds_or_after_all() -> None:
    one = gain_interval([0.1])
    three = gain_interval([0.1, 0.2, 0.3])
    assert one is not None
    assert three is not None
    assert chance_of_significance(one, 12) is None
    assert chance_of_significance(three, 3) is None


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
    assert interval.hopeless is (high < PRACTICAL_GAIN)


def test_the_gain_is_spoken_in_per_cent() -> None:
    between = GainInterval(0.1, math.log(1.05), math.log(1.2), 3)
    assert between.percent == "5.0\N{EN DASH}20.0 %"
    assert GainInterval(0.0, math.log(0.95), math.log(1.2), 3).percent == "-5.0 to 20.0 %"
    assert GainInterval(math.log(1.1), None, None, 1).percent == "10.0 %"
