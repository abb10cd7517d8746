"""What a measurement comes to, quantity by quantity, for lists, fronts and charts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from objectives.measurement import Distribution, Estimate, Measurement
from objectives.metric import Direction

SECONDS_PER_HOUR = 3600.0
LOWER, HIGHER = Direction.LOWER_IS_BETTER, Direction.HIGHER_IS_BETTER


@dataclass(frozen=True, slots=True)
class Quantity:
    """A named quantity that trials are compared in."""

    name: str
    label: str
    unit: str
    direction: Direction


QUANTITIES: tuple[Quantity, ...] = (
    *(
        Quantity(f"{metric}_{percentile}", f"{label} {percentile}", "ms", LOWER)
        for metric, label in (("ttft", "TTFT"), ("tpot", "TPOT"), ("itl", "ITL"), ("e2e", "E2E"))
        for percentile in ("p50", "p95", "p99")
    ),
    Quantity("throughput", "Output throughput, saturated", "tokens/s", HIGHER),
    Quantity("goodput", "Goodput", "requests/s", HIGHER),
    Quantity("slo_attainment", "SLO attainment", "share", HIGHER),
    Quantity("cost", "GPU time per million output tokens", "GPU hours", LOWER),
)
BY_NAME: Mapping[str, Quantity] = {quantity.name: quantity for quantity in QUANTITIES}

DEFAULT_AXES = ("ttft_p95", "tpot_p95", "throughput")


@dataclass(frozen=True, slots=True)
class Reading:
    """A quantity's value, the ends of its 90% interval where known, and whether it is a bound.

    `censored` means that the true value is at least this: it was cut at the measurement's cap.
    """

    value: float
    low: float | None
    high: float | None
    censored: bool = False

    def to_dict(self) -> dict[str, object]:
        """JSON-able."""
        return {
            "value": self.value,
            "low": self.low,
            "high": self.high,
            "censored": self.censored,
        }


def readings(measurement: Measurement, gpu_count: int) -> dict[str, Reading | None]:
    """Every quantity of QUANTITIES by name; None where it was not measured.

    Cost is of the saturated engine: `gpu_count` GPUs over its output tokens per second.
    """
    latency, capacity = measurement.latency, measurement.capacity
    found: dict[str, Reading | None] = {}
    for metric in ("ttft", "tpot", "itl", "e2e"):
        distribution: Distribution | None = getattr(latency, f"{metric}_ms")
        for percentile in ("p50", "p95", "p99"):
            found[f"{metric}_{percentile}"] = _percentile(distribution, percentile)
    found["throughput"] = _reading(capacity.output_tokens_per_s)
    found["goodput"] = _reading(latency.goodput_per_s)
    found["slo_attainment"] = _reading(latency.slo_attainment)
    found["cost"] = _cost(capacity.output_tokens_per_s, gpu_count)
    return found


def _reading(estimate: Estimate | None) -> Reading | None:
    return None if estimate is None else Reading(estimate.value, estimate.low, estimate.high)


def _percentile(distribution: Distribution | None, name: str) -> Reading | None:
    if distribution is None:
        return None
    estimate = distribution.percentile(name)
    cut = distribution.censored > 0 and estimate.value >= distribution.max.value
    return Reading(estimate.value, estimate.low, estimate.high, cut)


def _cost(tokens_per_s: Estimate | None, gpu_count: int) -> Reading | None:
    """GPU hours for 10⁶ output tokens; the interval's ends change places with the rate's."""
    if tokens_per_s is None or not tokens_per_s.value > 0:
        return None

    def hours(rate: float | None) -> float | None:
        return gpu_count * 1e6 / rate / SECONDS_PER_HOUR if rate is not None and rate > 0 else None

    value = hours(tokens_per_s.value)
    return (
        None if value is None else Reading(value, hours(tokens_per_s.high), hours(tokens_per_s.low))
    )
