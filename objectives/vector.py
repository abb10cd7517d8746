from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from objectives.measurement import Measurement
from objectives.metric import Direction
from objectives.score import ScoreTerm, compare
from objectives.weighted import term
from objectives.weighted_metric import WeightedMetric


@dataclass(frozen=True, slots=True)
class VectorScore:
    """One log-improvement per metric, all higher-is-better; None when anything is missing."""

    values: tuple[float, ...] | None
    terms: tuple[ScoreTerm, ...]
    missing: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, object]:
        """JSON-able."""
        return {
            "values": None if self.values is None else list(self.values),
            "terms": [item.to_dict() for item in self.terms],
            "missing": list(self.missing),
        }


class VectorObjective:
    """ln(improvement over the baseline) of each metric: the objective of Pareto mode.

    In logarithms the samplers see comparable scales, and the baseline is the origin.
    Raises ValueError for fewer than two metrics or one named twice.
    """

    def __init__(self, metrics: Sequence[WeightedMetric]) -> None:
        if len(metrics) < 2 or len(set(metrics)) != len(metrics):
            raise ValueError("a Pareto front needs at least two different metrics")
        self._metrics = tuple(metrics)

    @property
    def metrics(self) -> tuple[WeightedMetric, ...]:
        return self._metrics

    @property
    def directions(self) -> tuple[Direction, ...]:
        """Those of the told values, not of the metrics: an improvement is always better higher."""
        return (Direction.HIGHER_IS_BETTER,) * len(self._metrics)

    def score(self, measurement: Measurement, baseline: Measurement) -> VectorScore:
        compared = [compare(metric, measurement, baseline) for metric in self._metrics]
        missing = tuple(name for pair in compared for name in pair.missing)
        terms = tuple(term(pair, 1.0) for pair in compared if not pair.missing)
        if missing:
            return VectorScore(None, terms, missing)
        return VectorScore(tuple(item.contribution for item in terms), terms)
