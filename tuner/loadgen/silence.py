"""Whether an engine stopped answering although it lives."""

from __future__ import annotations

import numpy as np

from tuner.loadgen.records import Outcome, Records

SHARE_OF_STALL = 0.5
"""Of the allowed silence: a stream is failed after the whole of it, the last token of the others
may have come a little later than its own."""


def hung(records: Records, stall_s: float) -> bool:
    """Whether the engine had given nobody a token when the first request stalled, nor ever after.

    One stalled stream beside others that flow is that request's failure; a silent engine with
    requests in flight is a hang (`/health` may answer all the while). `stall_s` is engine time, as
    the records' times are.
    """
    stalled = records.outcome == Outcome.STALLED
    if not stalled.any():
        return False
    first_stall_s = float(np.min(records.ended_s[stalled]))
    if records.frame_s.size == 0:
        return True
    return float(np.max(records.frame_s)) < first_stall_s - SHARE_OF_STALL * stall_s
