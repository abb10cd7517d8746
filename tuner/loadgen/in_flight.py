"""How many requests were in flight, by the client's records."""

from __future__ import annotations

import numpy as np

from tuner.loadgen.load_result import SegmentResult
from tuner.loadgen.records import FloatArray, Records


def mean_in_flight(result: SegmentResult) -> float | None:
    """Time average over the window of requests sent and not ended; None where none was sent.

    A request without an end was still running at the segment's.
    """
    records, start_s = result.records, result.segment.warmup_s
    if not records.sent.any():
        return None
    end_s = start_s + result.segment.window_s
    sent_s = np.clip(records.sent_s[records.sent], start_s, end_s)
    ended_s = np.where(np.isnan(records.ended_s), end_s, records.ended_s)[records.sent]
    return float((np.clip(ended_s, start_s, end_s) - sent_s).sum()) / result.segment.window_s


def in_flight_by_part(records: Records, start_s: float, end_s: float, parts: int) -> FloatArray:
    """The same over each of so many equal parts of [start_s, end_s]."""
    edges_s = np.linspace(start_s, end_s, parts + 1)
    sent_s = records.sent_s[records.sent]
    ended_s = np.where(np.isnan(records.ended_s), np.inf, records.ended_s)[records.sent]
    if sent_s.size == 0:
        return np.zeros(parts)
    # Request seconds until each edge, an edge at a time: the table of all would be large.
    until = [float(np.maximum(np.minimum(ended_s, edge) - sent_s, 0).sum()) for edge in edges_s]
    return np.diff(np.array(until)) * parts / (end_s - start_s)
