"""Which requests of a workload come, and in which order, where they have something in common.

Shuffled, requests that share prefixes would lie too far apart to find them, and turns would come
before what they answer.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tuner.loadgen.arrivals import shuffled_pool
from tuner.loadgen.trace import ALONE, FloatArray, IntArray, conversation_starts
from tuner.loadgen.workload import Workload

LEAD_PAUSES = 5.0
"""Mean pauses before the first moment from which conversations go on, so that not all begin at it;
times the mean number of turns."""

MOST_LEAD = 20_000


@dataclass(frozen=True, slots=True, eq=False)
class Order:
    """Pool entries in the order of sending, and for each the row it follows (ALONE: none)."""

    pool_index: IntArray
    after: IntArray


def recorded_order(workload: Workload, pool_index: IntArray) -> Order:
    """Entries that are used as recorded: a turn follows the latest use of the turn before it."""
    after = np.full(pool_index.size, ALONE, dtype=np.int64)
    if workload.previous is not None:
        latest: dict[int, int] = {}
        for row, entry in enumerate(pool_index.tolist()):
            after[row] = latest.get(int(workload.previous[entry]), ALONE)
            latest[entry] = row
    return Order(pool_index, after)


def recorded_stretch(workload: Workload, count: int, rng: np.random.Generator) -> Order:
    """`count` requests in recorded order from a random place on; after the last comes the first."""
    first = int(rng.integers(workload.size))
    index = (first + np.arange(count, dtype=np.int64)) % workload.size
    return recorded_order(workload, index)


def timed_conversations(workload: Workload, due_s: FloatArray, rng: np.random.Generator) -> Order:
    """A turn for each moment: the one whose pause is over longest, or else a new conversation.

    Pauses are exponential with the workload's mean. What went on before the first moment is played
    through and left out, so that conversations are in the midst of it, as they are later.
    """
    lead = _lead(workload, due_s)
    moments = np.concatenate((lead, due_s))
    pauses = rng.exponential(workload.turn_pause_s, moments.size)
    starts = _conversations(workload, rng)
    going: list[tuple[float, int, list[int], int]] = []
    entries: list[int] = []
    after: list[int] = []
    for row, moment_s in enumerate(moments.tolist()):
        if going and going[0][0] <= moment_s:
            _, _, turns, previous = heapq.heappop(going)
        else:
            turns, previous = next(starts), ALONE
        entries.append(turns[0])
        after.append(previous)
        if len(turns) > 1:
            heapq.heappush(going, (moment_s + float(pauses[row]), row, turns[1:], row))
    skipped = lead.size
    kept = np.array(after[skipped:], dtype=np.int64) - skipped
    return Order(np.array(entries[skipped:], dtype=np.int64), np.where(kept < 0, ALONE, kept))


def conversations_in_lanes(
    workload: Workload, count: int, lanes: int, rng: np.random.Generator
) -> Order:
    """At least `count` requests for so many slots, each of which holds one conversation at a time.

    Those that are held first are entered at a random turn.
    """
    starts = _conversations(workload, rng)
    held: list[list[int]] = []
    for _ in range(lanes):
        turns = next(starts)
        held.append(turns[int(rng.integers(len(turns))) :])
    entries: list[int] = []
    after: list[int] = []
    latest = [ALONE] * lanes
    while len(entries) < count:
        for lane in range(lanes):
            if not held[lane]:
                held[lane], latest[lane] = next(starts), ALONE
            after.append(latest[lane])
            latest[lane] = len(entries)
            entries.append(held[lane].pop(0))
    return Order(np.array(entries, dtype=np.int64), np.array(after, dtype=np.int64))


def repetitions(workload: Workload, order: Order) -> list[int]:
    """For each row how often its conversation was begun before; a request alone is one, too."""
    begins = None if workload.previous is None else conversation_starts(workload.previous)
    begun: dict[int, int] = {}
    found: list[int] = []
    for entry, after in zip(order.pool_index.tolist(), order.after.tolist(), strict=True):
        if after != ALONE:
            found.append(found[after])
            continue
        conversation = entry if begins is None else int(begins[entry])
        found.append(begun.get(conversation, 0))
        begun[conversation] = found[-1] + 1
    return found


def _lead(workload: Workload, due_s: FloatArray) -> FloatArray:
    """Moments before the first, at the mean rate of those that follow."""
    if workload.previous is None or due_s.size < 2:
        return np.empty(0)
    firsts = int(np.count_nonzero(workload.previous == ALONE))
    turns = workload.size / firsts
    step_s = float(due_s[-1] - due_s[0]) / (due_s.size - 1)
    span_s = LEAD_PAUSES * workload.turn_pause_s * (turns - 1)
    count = 0 if step_s == 0 else min(MOST_LEAD, int(span_s / step_s))
    return np.asarray(due_s[0] - step_s * np.arange(count, 0, -1), dtype=np.float64)


def _conversations(workload: Workload, rng: np.random.Generator) -> Iterator[list[int]]:
    """Conversations as their turns' pool entries, each once in random order before any twice."""
    if workload.previous is None:
        raise ValueError(f"{workload.title} has no conversations")
    turns: dict[int, list[int]] = {}
    for entry, first in enumerate(conversation_starts(workload.previous).tolist()):
        turns.setdefault(first, []).append(entry)
    listed = list(turns.values())
    while True:
        for place in shuffled_pool(len(listed), len(listed), rng).tolist():
            yield list(listed[place])
