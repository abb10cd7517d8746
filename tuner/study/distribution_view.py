"""How a measurement's requests were spread over TTFT and TPOT, as histograms to draw."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tuner.loadgen.records import FloatArray
from tuner.loadgen.request_metrics import tpot_ms, ttft_from_due_ms
from tuner.study.stored_load import stored_latency_load

BINS_PER_DECADE = 16
"""Edges are 10^(k/16) ms for whole k, whatever was measured: histograms of two trials align."""

FASTEST_MS = 0.01
"""What is faster, or came before it was due, counts as this."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """Requests between each two neighbouring edges; `without` had no such time."""

    edges_ms: tuple[float, ...]
    counts: tuple[int, ...]
    without: int

    def to_dict(self) -> dict[str, object]:
        """JSON-able."""
        return {
            "edges_ms": list(self.edges_ms),
            "counts": list(self.counts),
            "without": self.without,
        }


def distributions(attempt_directory: Path) -> dict[str, object] | None:
    """`ttft_ms` and `tpot_ms` of the requests due in the latency window; None without records."""
    found = stored_latency_load(attempt_directory)
    if found is None:
        return None
    segment, records = found
    due = (records.due_s >= segment.warmup_s) & (records.due_s < segment.window_end_s)
    columns = {"ttft_ms": ttft_from_due_ms(records), "tpot_ms": tpot_ms(records)}
    return {name: histogram(values[due]).to_dict() for name, values in columns.items()}


def histogram(values_ms: FloatArray) -> Histogram:
    """Bins of equal ratio; NaN is a request without this time. No edges without any time."""
    known = np.maximum(values_ms[~np.isnan(values_ms)], FASTEST_MS)
    without = int(values_ms.size - known.size)
    if not known.size:
        return Histogram((), (), without)
    bins = np.floor(np.log10(known) * BINS_PER_DECADE).astype(np.int64)
    first = int(bins.min())
    counts = np.bincount(bins - first)
    edges = 10.0 ** (np.arange(first, first + counts.size + 1) / BINS_PER_DECADE)
    return Histogram(tuple(edges.tolist()), tuple(counts.tolist()), without)
