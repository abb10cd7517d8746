"""At which level to look again and again at a growing mean, so that all looks together keep theirs.

Armitage, McPherson and Rowe, "Repeated significance tests on accumulating data" (J. R. Stat. Soc.
A 132, 1969): the density of the running sum is carried from look to look, without what was beyond
the bounds at an earlier one. For a known variance; Student's quantile at the resulting level takes
its place where the variance is estimated.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

STEP = 0.05
"""Of the grid, in standard deviations of one observation."""

NORMAL = NormalDist()
REACH = 4.5
"""Bounds are looked for below so many standard deviations."""

HALVINGS = 30


@lru_cache(maxsize=128)
def sequential_level(looks: tuple[int, ...], error: float) -> float:
    """The level of one look at which the chance of any look being wrong is `error`.

    `looks` are the ascending numbers of observations at which it is looked. One look alone is at
    1 - error.
    """
    low, high = NORMAL.inv_cdf(1 - error / 2), REACH
    if len(looks) == 1:
        return 1 - error
    for _ in range(HALVINGS):
        bound = (low + high) / 2
        low, high = (bound, high) if crossing(looks, bound) > error else (low, bound)
    return 1 - 2 * NORMAL.cdf(-high)


def crossing(looks: tuple[int, ...], bound: float) -> float:
    """The chance that the mean lies beyond `bound` of its standard deviations at any look."""
    reach = REACH * math.sqrt(looks[-1])
    count = 2 * math.ceil(reach / STEP) + 1
    sums = np.asarray(STEP * (np.arange(count) - count // 2), dtype=np.float64)
    density: npt.NDArray[np.float64] = np.zeros(count)
    seen = 0
    for look in looks:
        step = _normal_density(sums, look - seen)
        carried = step if seen == 0 else np.convolve(density, step, "same") * STEP
        # A cell that the bound cuts through counts by the part within.
        within = np.clip((bound * math.sqrt(look) - np.abs(sums)) / STEP + 0.5, 0.0, 1.0)
        density = np.asarray(carried * within, dtype=np.float64)
        seen = look
    return float(1 - density.sum() * STEP)


def _normal_density(sums: npt.NDArray[np.float64], variance: int) -> npt.NDArray[np.float64]:
    return np.asarray(
        np.exp(-(sums**2) / (2 * variance)) / math.sqrt(2 * math.pi * variance), dtype=np.float64
    )
