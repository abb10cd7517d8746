from __future__ import annotations

import random

import pytest

from tuner.search.importance import (
    FEWEST_TRIALS,
    ScoredPoint,
    parameter_importance,
)
from tuner.search.optuna_logging import quiet_optuna


@pytest.fixture(autouse=True)
def _quiet() -> None:
    quiet_optuna()


def points(count: int, seed: int = 3) -> list[ScoredPoint]:
    """Only `sequences` decides; `headroom` is noise and `chunked` a coin."""
    chance = random.Random(seed)
    found = []
    for _ in range(count):
        coordinates = {
            "sequences": chance.uniform(3, 10),
            "headroom": chance.random(),
            "chunked": chance.random() < 0.5,
        }
        found.append(ScoredPoint(coordinates, -abs(float(coordinates["sequences"]) - 8)))
    return found


def test_what_decides_is_the_most_important() -> None:
    importance = parameter_importance(points(40))
    assert importance is not None
    assert max(importance.shares, key=lambda name: importance.shares[name]) == "sequences"
    assert importance.shares["sequences"] > 0.6
    assert importance.trials == 40


def test_shares_sum_to_one() -> None:
    importance = parameter_importance(points(25, seed=9))
    assert importance is not None
    assert sum(importance.shares.values()) == pytest.approx(1)
    assert set(importance.shares) == {"sequences", "headroom", "chunked"}


def test_the_scale_of_the_score_does_not_matter() -> None:
    scaled = [ScoredPoint(p.coordinates, 100 * p.score - 7) for p in points(30)]
    assert parameter_importance(scaled) == parameter_importance(points(30))


def test_too_few_trials_have_no_importance() -> None:
    assert parameter_importance(points(FEWEST_TRIALS - 1)) is None
    assert parameter_importance([]) is None


def test_a_parameter_that_never_varied_has_none() -> None:
    fixed = [ScoredPoint({**p.coordinates, "headroom": 0.5}, p.score) for p in points(20)]
    importance = parameter_importance(fixed)
    assert importance is not None
    assert importance.shares["headroom"] == 0
    assert importance.shares["sequences"] > 0


def test_equal_scores_tell_nothing() -> None:
    equal = [ScoredPoint(p.coordinates, 0.25) for p in points(20)]
    importance = parameter_importance(equal)
    assert importance is not None
    assert set(importance.shares.values()) == {0.0}


def test_a_coordinate_that_some_points_lack_is_left_out() -> None:
    some = points(20)
    some[4] = ScoredPoint({"sequences": 5.0, "headroom": 0.2}, some[4].score)
    importance = parameter_importance(some)
    assert importance is not None
    assert set(importance.shares) == {"sequences", "headroom"}


def test_the_result_is_reproducible() -> None:
    assert parameter_importance(points(30)) == parameter_importance(points(30))
