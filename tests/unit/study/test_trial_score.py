from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.study_measurements import measurement
from tuner.domain.study_spec import ObjectiveSpec
from tuner.study.trial_score import objectives_count, score_value, told_values, trial_score

BASELINE = measurement()
WEIGHTED, PARETO = ObjectiveSpec(), ObjectiveSpec(mode="pareto")
factors = st.floats(0.2, 5)


@given(factors, factors, factors)
def test_what_is_told_survives_the_store(ttft: float, tpot: float, rate: float) -> None:
    own = measurement(ttft_ms=400 * ttft, tpot_ms=40 * tpot, tokens_per_s=1000 * rate)
    for spec in (WEIGHTED, PARETO):
        score = trial_score(spec, own, BASELINE)
        stored = json.loads(json.dumps(score))
        told = told_values(spec, stored)
        assert told == told_values(spec, score)
        assert told is not None
        assert len(told) == objectives_count(spec)
        assert score_value(stored) == score["value"]


def test_the_weighted_score_is_the_scalar_told() -> None:
    score = trial_score(WEIGHTED, measurement(ttft_ms=200), BASELINE)
    assert told_values(WEIGHTED, score) == (score["value"],)


def test_a_front_is_told_higher_is_better_in_every_metric() -> None:
    better = measurement(ttft_ms=200, tpot_ms=20, tokens_per_s=2000)
    told = told_values(PARETO, trial_score(PARETO, better, BASELINE))
    assert told is not None
    assert all(value > 0 for value in told)


def test_the_reference_itself_scores_zero() -> None:
    assert score_value(trial_score(WEIGHTED, BASELINE, BASELINE)) == pytest.approx(0)


def test_what_was_not_measured_is_not_told() -> None:
    unknown = trial_score(WEIGHTED, measurement(preemptions=None), BASELINE)
    assert score_value(unknown) is None
    assert told_values(WEIGHTED, unknown) is None
    assert told_values(WEIGHTED, None) is None
    assert told_values(PARETO, {"value": 1.0}) is None
