"""Where latency begins to rise steeply with the rate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

SMALLEST_RISE = math.log(1.5)
"""Of the log latency over the whole range; below that there is nothing to see but noise."""

STEEPER = 2.0
"""Times as steep beyond the knee as before it."""

FEWEST_POINTS = 4
KNOTS = 64


@dataclass(frozen=True, slots=True)
class RatePoint:
    """A latency in milliseconds at a rate of requests per second."""

    rate_per_s: float
    latency_ms: float


def find_knee(points: Sequence[RatePoint]) -> float | None:
    """The rate from which the log latency rises steeply; None: no knee in this range.

    The continuous line of two pieces, each over at least two points, with the least squared error;
    of equally good ones that with the lowest knee. `points` ascend in rate.
    """
    if len(points) < FEWEST_POINTS:
        return None
    xs = [point.rate_per_s for point in points]
    ys = [math.log(point.latency_ms) for point in points]
    if max(ys) - min(ys) < SMALLEST_RISE or ys[-1] <= ys[0]:
        return None
    knots = [xs[1] + (xs[-2] - xs[1]) * step / KNOTS for step in range(KNOTS + 1)]
    fits = [(_fit(xs, ys, knot), knot) for knot in knots]
    least = min(fit.error for fit, _ in fits)
    best, knee = next((fit, knot) for fit, knot in fits if fit.error <= least + 1e-9)
    steep = best.after > 0 and best.after >= STEEPER * max(0.0, best.before)
    return knee if steep else None


def latency_at(points: Sequence[RatePoint], rate_per_s: float) -> float | None:
    """The latency at a rate: between two points on the line of their logs, outside the nearest's.

    None without points.
    """
    if not points:
        return None
    if rate_per_s <= points[0].rate_per_s:
        return points[0].latency_ms
    for low, high in pairwise(points):
        if rate_per_s <= high.rate_per_s:
            share = (rate_per_s - low.rate_per_s) / (high.rate_per_s - low.rate_per_s)
            logs = (math.log(low.latency_ms), math.log(high.latency_ms))
            return math.exp(logs[0] + share * (logs[1] - logs[0]))
    return points[-1].latency_ms


def rate_of(points: Sequence[RatePoint], latency_ms: float) -> float | None:
    """The lowest rate at which the line through the points reaches this latency; None: nowhere."""
    for low, high in pairwise(points):
        if low.latency_ms >= latency_ms:
            return low.rate_per_s
        if high.latency_ms >= latency_ms:
            logs = (math.log(low.latency_ms), math.log(high.latency_ms))
            share = (math.log(latency_ms) - logs[0]) / (logs[1] - logs[0])
            return low.rate_per_s + share * (high.rate_per_s - low.rate_per_s)
    return None


@dataclass(frozen=True, slots=True)
class _Fit:
    before: float
    after: float
    error: float


def _fit(xs: Sequence[float], ys: Sequence[float], knot: float) -> _Fit:
    """Least squares of y = a + b·(x - knot) + c·max(0, x - knot)."""
    shifted = np.array(xs) - knot
    table = np.column_stack((np.ones(len(xs)), shifted, np.maximum(0.0, shifted)))
    solution, *_ = np.linalg.lstsq(table, np.array(ys), rcond=None)
    error = float(((table @ solution - np.array(ys)) ** 2).sum())
    return _Fit(float(solution[1]), float(solution[1] + solution[2]), error)
