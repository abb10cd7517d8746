"""What a measurement comes to, quantity by quantity, for lists, fronts and charts."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

from objectives.measurement import Distribution, Estimate, MaxRate, Measurement
from objectives.metric import Direction

SECONDS_PER_HOUR = 3600.0
COST = "gpu_hours_per_million_tokens"
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
        Quantity(f"{metric}_{percentile}_ms", f"{label} {percentile}", "ms", LOWER)
        for metric, label in (("ttft", "TTFT"), ("tpot", "TPOT"), ("itl", "ITL"), ("e2e", "E2E"))
        for percentile in ("p50", "p95", "p99")
    ),
    Quantity("output_tokens_per_s", "Output throughput, saturated", "tokens/s", HIGHER),
    Quantity("goodput_per_s", "Goodput", "requests/s", HIGHER),
    Quantity("max_rate_per_s", "Highest rate that meets the SLO", "requests/s", HIGHER),
    Quantity("slo_attainment", "SLO attainment", "share", HIGHER),
    Quantity(COST, "GPU time per million output tokens", "GPU hours", LOWER),
)
BY_NAME: Mapping[str, Quantity] = {quantity.name: quantity for quantity in QUANTITIES}

DEFAULT_AXES = ("ttft_p95_ms", "tpot_p95_ms", "output_tokens_per_s")


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


def readings(measurement: Measurement) -> dict[str, Reading | None]:
    """Every quantity but the cost by name; None where it was not measured."""
    latency, capacity = measurement.latency, measurement.capacity
    found: dict[str, Reading | None] = {}
    for metric in ("ttft", "tpot", "itl", "e2e"):
        distribution: Distribution | None = getattr(latency, f"{metric}_ms")
        for percentile in ("p50", "p95", "p99"):
            found[f"{metric}_{percentile}_ms"] = _percentile(distribution, percentile)
    found["output_tokens_per_s"] = _reading(capacity.output_tokens_per_s)
    found["goodput_per_s"] = _reading(latency.goodput_per_s)
    found["max_rate_per_s"] = _max_rate(measurement.max_rate)
    found["slo_attainment"] = _reading(latency.slo_attainment)
    return found


def stored_readings(
    summary: Mapping[str, object] | None, names: Set[str] | None = None
) -> dict[str, Reading | None]:
    """The quantities of a trial's stored summary; empty without one, None where not measured.

    Only those in `names` where given: a study has thousands of them.
    """
    quantities = None if summary is None else summary.get("quantities")
    if not isinstance(quantities, Mapping):
        return {}
    return {
        str(name): _from_dict(value)
        for name, value in quantities.items()
        if names is None or name in names
    }


def cost(throughput: Reading | None, gpu_count: int) -> Reading | None:
    """GPU hours for 10⁶ output tokens of the saturated engine; None without a throughput.

    The interval's ends change places with the rate's.
    """
    if throughput is None or not throughput.value > 0:
        return None

    def hours(rate: float | None) -> float | None:
        return gpu_count * 1e6 / rate / SECONDS_PER_HOUR if rate is not None and rate > 0 else None

    value = gpu_count * 1e6 / throughput.value / SECONDS_PER_HOUR
    return Reading(value, hours(throughput.high), hours(throughput.low))


def _from_dict(value: object) -> Reading | None:
    if not isinstance(value, Mapping):
        return None
    return Reading(value["value"], value["low"], value["high"], bool(value.get("censored")))


def _reading(estimate: Estimate | None) -> Reading | None:
    return None if estimate is None else Reading(estimate.value, estimate.low, estimate.high)


def _max_rate(found: MaxRate | None) -> Reading | None:
    """None where no rate held: any number would be an invention. Censored where none failed."""
    if found is None or found.held_per_s is None or found.value_per_s is None:
        return None
    unlimited = found.failed_per_s is None
    return Reading(found.value_per_s, found.low_per_s, found.high_per_s, unlimited)


def _percentile(distribution: Distribution | None, name: str) -> Reading | None:
    if distribution is None:
        return None
    estimate = distribution.percentile(name)
    cut = distribution.censored > 0 and estimate.value >= distribution.max.value
    return Reading(estimate.value, estimate.low, estimate.high, cut)
