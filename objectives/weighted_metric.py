from __future__ import annotations

import math
import re
from dataclasses import dataclass

from objectives.measurement import PERCENTILES, Distribution, Estimate, Measurement
from objectives.metric import Direction, Metric

_LATENCIES = {
    "ttft": Metric.TTFT_MS,
    "tpot": Metric.TPOT_MS,
    "itl": Metric.ITL_MS,
    "e2e": Metric.E2E_MS,
}
_RATES = {
    "throughput": Metric.OUTPUT_TOKENS_PER_S,
    "goodput": Metric.GOODPUT_PER_S,
    "max_rate": Metric.MAX_RATE_PER_S,
}
_STEMS = {metric: stem for stem, metric in (_LATENCIES | _RATES).items()}
_LATENCY_NAME = re.compile(r"(ttft|tpot|itl|e2e)_(p\d+)")


@dataclass(frozen=True, slots=True)
class WeightedMetric:
    """What an objective reads from a measurement: a latency at a percentile, or a rate.

    Latencies and goodput come from the open-loop segment, throughput (output tokens/s) from the
    saturated one: below capacity throughput only repeats the offered rate.
    """

    metric: Metric
    percentile: str | None = None

    def __post_init__(self) -> None:
        if (self.metric in _LATENCIES.values()) != (self.percentile is not None):
            raise ValueError(f"{self.metric.value}: latencies need a percentile, rates have none")
        if self.percentile is not None and self.percentile not in PERCENTILES:
            raise ValueError(f"percentile {self.percentile!r} is none of {', '.join(PERCENTILES)}")

    @classmethod
    def parse(cls, name: str) -> WeightedMetric:
        """The metric called `ttft_p95`, `tpot_p99`, `throughput`, …; ValueError for other names."""
        if name in _RATES:
            return cls(_RATES[name])
        match = _LATENCY_NAME.fullmatch(name)
        if match is None:
            raise ValueError(f"no metric is called {name!r}")
        return cls(_LATENCIES[match[1]], match[2])

    @property
    def name(self) -> str:
        """The name in documents: `ttft_p95`, `throughput`, …"""
        stem = _STEMS[self.metric]
        return stem if self.percentile is None else f"{stem}_{self.percentile}"

    @property
    def direction(self) -> Direction:
        return self.metric.direction

    def at(self, percentile: str) -> WeightedMetric:
        """The same latency at another percentile; a rate is returned as it is."""
        return self if self.percentile is None else WeightedMetric(self.metric, percentile)

    def read(self, measurement: Measurement) -> float | None:
        """The measured value, or None when the measurement does not have a usable one.

        Not finite, negative, or a latency of zero is an instrument's fault, not a fast engine.
        """
        estimate = self.estimate(measurement)
        if estimate is None or not math.isfinite(estimate.value) or estimate.value < 0:
            return None
        if estimate.value == 0 and self.direction is Direction.LOWER_IS_BETTER:
            return None
        return estimate.value

    def improvement(self, baseline: float, value: float) -> float:
        """How many times better `value` is than a positive `baseline`; above 1 is better."""
        if self.direction is Direction.LOWER_IS_BETTER:
            return baseline / value
        return value / baseline

    def estimate(self, measurement: Measurement) -> Estimate | None:
        """What was measured, with its interval, usable or not; None where it was not."""
        if self.metric is Metric.OUTPUT_TOKENS_PER_S:
            return measurement.capacity.output_tokens_per_s
        if self.metric is Metric.GOODPUT_PER_S:
            return measurement.latency.goodput_per_s
        if self.metric is Metric.MAX_RATE_PER_S:
            return None if measurement.max_rate is None else measurement.max_rate.estimate
        distribution: Distribution | None = getattr(measurement.latency, self.metric.value)
        if distribution is None or self.percentile is None:
            return None
        return distribution.percentile(self.percentile)
