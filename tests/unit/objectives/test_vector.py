from __future__ import annotations

import json
import math

import pytest

from objectives.metric import Direction
from objectives.pareto import front
from objectives.vector import VectorObjective
from objectives.weighted import WeightedMetric
from tests.support.measurement_strategies import latency_segment, measurement, with_metrics

METRICS = tuple(WeightedMetric.parse(n) for n in ("ttft_p95", "tpot_p95", "throughput"))
OBJECTIVE = VectorObjective(METRICS)


def test_the_baseline_is_the_origin() -> None:
    assert OBJECTIVE.score(measurement(), measurement()).values == (0.0, 0.0, 0.0)


def test_every_component_is_better_higher() -> None:
    better = with_metrics(ttft_ms=200, tpot_ms=20, tokens_per_s=2000)
    values = OBJECTIVE.score(better, measurement()).values
    assert values == pytest.approx((math.log(2),) * 3)
    assert OBJECTIVE.directions == (Direction.HIGHER_IS_BETTER,) * 3


def test_a_missing_metric_leaves_no_vector() -> None:
    unknown = measurement(latency_segment(tpot_ms=None))
    score = OBJECTIVE.score(unknown, measurement())
    assert (score.values, score.missing) == (None, ("tpot_p95",))
    assert OBJECTIVE.score(measurement(), unknown).missing == ("baseline.tpot_p95",)


def test_trade_offs_make_a_front() -> None:
    candidates = [
        with_metrics(200, 40, 1000),
        with_metrics(400, 40, 2000),
        with_metrics(500, 50, 900),
    ]
    vectors = [OBJECTIVE.score(c, measurement()).values for c in candidates]
    assert front([v for v in vectors if v is not None], OBJECTIVE.directions) == (0, 1)


def test_a_vector_score_can_be_stored_as_json() -> None:
    document = json.loads(json.dumps(OBJECTIVE.score(measurement(), measurement()).to_dict()))
    assert document["values"] == [0.0, 0.0, 0.0]
    unknown = OBJECTIVE.score(measurement(latency_segment(ttft_ms=None)), measurement())
    assert json.loads(json.dumps(unknown.to_dict()))["values"] is None


@pytest.mark.parametrize("metrics", [(), METRICS[:1], (METRICS[0], METRICS[0])])
def test_a_front_needs_two_different_metrics(metrics: tuple[WeightedMetric, ...]) -> None:
    with pytest.raises(ValueError, match="two different metrics"):
        VectorObjective(metrics)
