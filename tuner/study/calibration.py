"""How hard the study's load is: decided once, on the baseline's first start, then fixed.

Every trial is measured at the same rate (latency segment) and the same concurrency (capacity
segment); otherwise their numbers could not be compared.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from objectives.measurement import CapacitySegment

RATE_SHARE_OF_CAPACITY = 0.8
"""The study's rate over the baseline's saturated capacity: queues form, but not without end."""

OVERSUBSCRIPTION = 1.5
"""Requests in flight over the most sequences any configuration of the study may run: its waiting
queue is never empty."""

KV_OVERSUBSCRIPTION = 2.0
"""Requests in flight over those whose tokens fit in the baseline's KV cache. More would only wait,
and a candidate with twice the baseline's cache still finds enough to fill it."""

CONCURRENCY_LOW = 8
CONCURRENCY_HIGH = 512
"""What one load generator process on one core serves without becoming the bottleneck itself."""


class RateSource(Enum):
    GIVEN = "given"
    CALIBRATED = "calibrated"


@dataclass(frozen=True, slots=True)
class LoadCalibration:
    """The study's load. `capacity_per_s` is the baseline's, None when no rate had to be found."""

    rate_per_s: float
    concurrency: int
    source: RateSource
    capacity_per_s: float | None = None

    def to_dict(self) -> dict[str, object]:
        return {
            "rate_per_s": self.rate_per_s,
            "concurrency": self.concurrency,
            "source": self.source.value,
            "capacity_per_s": self.capacity_per_s,
        }

    @classmethod
    def from_dict(cls, document: dict[str, object]) -> LoadCalibration:
        capacity = document["capacity_per_s"]
        return cls(
            rate_per_s=float(str(document["rate_per_s"])),
            concurrency=int(str(document["concurrency"])),
            source=RateSource(document["source"]),
            capacity_per_s=None if capacity is None else float(str(capacity)),
        )


def saturating_concurrency(
    most_sequences: int, kv_cache_tokens: int | None, tokens_per_request: float
) -> int:
    """Requests in flight which saturate every configuration of the study, the largest too.

    A load made for a baseline of few sequences could not show what more of them are worth.

    `kv_cache_tokens` as the running engine reported it, None when it did not.
    """
    wanted = OVERSUBSCRIPTION * most_sequences
    if kv_cache_tokens is not None and tokens_per_request > 0:
        wanted = min(wanted, KV_OVERSUBSCRIPTION * kv_cache_tokens / tokens_per_request)
    return min(CONCURRENCY_HIGH, max(CONCURRENCY_LOW, math.ceil(wanted)))


def capacity_per_s(segment: CapacitySegment, output_tokens_per_request: float) -> float | None:
    """Requests per second the engine sustained in saturation; None when nothing was finished.

    Counted in tokens where possible: a window shorter than a request sees few completions but
    many tokens.
    """
    tokens = segment.output_tokens_per_s
    if tokens is not None and tokens.value > 0 and output_tokens_per_request > 0:
        return tokens.value / output_tokens_per_request
    requests = segment.requests_per_s
    return requests.value if requests is not None and requests.value > 0 else None


def given_rate(rate_per_s: float, concurrency: int) -> LoadCalibration:
    """The user's own rate is kept."""
    return LoadCalibration(rate_per_s, concurrency, RateSource.GIVEN)


def calibrated_rate(capacity: float, concurrency: int) -> LoadCalibration:
    """The rate near but below `capacity` (requests/s)."""
    return LoadCalibration(
        RATE_SHARE_OF_CAPACITY * capacity, concurrency, RateSource.CALIBRATED, capacity
    )
