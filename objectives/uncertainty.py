"""How far a score may be off by the chance of one run, from the intervals of what it rests on."""

from __future__ import annotations

import math

from objectives.measurement import Estimate, Measurement
from objectives.metric import Metric
from objectives.score import Score
from objectives.weighted_metric import WeightedMetric

Z_90 = 1.6448536269514722
"""Half the width of a two-sided 90% normal interval in standard deviations."""


def log_spread(estimate: Estimate | None) -> float | None:
    """Standard deviation of ln(value) behind an estimate's 90% interval; None without one."""
    if estimate is None or estimate.low is None or estimate.high is None:
        return None
    if not 0 < estimate.value < math.inf or estimate.high < estimate.low:
        return None
    if estimate.low > 0:
        return math.log(estimate.high / estimate.low) / (2 * Z_90)
    return (estimate.high - estimate.low) / (2 * Z_90 * estimate.value)


def score_spread(score: Score, measurement: Measurement) -> float | None:
    """Standard deviation of a score within its run; None when a term's interval is not known.

    What comes from the open-loop window rises and falls together (one queue): those terms add up.
    The saturated window is another stretch of time: it adds in quadrature.
    """
    open_loop = saturated = 0.0
    if score.value is None:
        return None
    for term in score.terms:
        metric = WeightedMetric.parse(term.metric)
        spread = log_spread(metric.estimate(measurement))
        if spread is None:
            return None
        if metric.metric is Metric.OUTPUT_TOKENS_PER_S:
            saturated += term.weight * spread
        else:
            open_loop += term.weight * spread
    return math.hypot(open_loop, saturated)
