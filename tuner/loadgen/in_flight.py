"""How many requests were in flight, by the client's records."""

from __future__ import annotations

import numpy as np

from tuner.loadgen.load_result import SegmentResult


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
