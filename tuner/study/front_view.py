"""The front of a study in any of its quantities, with the trials it dominates beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from objectives.pareto import front
from tuner.errors import InvalidInputError
from tuner.study.quantities import BY_NAME, Quantity, Reading


@dataclass(frozen=True, slots=True)
class FrontPoint:
    """A measured trial in the front's quantities; `on_front` when no other dominates it."""

    trial_number: int
    values: Mapping[str, Reading | None]
    on_front: bool


@dataclass(frozen=True, slots=True)
class FrontView:
    """Every measured trial, in the order of numbers, over the named quantities."""

    axes: tuple[Quantity, ...]
    points: tuple[FrontPoint, ...]


def axes_of(names: Sequence[str]) -> tuple[Quantity, ...]:
    """The named quantities; InvalidInputError unless they are two to four different known ones."""
    for name in names:
        if name not in BY_NAME:
            known = f"one of {', '.join(BY_NAME)}"
            raise InvalidInputError(f"there is no quantity {name!r}", where="axes", hint=known)
    if not 2 <= len(names) <= 4 or len(set(names)) != len(names):
        message = f"a front needs two to four different quantities, not {', '.join(names)!r}"
        raise InvalidInputError(
            message, where="axes", hint="ttft_p95_ms,output_tokens_per_s, for instance"
        )
    return tuple(BY_NAME[name] for name in names)


def front_view(
    trials: Mapping[int, Mapping[str, Reading | None]], axes: Sequence[Quantity]
) -> FrontView:
    """The front over `axes`; a trial without one of them is listed and takes no part."""
    numbers = sorted(trials)
    vectors = [[_value(trials[number].get(axis.name)) for axis in axes] for number in numbers]
    best = set(front(vectors, [axis.direction for axis in axes]))
    points = tuple(
        FrontPoint(
            number, {axis.name: trials[number].get(axis.name) for axis in axes}, index in best
        )
        for index, number in enumerate(numbers)
    )
    return FrontView(tuple(axes), points)


def _value(reading: Reading | None) -> float | None:
    return None if reading is None else reading.value
