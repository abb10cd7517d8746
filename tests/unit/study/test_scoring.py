from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from objectives.measurement import RequestCounts
from tests.support.study_measurements import measurement
from tuner.domain.study_spec import ObjectiveSpec, SloSpec, WeightsSpec
from tuner.study.scoring import (
    objective_of,
    paired_difference,
    pareto_front,
    rescore,
    slo_of,
)

BASELINE = measurement()
FAST = measurement(ttft_ms=200)
STRONG = measurement(tokens_per_s=2000)


def test_other_weights_rank_the_same_measurements_anew() -> None:
    measured = {1: FAST, 2: STRONG}
    latency = objective_of(ObjectiveSpec(weights=WeightsSpec(ttft_p95=5, throughput=1)))
    throughput = objective_of(ObjectiveSpec(weights=WeightsSpec(ttft_p95=1, throughput=5)))
    assert [r.key for r in rescore(latency, measured, BASELINE)] == [1, 2]
    assert [r.key for r in rescore(throughput, measured, BASELINE)] == [2, 1]


def test_what_cannot_be_scored_ranks_last_but_stays() -> None:
    unknown = measurement(ttft_ms=1, preemptions=None)
    ranked = rescore(
        objective_of(ObjectiveSpec()), {1: unknown, 2: measurement(ttft_ms=4000)}, BASELINE
    )
    assert [r.key for r in ranked] == [2, 1]
    assert ranked[1].score.value is None


def test_the_latency_percentile_overrides_the_names() -> None:
    spec = ObjectiveSpec(latency_percentile="p99")
    terms = objective_of(spec).score(FAST, BASELINE).terms
    assert {"ttft_p99", "tpot_p99"} <= {t.metric for t in terms}


def test_a_difference_counts_the_references_own_penalty() -> None:
    objective = objective_of(ObjectiveSpec())
    penalised = measurement(preemptions=300)
    assert paired_difference(objective, penalised, penalised) == pytest.approx(0)
    gain = paired_difference(objective, measurement(), penalised)
    assert gain is not None
    assert gain > 0


def test_a_difference_without_the_counter_is_unknown() -> None:
    objective = objective_of(ObjectiveSpec())
    assert paired_difference(objective, measurement(preemptions=None), BASELINE) is None


@given(st.floats(0.1, 10), st.floats(0.1, 10), st.floats(0.1, 10))
def test_swapping_the_arms_turns_the_sign(ttft: float, tpot: float, rate: float) -> None:
    objective = objective_of(ObjectiveSpec())
    other = measurement(ttft_ms=400 * ttft, tpot_ms=40 * tpot, tokens_per_s=1000 * rate)
    there = paired_difference(objective, other, BASELINE)
    back = paired_difference(objective, BASELINE, other)
    assert there is not None
    assert back is not None
    assert there == pytest.approx(-back, abs=1e-9)


def test_the_front_keeps_what_nothing_beats() -> None:
    worse = measurement(ttft_ms=500, tpot_ms=50, tokens_per_s=900)
    measured = {1: FAST, 2: STRONG, 3: worse}
    assert pareto_front(measured, BASELINE) == (1, 2)


def test_goodput_mode_without_an_slo_measured_scores_nothing() -> None:
    score = objective_of(ObjectiveSpec(mode="goodput")).score(FAST, BASELINE)
    assert score.value is None
    assert "goodput" in score.missing


def test_an_slo_without_limits_is_none() -> None:
    assert slo_of(None) is None
    assert slo_of(SloSpec()) is None
    limits = slo_of(SloSpec(ttft_ms=500, attainment=0.9))
    assert limits is not None
    assert math.isclose(limits.attainment, 0.9)


def test_a_saturated_window_in_which_nothing_finished_can_still_be_scored() -> None:
    capacity = dataclasses.replace(
        FAST.capacity, requests=RequestCounts(scheduled=0, completed=0, failed=0, unfinished=64)
    )
    unfinished = dataclasses.replace(FAST, capacity=capacity)
    assert objective_of(ObjectiveSpec()).score(unfinished, BASELINE).value is not None
