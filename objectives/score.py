from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from objectives.measurement import Measurement
from objectives.weighted_metric import WeightedMetric

IMPROVEMENT_LIMIT = 1e3
"""An improvement enters the logarithm within [1/1000, 1000]: a measured rate of zero is finite and
bad, and one collapsed metric cannot drown all others."""


@dataclass(frozen=True, slots=True)
class ScoreTerm:
    """One metric's share of a score; `contribution` is weight · ln(improvement), bounded."""

    metric: str
    weight: float
    baseline: float
    value: float
    improvement: float
    contribution: float

    def to_dict(self) -> dict[str, object]:
        return {
            "metric": self.metric,
            "weight": self.weight,
            "baseline": self.baseline,
            "value": self.value,
            "improvement": self.improvement,
            "contribution": self.contribution,
        }


@dataclass(frozen=True, slots=True)
class Score:
    """A measurement judged against the baseline's: `value` = Σ contributions - `penalty`.

    `value` is None exactly when `missing` names something that was not measured; the terms that
    could be computed stay. Missing on the baseline's side reads `baseline.ttft_p95`. `penalty` is
    None when it was asked for and the engine's preemption counter was not measured.
    """

    value: float | None
    terms: tuple[ScoreTerm, ...]
    penalty: float | None
    missing: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, object]:
        """JSON-able."""
        return {
            "value": self.value,
            "terms": [term.to_dict() for term in self.terms],
            "penalty": self.penalty,
            "missing": list(self.missing),
        }


class Objective(Protocol):
    """Turns a measurement, seen against the baseline's, into a score: higher is better."""

    def score(self, measurement: Measurement, baseline: Measurement) -> Score:
        """Pure; never raises for a measurement that lacks something, but names it."""


@dataclass(frozen=True, slots=True)
class Compared:
    """Values of one metric on both sides, as far as they exist."""

    metric: WeightedMetric
    baseline: float | None
    value: float | None

    @property
    def missing(self) -> tuple[str, ...]:
        names = []
        if not self.baseline:
            names.append(f"baseline.{self.metric.name}")
        if self.value is None:
            names.append(self.metric.name)
        return tuple(names)

    @property
    def improvement(self) -> float | None:
        if not self.baseline or self.value is None:
            return None
        return self.metric.improvement(self.baseline, self.value)


def compare(metric: WeightedMetric, measurement: Measurement, baseline: Measurement) -> Compared:
    """A baseline of zero counts as missing: there is no ratio to it."""
    return Compared(metric, baseline=metric.read(baseline), value=metric.read(measurement))


def bounded_log(improvement: float) -> float:
    """ln(improvement) for an improvement clipped to [1/1000, 1000]; takes 0 and infinity."""
    return math.log(min(max(improvement, 1 / IMPROVEMENT_LIMIT), IMPROVEMENT_LIMIT))
