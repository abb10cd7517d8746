"""Whether an engine had settled under a load, and from when on."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tuner.loadgen.records import FloatArray
from tuner.loadgen.sprt import memory

LARGEST_DRIFT = 0.10
"""Between the halves of the measured part; what is larger and no chance is not steady."""

SMALLEST_DIFFERENCE = 0.05
"""A first part whose rate differs by less costs less bias than its loss would cost precision."""

SURE = 4.0
"""Standard errors by which a first part must differ to be left out: it was chosen among many."""

CHANCE = 2.0
"""Standard errors within which the halves' difference may be chance."""


CHANCE_OF_QUEUES = 3.0
"""The same for queues, whose long waves a window does not show whole."""


@dataclass(frozen=True, slots=True)
class Settling:
    """The first `skipped` bins are left out; see `objectives.measurement.SteadyState`."""

    skipped: int
    drift: float | None
    steady: bool


def settling(counts: FloatArray, *, alike: float = 1.0, chance: float = CHANCE) -> Settling:
    """Judge a window by what came in each of its equal bins.

    `alike` is by how much more neighbouring bins vary together than independent ones, `chance` how
    many standard errors of the halves' difference may be chance.

    The cut is MSER's (White 1997): it minimises the squared standard error of the remaining mean,
    within the first half, and is taken only where the part before it plainly differs.
    """
    skipped = _cut(counts, alike)
    kept = counts[skipped:]
    half = kept.size // 2
    first, second = kept[:half], kept[half:]
    if half == 0 or first.sum() == 0:
        return Settling(skipped, None, steady=False)
    drift = float(second.mean() / first.mean() - 1)
    sd = math.sqrt(alike * (_sd(first) ** 2 + _sd(second) ** 2) / 2)
    steady = abs(drift) <= LARGEST_DRIFT or not _differ(first, second, chance, sd)
    return Settling(skipped, drift, steady)


def queue_settling(in_flight: FloatArray) -> Settling:
    """Judge an open loop's window by the requests in flight in each of its equal parts.

    Arrivals that come by chance make these rise and fall in waves as long as an answer or more, so
    they are judged as for as many independent ones as they are worth.
    """
    tail = in_flight[in_flight.size // 2 :], in_flight[in_flight.size // 4 :]
    return settling(in_flight, alike=max(memory(part) for part in tail), chance=CHANCE_OF_QUEUES)


def _cut(counts: FloatArray, alike: float) -> int:
    candidates = range(counts.size // 2 + 1)
    errors = [float(counts[cut:].var()) / (counts.size - cut) for cut in candidates]
    cut = int(np.argmin(errors)) if errors else 0
    if cut == 0:
        return 0
    before, after = counts[:cut], counts[cut:]
    small = abs(before.mean() - after.mean()) <= SMALLEST_DIFFERENCE * after.mean()
    sd = math.sqrt(alike) * _sd(after)
    return 0 if small or not _differ(before, after, SURE, sd) else cut


def _differ(one: FloatArray, other: FloatArray, errors: float, sd: float) -> bool:
    """Whether the means differ by more than so many standard errors, bins varying by `sd`."""
    error = sd * math.sqrt(1 / one.size + 1 / other.size)
    return abs(float(one.mean() - other.mean())) > errors * error


def _sd(values: FloatArray) -> float:
    return float(values.std(ddof=1)) if values.size > 1 else 0.0
