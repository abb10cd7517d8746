"""Fronts over vectors in which None means "not measured": such a vector takes no part."""

from __future__ import annotations

import math
from collections.abc import Sequence

from objectives.metric import Direction

Vector = Sequence[float | None]
_Gains = tuple[float, ...]


def dominates(left: Vector, right: Vector, directions: Sequence[Direction]) -> bool:
    """Whether `left` is nowhere worse and somewhere better. A vector with None never takes part."""
    a, b = _gains(left, directions), _gains(right, directions)
    return a is not None and b is not None and _dominates(a, b)


def front(points: Sequence[Vector], directions: Sequence[Direction]) -> tuple[int, ...]:
    """Indices of the non-dominated points, ascending; equal points are all on the front."""
    gains = {i: g for i, p in enumerate(points) if (g := _gains(p, directions)) is not None}
    # In falling order nothing is dominated by what follows it, and what dominates it, if anything
    # does, is on the front or dominated by something there.
    found: list[int] = []
    for i in sorted(gains, key=lambda i: gains[i], reverse=True):
        if not any(_dominates(gains[other], gains[i]) for other in found):
            found.append(i)
    return tuple(sorted(found))


def hypervolume(
    points: Sequence[Vector], reference: Sequence[float], directions: Sequence[Direction]
) -> float:
    """Exact volume dominated by the points and bounded by `reference`; 0.0 for none beyond it.

    Slicing along one metric after the other (HSO; While et al. 2006): exponential in the metrics,
    meant for at most a few hundred points in two to five dimensions.
    """
    origin = _gains(reference, directions)
    if origin is None:
        raise ValueError("the reference point needs a value for every metric")
    boxes = []
    for point in points:
        gains = _gains(point, directions)
        if gains is not None and all(g > o for g, o in zip(gains, origin, strict=True)):
            boxes.append(tuple(g - o for g, o in zip(gains, origin, strict=True)))
    return _volume(boxes)


def knee(points: Sequence[Vector], directions: Sequence[Direction]) -> int | None:
    """Index of the front's knee: the point farthest beyond the plane through its extremes.

    Each metric is scaled to [0, 1] over the front, so that the plane is Σ z = 1. None when the
    front has fewer than three different points, does not spread in every metric, or nowhere
    bulges beyond that plane.
    """
    gains = {i: g for i in front(points, directions) if (g := _gains(points[i], directions))}
    if len(set(gains.values())) < 3:
        return None
    columns = list(zip(*gains.values(), strict=True))
    lows, spans = [min(c) for c in columns], [max(c) - min(c) for c in columns]
    if min(spans) <= 0:
        return None
    height = {
        i: math.fsum((v - low) / span for v, low, span in zip(g, lows, spans, strict=True))
        for i, g in gains.items()
    }
    best = max(height, key=lambda i: height[i])
    return best if height[best] > 1 + 1e-9 else None


def _gains(point: Vector, directions: Sequence[Direction]) -> _Gains | None:
    """The point with every metric turned so that higher is better; None if anything is missing."""
    if len(point) != len(directions):
        raise ValueError(f"{len(point)} values for {len(directions)} metrics")
    if not directions:
        raise ValueError("a point needs at least one metric")
    gains = []
    for value, direction in zip(point, directions, strict=True):
        if value is None:
            return None
        if not math.isfinite(value):
            raise ValueError(f"a point cannot hold {value}: missing is None")
        gains.append(value if direction is Direction.HIGHER_IS_BETTER else -value)
    return tuple(gains)


def _dominates(a: _Gains, b: _Gains) -> bool:
    return a != b and all(x >= y for x, y in zip(a, b, strict=True))


def _volume(boxes: Sequence[_Gains]) -> float:
    """Volume of the union of boxes [0, box]."""
    if not boxes:
        return 0.0
    if len(boxes[0]) == 1:
        return max(box[0] for box in boxes)
    ordered = sorted(set(boxes), key=lambda box: box[-1], reverse=True)
    slices = []
    for index, box in enumerate(ordered):
        floor = ordered[index + 1][-1] if index + 1 < len(ordered) else 0.0
        thickness = box[-1] - floor
        if thickness > 0:
            slices.append(thickness * _volume([tall[:-1] for tall in ordered[: index + 1]]))
    return math.fsum(slices)
