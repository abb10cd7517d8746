"""Whether arrivals were stamped one by one, or read together and stamped as the last of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tuner.loadgen.load_result import SegmentResult

SAME_READ_S = 1e-9


def coalesced_share(segments: Sequence[SegmentResult]) -> float | None:
    """Frames in the windows with the stamp of the frame before them, as a share of all that follow
    another one of their request; None without any."""
    together = following = 0
    for result in segments:
        records, start_s = result.records, result.segment.warmup_s
        ends_s = records.frame_s[1:]
        owner = records.frame_request
        chosen = (owner[1:] == owner[:-1]) & (ends_s >= start_s)
        chosen &= ends_s < result.segment.window_end_s
        gaps_s = np.diff(records.frame_s)[chosen]
        following += int(gaps_s.size)
        together += int(np.count_nonzero(gaps_s < SAME_READ_S))
    return together / following if following else None
