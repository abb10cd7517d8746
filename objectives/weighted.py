from __future__ import annotations

import math
from collections.abc import Mapping

from objectives import preemption
from objectives.measurement import Measurement
from objectives.score import Compared, Score, ScoreTerm, bounded_log, compare
from objectives.weighted_metric import WeightedMetric

__all__ = ["Score", "ScoreTerm", "WeightedMetric", "WeightedObjective"]

PREEMPTIONS = "preemptions"


class WeightedObjective:
    """score = Σ wᵢ·ln(improvementᵢ) - λ·penalty, the weights normalised to sum 1.

    A logarithm of ratios, because a linear sum is ruled by TTFT ratios of 100 and more
    (facts/optimisation.md §3.2). 0 is the baseline (without its own penalty), ln 1.1 is 10% better
    in the weighted geometric mean. A metric of weight 0 is neither read nor required.
    Raises ValueError for weights that are negative, not finite or all zero, and for such a λ.
    """

    def __init__(
        self, weights: Mapping[WeightedMetric, float], *, preemption_penalty: float = 0.5
    ) -> None:
        for metric, weight in weights.items():
            _require_non_negative(weight, f"the weight of {metric.name}")
        _require_non_negative(preemption_penalty, "the preemption penalty")
        largest = max(weights.values(), default=0.0)
        if largest == 0:
            raise ValueError("at least one weight must be positive")
        # Dividing by the largest first keeps the sum finite for any finite weights.
        scaled = {metric: weight / largest for metric, weight in weights.items()}
        total = math.fsum(scaled.values())
        self._weights = {m: w / total for m, w in scaled.items() if w / total > 0}
        self._preemption_penalty = preemption_penalty

    @classmethod
    def named(
        cls,
        weights: Mapping[str, float],
        *,
        latency_percentile: str | None = None,
        preemption_penalty: float = 0.5,
    ) -> WeightedObjective:
        """From the document's names; `latency_percentile` overrides that of TTFT and TPOT."""
        metrics: dict[WeightedMetric, float] = {}
        for name, weight in weights.items():
            metric = WeightedMetric.parse(name)
            if latency_percentile is not None and name.startswith(("ttft_", "tpot_")):
                metric = metric.at(latency_percentile)
            metrics[metric] = metrics.get(metric, 0.0) + weight
        return cls(metrics, preemption_penalty=preemption_penalty)

    @property
    def weights(self) -> Mapping[WeightedMetric, float]:
        """The positive weights; they sum to 1."""
        return dict(self._weights)

    def score(self, measurement: Measurement, baseline: Measurement) -> Score:
        compared = [compare(metric, measurement, baseline) for metric in self._weights]
        terms = tuple(
            term(pair, self._weights[pair.metric]) for pair in compared if not pair.missing
        )
        missing = [name for pair in compared for name in pair.missing]
        penalty = weighted_penalty(measurement, self._preemption_penalty)
        if penalty is None:
            missing.append(PREEMPTIONS)
        if penalty is None or missing:
            return Score(None, terms, penalty, tuple(missing))
        total = math.fsum(item.contribution for item in terms) - penalty
        return Score(total, terms, penalty)


def term(pair: Compared, weight: float) -> ScoreTerm:
    """The explained contribution of a complete pair; ValueError for one that lacks a side."""
    improvement = pair.improvement
    if improvement is None or pair.baseline is None or pair.value is None:
        raise ValueError(f"{pair.metric.name} is missing")
    return ScoreTerm(
        metric=pair.metric.name,
        weight=weight,
        baseline=pair.baseline,
        value=pair.value,
        improvement=improvement,
        contribution=weight * bounded_log(improvement),
    )


def weighted_penalty(measurement: Measurement, weight: float) -> float | None:
    """λ·penalty(preemptions per request); None when λ > 0 and the counter was not measured."""
    if weight == 0:
        return 0.0
    rate = preemption.rate(measurement)
    return None if rate is None else weight * preemption.penalty(rate)


def _require_non_negative(value: float, what: str) -> None:
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"{what} must be finite and not negative, not {value}")
