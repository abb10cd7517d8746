from __future__ import annotations

import math
from typing import Any

import pytest

from tests.support.search_spaces import space
from tuner.domain.study_spec import StudySpec
from tuner.search.space_filling import sobol_points, to_unit
from tuner.study.stopping import Scored, fewest_trials, stop_reason

SPACE = space()
POINTS = [to_unit(SPACE, point) for point in sobol_points(SPACE, seed=1, count=64)]
FIXED = space(sequences=(64, 64), tokens=(2048, 2048), choices=[True], utilization=(0.9, 0.9))


def spec(trials: int = 20, **stopping: Any) -> StudySpec:
    return StudySpec.model_validate(
        {
            "model": {"id": "Qwen/Qwen2.5-7B-Instruct"},
            "engine": {"kind": "simulated"},
            "budget": {"trials": trials},
            "stopping": stopping,
        }
    )


def scored(*scores: float, baseline: float | None = 0.0, points: bool = False) -> list[Scored]:
    first = [] if baseline is None else [Scored(baseline, None, baseline=True)]
    return first + [
        Scored(score, POINTS[index] if points else None, baseline=False)
        for index, score in enumerate(scores)
    ]


FOUND_EARLY = scored(0.3, *([0.1] * 11))
RISING = scored(*(0.05 * step for step in range(12)))


def test_trials_without_a_gain_end_the_search_with_their_number() -> None:
    reason = stop_reason(spec(), FOUND_EARLY, 0.004, SPACE)
    assert reason is not None
    assert "the last 6 of 12 trials brought no gain of more than 1.0%" in reason
    assert "noise 0.4%" in reason


def test_a_search_that_still_finds_something_goes_on() -> None:
    assert stop_reason(spec(), RISING, None, SPACE) is None


def test_a_gain_within_the_noise_is_none() -> None:
    barely = scored(*([0.1] * 6), *([0.1] * 5), 0.13)
    assert stop_reason(spec(), barely, 0.01, SPACE) is None
    reason = stop_reason(spec(), barely, 0.05, SPACE)
    assert reason is not None
    assert "more than 5.1%" in reason


def test_a_baseline_that_nothing_beats_counts_as_the_best() -> None:
    falling = scored(*([-0.5] * 6), *([-0.2] * 6))
    assert stop_reason(spec(), falling, None, SPACE) is not None
    unknown = scored(*([-0.5] * 6), *([-0.2] * 6), baseline=None)
    assert stop_reason(spec(), unknown, None, SPACE) is None


@pytest.mark.parametrize(
    ("trials", "fewest"), [(20, 12), (100, 12), (10, 6), (8, 5), (1, 1), (12, 8)]
)
def test_a_small_budget_is_not_cut_before_three_fifths_of_it(trials: int, fewest: int) -> None:
    assert fewest_trials(spec(trials)) == fewest


def test_before_the_fewest_trials_nothing_ends_it() -> None:
    assert stop_reason(spec(), FOUND_EARLY[:-1], None, SPACE) is None


def test_the_rule_is_the_documents() -> None:
    patient = spec(patience=11)
    assert stop_reason(patient, scored(*([0.1] * 6), *([0.2] * 6)), None, SPACE) is None
    demanding = spec(min_gain_percent=50.0)
    assert stop_reason(demanding, RISING[:7] + RISING[7:], None, SPACE) is not None
    assert stop_reason(spec(min_trials=20, trials=100), FOUND_EARLY, None, SPACE) is None


def test_an_improvement_that_is_hardly_to_be_expected_ends_it() -> None:
    flat = [Scored(0.001 * (i % 2), point, baseline=False) for i, point in enumerate(POINTS)]
    slope = [Scored(2 * p[0] + p[1], p, baseline=False) for p in POINTS[:8]]
    reason = stop_reason(spec(min_gain_percent=3.0, patience=100), flat, 0.001, SPACE)
    assert reason is not None
    assert "expected to gain" in reason
    assert stop_reason(spec(min_trials=8, patience=100), slope, 0.001, SPACE) is None


def test_a_space_of_one_configuration_has_nothing_to_expect() -> None:
    one = [Scored(0.1, [], baseline=False) for _ in range(12)]
    assert stop_reason(spec(patience=100), one, None, FIXED) is None


def test_numbers_are_percent_of_the_score_itself() -> None:
    worse = scored(math.log(2.0), *([0.0] * 11))
    reason = stop_reason(spec(), worse, None, SPACE)
    assert reason is not None
    assert "best: -50.0%" in reason
    assert "noise not known" in reason
