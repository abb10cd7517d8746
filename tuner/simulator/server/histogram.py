"""A histogram that is cheap to fill and speaks Prometheus when it is read."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from prometheus_client.core import HistogramMetricFamily


class Histogram:
    """Cumulative buckets by upper bound, with count and sum."""

    __slots__ = ("_bounds", "_counts", "count", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(self._bounds) + 1)
        self.count = 0
        self.total = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        self._counts[bisect_left(self._bounds, value)] += times
        self.count += times
        self.total += value * times

    def add_to(
        self, family: HistogramMetricFamily, labels: Sequence[str], created_s: float
    ) -> None:
        """Add this histogram's samples and the `_created` twin that vLLM also exposes."""
        cumulative = 0
        buckets: list[tuple[str, float]] = []
        for bound, count in zip((*self._bounds, float("inf")), self._counts, strict=True):
            cumulative += count
            buckets.append((_bound_text(bound), cumulative))
        family.add_metric(labels, buckets=buckets, sum_value=self.total)
        names = dict(zip(family._labelnames, labels, strict=True))
        family.add_sample(f"{family.name}_created", names, created_s)


def _bound_text(bound: float) -> str:
    return "+Inf" if bound == float("inf") else repr(float(bound))


def powers_1_2_5(limit: int) -> tuple[int, ...]:
    """1, 2, 5, 10, … up to `limit`: vLLM's buckets for token counts."""
    bounds = []
    decade = 1
    while decade <= limit:
        bounds += [decade * factor for factor in (1, 2, 5) if decade * factor <= limit]
        decade *= 10
    return tuple(bounds)
