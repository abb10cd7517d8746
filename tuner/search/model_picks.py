"""The few configurations that a model of the engine likes best, far from each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tuner.search.sampler import derived_seed
from tuner.search.space import HEADROOM, SEQUENCES, TOKENS, Coordinates, FloatDimension, SearchSpace
from tuner.search.space_filling import distance, sobol_points

CANDIDATES = 256
PICKS = 3
LEAST_DISTANCE = 0.12
"""In the unit cube (facts/optimisation.md §9.3)."""

REFINED = 4
"""Candidates whose neighbourhood is looked at as well."""

STEPS = ((0.06, 0.0), (-0.06, 0.0), (0.0, 0.08), (0.0, -0.08), (0.04, 0.06), (-0.04, -0.06))
"""Neighbours, as shares of the ranges of sequences and token budget."""

_ASK_SEED = -2

Predict = Callable[[Coordinates], tuple[float | None, int]]
"""Score (None: would not run) of a point, and what it cost to compute."""


@dataclass(frozen=True, slots=True)
class Pick:
    """A point with its predicted score, best first."""

    coordinates: Coordinates
    score: float


@dataclass(frozen=True, slots=True)
class Picks:
    """What was found, and among how many."""

    chosen: tuple[Pick, ...]
    candidates: int


def model_picks(
    space: SearchSpace,
    predict: Predict,
    *,
    seed: int,
    extra: Sequence[Coordinates] = (),
    most_work: int,
    count: int = PICKS,
) -> Picks:
    """The best of `extra` and of a quasi-random sequence without headroom, then of their
    neighbours.

    It ends once `most_work` is spent, three quarters of it on the sequence: any part of that fills
    the space evenly, and unlike a time limit it gives equal picks for equal arguments.
    """
    scores = _Scores(predict)
    for point in (*extra, *sobol_points(space, derived_seed(seed, _ASK_SEED), CANDIDATES)):
        if scores.work > most_work * 3 // 4:
            break
        scores.look_at(_without_headroom(space, point))
    for pick in _diverse(space, scores.ranked(), REFINED):
        for near in _neighbours(space, pick.coordinates):
            if scores.work > most_work:
                break
            scores.look_at(near)
    return Picks(tuple(_diverse(space, scores.ranked(), count)), scores.seen)


class _Scores:
    """Everything looked at so far."""

    def __init__(self, predict: Predict) -> None:
        self._predict = predict
        self._found: list[Pick] = []
        self.work = 0
        self.seen = 0

    def look_at(self, point: Coordinates) -> None:
        score, work = self._predict(point)
        self.work += work
        self.seen += 1
        if score is not None:
            self._found.append(Pick(point, score))

    def ranked(self) -> list[Pick]:
        return sorted(self._found, key=lambda pick: -pick.score)


def _diverse(space: SearchSpace, ranked: Sequence[Pick], count: int) -> list[Pick]:
    chosen: list[Pick] = []
    for pick in ranked:
        others = (distance(space, pick.coordinates, other.coordinates) for other in chosen)
        if all(apart > LEAST_DISTANCE for apart in others):
            chosen.append(pick)
        if len(chosen) == count:
            break
    return chosen


def _without_headroom(space: SearchSpace, point: Coordinates) -> Coordinates:
    """More cache never hurts in the model, so it is not asked how much less would do."""
    names = {dimension.name for dimension in space.dimensions}
    return {**point, HEADROOM: 0.0} if HEADROOM in names else point


def _neighbours(space: SearchSpace, point: Coordinates) -> Iterator[Coordinates]:
    ranges = {d.name: d for d in space.dimensions if isinstance(d, FloatDimension)}
    for steps in STEPS:
        moved = dict(point)
        for name, step in zip((SEQUENCES, TOKENS), steps, strict=True):
            if name in ranges:
                low, high = ranges[name].low, ranges[name].high
                moved[name] = min(max(moved[name] + step * (high - low), low), high)
        if moved != point:
            yield moved
