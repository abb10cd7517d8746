from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from objectives.constraints import (
    CONSTRAINT_KEYS,
    ENGINE_RUNS,
    FITS_MEMORY,
    KV_CACHE_SUFFICES,
    LARGEST_GRADE,
    SMALLEST_GRADE,
    bounded_grade,
    constraint_of,
    feasible_constraints,
    filler_value,
    grade_of,
    infeasibility_grade,
    ranking_key,
    violated_constraints,
)

scores = st.floats(-100, 100)
grades = st.floats(1e-6, 100)


def test_running_out_of_memory_and_too_small_a_cache_are_different_constraints() -> None:
    assert constraint_of("oom_profile") == constraint_of("oom_runtime") == FITS_MEMORY
    assert constraint_of("oom_kv_allocation") == FITS_MEMORY
    assert constraint_of("kv_too_small") == constraint_of("kv_none") == KV_CACHE_SUFFICES
    assert constraint_of("config_rejected") == ENGINE_RUNS
    assert constraint_of("a class of tomorrow") == ENGINE_RUNS


@pytest.mark.parametrize("violated", CONSTRAINT_KEYS)
def test_every_trial_carries_the_same_keys_in_the_same_order(violated: str) -> None:
    constraints = violated_constraints(violated, 0.4)
    assert list(constraints) == list(feasible_constraints()) == list(CONSTRAINT_KEYS)
    assert [key for key, value in constraints.items() if value > 0] == [violated]
    assert grade_of(constraints) == 0.4


def test_a_trial_that_ran_violates_nothing() -> None:
    assert all(value <= 0 for value in feasible_constraints().values())
    assert grade_of(feasible_constraints()) is None


@pytest.mark.parametrize(
    ("key", "grade"),
    [("no such key", 1.0), (ENGINE_RUNS, 0.0), (ENGINE_RUNS, -1.0), (ENGINE_RUNS, math.nan)],
)
def test_a_violation_without_meaning_is_refused(key: str, grade: float) -> None:
    with pytest.raises(ValueError, match=r"no constraint|grade"):
        violated_constraints(key, grade)


def test_the_order_of_writing_is_the_order_of_a_databases_index() -> None:
    """Optuna's GP matches constraints by position, and its RDB storage asks for no order."""
    assert list(CONSTRAINT_KEYS) == sorted(CONSTRAINT_KEYS)


@given(st.floats(1e-9, 1e12), st.floats(1e-9, 1e12))
def test_farther_off_is_graded_no_lower(one: float, other: float) -> None:
    near, far = sorted((one, other))
    assert SMALLEST_GRADE <= infeasibility_grade(near) <= infeasibility_grade(far) <= LARGEST_GRADE


def test_the_grade_is_the_logarithm_of_needed_over_available() -> None:
    assert infeasibility_grade(1.5) == pytest.approx(math.log(1.5))
    assert infeasibility_grade(math.inf) == LARGEST_GRADE
    assert infeasibility_grade(0.9) == SMALLEST_GRADE, "fragmented memory: less asked than free"


@pytest.mark.parametrize("severity", [None, 0.0, -1.0, math.nan])
def test_an_unknown_distance_is_graded_by_how_far_the_engine_came(severity: float | None) -> None:
    never_started = infeasibility_grade(severity)
    assert 0 < infeasibility_grade(severity, served=True) < never_started


@pytest.mark.parametrize(
    ("log_ratio", "grade"), [(0.0, 0.05), (math.nan, 0.05), (-3.0, 0.05), (0.7, 0.7), (50.0, 2.0)]
)
def test_a_grade_is_positive_and_bounded(log_ratio: float, grade: float) -> None:
    assert bounded_grade(log_ratio) == grade


@given(st.lists(scores, min_size=1))
def test_the_filler_lies_below_every_feasible_score(feasible: list[float]) -> None:
    assert filler_value(feasible) == min(feasible) - 0.3


def test_the_filler_lies_below_the_baseline_when_nothing_ran() -> None:
    assert filler_value([]) == -0.3


def test_a_filler_must_have_a_margin() -> None:
    with pytest.raises(ValueError, match="below every feasible"):
        filler_value([1.0], margin=0.0)


@given(scores, grades)
def test_every_feasible_configuration_ranks_above_every_infeasible_one(
    score: float, grade: float
) -> None:
    assert ranking_key(score) > ranking_key(None, grade)
    assert ranking_key(None) > ranking_key(score, grade)


@given(scores, scores)
def test_feasible_ones_rank_by_score(one: float, other: float) -> None:
    assert (ranking_key(one) > ranking_key(other)) == (one > other)


@given(grades, grades)
def test_infeasible_ones_rank_by_how_far_off_they_are(one: float, other: float) -> None:
    assert (ranking_key(None, one) > ranking_key(None, other)) == (one < other)


def test_what_cannot_be_scored_ranks_between() -> None:
    assert ranking_key(-1e9) > ranking_key(None) > ranking_key(None, 0.05)
