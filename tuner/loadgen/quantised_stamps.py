"""Stamps that were rounded when they were recorded, spread out again.

Mooncake's conversation trace knows arrivals to 3 s only, BurstGPT's to 1 s. Replayed literally,
about ten requests arrive at one instant and none until the next: bursts that nobody sent.
"""

from __future__ import annotations

import numpy as np

from tuner.loadgen.trace import FloatArray

SHARED = 1.5
"""Requests per distinct stamp from which on a trace counts as rounded."""

SHORTEST_STEP_S = 0.5
"""Between distinct stamps: a finer clock makes no bursts worth the name."""


def quantisation_step_s(stamps_s: FloatArray) -> float | None:
    """The usual distance of distinct stamps where several requests share each; else None."""
    distinct = np.unique(stamps_s)
    if distinct.size < 2 or stamps_s.size < SHARED * distinct.size:
        return None
    step_s = float(np.median(np.diff(distinct)))
    return step_s if step_s >= SHORTEST_STEP_S else None


def spread(stamps_s: FloatArray, step_s: float, rng: np.random.Generator) -> FloatArray:
    """Ascending stamps, each moved to a random place before the next distinct one, a step at most.

    Requests of one stamp keep their order.
    """
    distinct, group = np.unique(stamps_s, return_inverse=True)
    room_s = np.full(distinct.size, step_s)
    room_s[:-1] = np.minimum(np.diff(distinct), step_s)
    moved = stamps_s + rng.random(stamps_s.size) * room_s[group]
    return np.sort(moved)
