from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence

from tuner.search.space import Coordinates, FloatDimension, SearchSpace


def sobol_points(space: SearchSpace, seed: int, count: int) -> Iterator[Coordinates]:
    """The first `count` points of a scrambled Sobol sequence over the space's dimensions.

    Repeats exactly for equal seeds. A space without dimensions has one point only.
    """
    from scipy.stats import qmc

    dimensions = space.dimensions
    if not dimensions:
        yield {}
        return
    with warnings.catch_warnings():
        # Balance needs a power of two; these points are used one at a time.
        warnings.filterwarnings("ignore", message="The balance properties", category=UserWarning)
        unit_points = qmc.Sobol(len(dimensions), scramble=True, rng=seed).random(count)
    for unit in unit_points.tolist():
        yield from_unit(space, unit)


def from_unit(space: SearchSpace, unit: Sequence[float]) -> Coordinates:
    """Coordinates at a point of [0, 1)^d, one entry per dimension."""
    coordinates: Coordinates = {}
    for dimension, share in zip(space.dimensions, unit, strict=True):
        if isinstance(dimension, FloatDimension):
            value = dimension.low + share * (dimension.high - dimension.low)
            coordinates[dimension.name] = min(value, dimension.high)
        else:
            index = min(int(share * len(dimension.choices)), len(dimension.choices) - 1)
            coordinates[dimension.name] = dimension.choices[index]
    return coordinates


def distance(
    space: SearchSpace, left: Mapping[str, float | bool], right: Mapping[str, float | bool]
) -> float:
    """Euclidean distance in the unit cube; different choices are 1 apart."""
    total = 0.0
    for dimension in space.dimensions:
        a, b = left[dimension.name], right[dimension.name]
        if isinstance(dimension, FloatDimension):
            total += ((a - b) / (dimension.high - dimension.low)) ** 2
        else:
            total += float(a != b)
    return math.sqrt(total)


def to_unit(space: SearchSpace, coordinates: Mapping[str, float | bool]) -> list[float]:
    """A point of the unit cube, one entry per dimension; choices are spread evenly over [0, 1]."""
    unit: list[float] = []
    for dimension in space.dimensions:
        value = coordinates[dimension.name]
        if isinstance(dimension, FloatDimension):
            unit.append((value - dimension.low) / (dimension.high - dimension.low))
        else:
            unit.append(dimension.choices.index(bool(value)) / (len(dimension.choices) - 1))
    return unit
