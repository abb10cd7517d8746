"""A trial's score as stored, and as told to the sampler."""

from __future__ import annotations

from collections.abc import Mapping

from objectives.measurement import Measurement
from objectives.vector import VectorObjective
from tuner.domain.study_spec import ObjectiveSpec
from tuner.study.scoring import front_metrics, objective_of


def objectives_count(spec: ObjectiveSpec) -> int:
    """How many values the sampler is told per trial."""
    return len(front_metrics(spec.latency_percentile)) if spec.mode == "pareto" else 1


def trial_score(
    spec: ObjectiveSpec, measurement: Measurement, reference: Measurement
) -> dict[str, object]:
    """The scalar score with its terms; in Pareto mode the vector of log-improvements beside it."""
    score: dict[str, object] = objective_of(spec).score(measurement, reference).to_dict()
    if spec.mode == "pareto":
        vector = VectorObjective(front_metrics(spec.latency_percentile))
        score["vector"] = vector.score(measurement, reference).to_dict()
    return score


def told_values(
    spec: ObjectiveSpec, score: Mapping[str, object] | None
) -> tuple[float, ...] | None:
    """What the sampler learns from a stored score; None when nothing could be scored."""
    if score is None:
        return None
    if spec.mode == "pareto":
        vector = score.get("vector")
        values = vector.get("values") if isinstance(vector, Mapping) else None
        return tuple(float(v) for v in values) if isinstance(values, list | tuple) else None
    value = score_value(score)
    return None if value is None else (value,)


def score_value(score: Mapping[str, object] | None) -> float | None:
    """The scalar of a stored score; None where there is none or it could not be computed."""
    value = None if score is None else score.get("value")
    return float(value) if isinstance(value, int | float) else None
