"""How wide 90% intervals are, cheaply: for looks at a load that runs, not for what is reported.

The reported intervals come from a block bootstrap afterwards. These take well under a millisecond.
"""

from __future__ import annotations

import math

import numpy as np

from tuner.loadgen.records import FloatArray
from tuner.loadgen.sprt import memory

Z_90 = 1.6448536269514722
"""Half the width of a two-sided 90% normal interval in standard deviations."""

FEWEST_BATCHES = 12
"""Of fewer, the spread of a mean is not known."""


def mean_half_width(values: FloatArray) -> float:
    """Of the mean of equal parts in their order in time, over the mean.

    By the parts' variance and by how much more neighbours vary together than independent ones.
    """
    count = values.size
    mean = float(values.mean()) if count else 0.0
    if count < FEWEST_BATCHES or not mean > 0:
        return math.inf
    error = float(values.std(ddof=1)) * math.sqrt(memory(values) / count)
    return Z_90 * error / mean


def quantile_half_width(values: FloatArray, share: float) -> float:
    """Of a quantile of observations in their order in time, over the quantile.

    Between the order statistics that bound it with 90% (binomial ranks, by the normal
    approximation), for as many independent observations as these are worth: whether they lie above
    the quantile, or how large they are, whichever is more alike among neighbours.
    """
    count = values.size
    if count == 0:
        return math.inf
    ordered = np.sort(values)
    rank = max(1, math.ceil(share * count - 1e-9))
    value = float(ordered[rank - 1])
    if not 0 < value < math.inf:
        return math.inf
    above = (values > value).astype(np.float64)
    largest = float(ordered[np.isfinite(ordered)][-1])
    alike = max(memory(above), memory(np.minimum(values, largest)))
    reach = Z_90 * math.sqrt(share * (1 - share) * alike / count)
    low, high = math.floor((share - reach) * count), math.ceil((share + reach) * count) + 1
    if low < 1 or high > count:
        return math.inf
    return float(ordered[high - 1] - ordered[low - 1]) / (2 * value)


def share_half_width(good: FloatArray) -> float:
    """Of a share of ones among zeros and ones in their order in time, over the share (Wilson)."""
    if good.size == 0 or not good.any():
        return math.inf
    count = good.size / memory(good)
    share = float(good.mean())
    spread = share * (1 - share) / count + Z_90**2 / (4 * count**2)
    return Z_90 * math.sqrt(spread) / (1 + Z_90**2 / count) / share
