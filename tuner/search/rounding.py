"""Differences too small to be worth an engine restart are rounded away."""

from __future__ import annotations

import math

UTILIZATION_STEPS_PER_UNIT = 200
"""gpu-memory-utilization moves in steps of 0.005."""
_LEADING_BITS = 6


def round_count(count: float) -> int:
    """Round to six leading bits (within 1.6%): exact below 64, even below 128, and so on."""
    if count < 1:
        return 1
    step = 1 << max(0, math.floor(math.log2(count)) - (_LEADING_BITS - 1))
    return round(count / step) * step


def round_utilization(utilization: float, low: float, high: float) -> float:
    """The nearest multiple of 0.005 within [low, high]; `low` where there is none."""
    lowest = math.ceil(low * UTILIZATION_STEPS_PER_UNIT - 1e-9)
    highest = math.floor(high * UTILIZATION_STEPS_PER_UNIT + 1e-9)
    if lowest > highest:
        return low
    steps = min(max(round(utilization * UTILIZATION_STEPS_PER_UNIT), lowest), highest)
    return round(steps / UTILIZATION_STEPS_PER_UNIT, 3)
