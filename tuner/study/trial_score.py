"""A trial's score as stored, and as told to the sampler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from objectives.measurement import Measurement
from objectives.vector import VectorObjective
from tuner.domain.study_spec import ObjectiveSpec
from tuner.study.noise import FLOOR, score_interval, within_run
from tuner.study.scoring import front_metrics, objective_of


@dataclass(frozen=True, slots=True)
class ScoreNoise:
    """What a score's interval rests on beside the measurement's own spread (logarithms).

    `reference` is the reference's spread within its run, `start_sd` that of a fresh start, `starts`
    how many of them the reference was measured on.
    """

    reference: float | None
    start_sd: float = FLOOR
    starts: int = 1


def objectives_count(spec: ObjectiveSpec) -> int:
    """How many values the sampler is told per trial."""
    return len(front_metrics(spec.latency_percentile)) if spec.mode == "pareto" else 1


def trial_score(
    spec: ObjectiveSpec,
    measurement: Measurement,
    reference: Measurement,
    noise: ScoreNoise | None = None,
) -> dict[str, object]:
    """The scalar score with its terms and 90% interval (`low`, `high`; null where not known).

    In Pareto mode the vector of log-improvements beside it. Without `noise` it is the reference's
    own spread and the floor.
    """
    objective = objective_of(spec)
    found = objective.score(measurement, reference)
    chance = noise or ScoreNoise(within_run(objective, reference))
    own = within_run(objective, measurement)
    interval = None
    if found.value is not None:
        interval = score_interval(
            found.value, own, chance.reference, chance.start_sd, chance.starts
        )
    score: dict[str, object] = found.to_dict()
    score["low"], score["high"] = interval or (None, None)
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
