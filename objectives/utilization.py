"""What GPU utilisation says beside the latencies; alone it misleads."""

from __future__ import annotations

from objectives.bottleneck import QUEUE_SHARE
from objectives.measurement import LatencySegment

IDLE = 0.70
"""Below this share of busy time a GPU has room for more work per second."""

BUSY = 0.90
GOOD_ATTAINMENT = 0.95


def utilization_remark(segment: LatencySegment) -> str | None:
    """A sentence on latency and utilisation together; None where either is not known or telling.

    Latencies are good when the SLO is met, or without one when no queue formed
    (facts/practice.md P14).
    """
    busy, good = segment.gpu_utilization, latencies_good(segment)
    if busy is None or good is None:
        return None
    told = f"the GPU was busy {busy:.0%} of the time at the study's rate"
    if good and busy < IDLE:
        return f"Latencies were good while {told}: it has room for a larger budget per step."
    if not good and busy >= BUSY:
        return f"Requests waited while {told}: it is at its limit, and less per step is faster."
    if not good and busy < IDLE:
        return f"Requests waited although {told}: something else than the GPU held them back."
    return None


def latencies_good(segment: LatencySegment) -> bool | None:
    """Whether requests of this window were served in time; None when it cannot be told."""
    if segment.slo_attainment is not None:
        return segment.slo_attainment.value >= GOOD_ATTAINMENT
    running, waiting = segment.running_peak, segment.waiting_peak
    if running is None or waiting is None:
        return None
    return waiting < max(1.0, QUEUE_SHARE * running)
