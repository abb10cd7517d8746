"""A whole load test in virtual time, on the scheduling kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tuner.simulator.kernel_blocks import enqueue
from tuner.simulator.kernel_state import (
    ATTENTION_PAIRS,
    BOTTLENECK,
    DECODE_TOKENS,
    KV_READ_TOKENS,
    N_EMITTED,
    N_PREEMPTED,
    N_RUNNING,
    N_WAITING,
    OUT_OF_MEMORY,
    PREFILL_TOKENS,
    SEQUENCES,
    STEP_BLOCKS,
    STEP_RUNNING,
    Costs,
    Limits,
    State,
)
from tuner.simulator.step_kernel import step

DONE = 0
RECORD_FULL = 1
STALLED = 2
RAN_OUT_OF_MEMORY = 3
NEVER = 1e300
"""Arrival of a request that nobody has sent yet."""


class Load(NamedTuple):
    """Requests in order of arrival and what became of them, in seconds; `clock` is one number.

    `following` holds the index of the next request to enter. In a closed loop whose clients need
    `turnaround_s` (one number) from an answer to the next request, `released` holds the index of
    the next one whose arrival is not known yet: until then it is `NEVER`.
    """

    arrival_s: list[float]
    entered_s: list[float]
    first_s: list[float]
    last_s: list[float]
    gap_s: list[float]
    clock: list[float]
    following: list[int]
    turnaround_s: list[float]
    released: list[int]


class StepRecord(NamedTuple):
    """One row per step."""

    start_s: list[float]
    duration_s: list[float]
    prefill_tokens: list[int]
    decode_tokens: list[int]
    sequences: list[int]
    kv_read_tokens: list[int]
    attention_pairs: list[int]
    emitted: list[int]
    preempted: list[int]
    running: list[int]
    waiting: list[int]
    used_blocks: list[int]
    bottleneck: list[int]


def enter_arrived(limits: Limits, state: State, load: Load, max_in_flight: int) -> None:
    """Let in who has arrived, while fewer than `max_in_flight` requests are in the engine."""
    numbers = state.numbers
    following, now = load.following[0], load.clock[0]
    in_flight = numbers[N_RUNNING] + numbers[N_WAITING]
    total = len(load.arrival_s)
    while following < total and in_flight < max_in_flight and load.arrival_s[following] <= now:
        # In a closed loop a request begins when another one has ended, or some time after.
        at_once = max_in_flight < total and load.turnaround_s[0] == 0.0
        load.entered_s[following] = now if at_once else load.arrival_s[following]
        state.order[following] = following
        enqueue(limits, state, following)
        following += 1
        in_flight += 1
    load.following[0] = following


def release_next(load: Load, count: int) -> None:
    """So many answers have ended: their clients send the next requests after the turnaround."""
    released = load.released[0]
    last = min(released + count, len(load.arrival_s))
    while released < last:
        load.arrival_s[released] = load.clock[0] + load.turnaround_s[0]
        released += 1
    load.released[0] = released


def record_step(state: State, steps: StepRecord, row: int, start_s: float) -> None:
    """Write down what the last step did."""
    numbers = state.numbers
    steps.start_s[row] = start_s
    steps.duration_s[row] = state.duration[0]
    steps.prefill_tokens[row] = numbers[PREFILL_TOKENS]
    steps.decode_tokens[row] = numbers[DECODE_TOKENS]
    steps.sequences[row] = numbers[SEQUENCES]
    steps.kv_read_tokens[row] = numbers[KV_READ_TOKENS]
    steps.attention_pairs[row] = numbers[ATTENTION_PAIRS]
    steps.emitted[row] = numbers[N_EMITTED]
    steps.preempted[row] = numbers[N_PREEMPTED]
    steps.running[row] = numbers[STEP_RUNNING]
    steps.waiting[row] = numbers[N_WAITING]
    steps.used_blocks[row] = numbers[STEP_BLOCKS]
    steps.bottleneck[row] = numbers[BOTTLENECK]


def record_tokens(state: State, load: Load, end_s: float) -> None:
    """Stamp the tokens that the last step emitted."""
    for index in range(state.numbers[N_EMITTED]):
        slot = state.emitted[index]
        if state.generated[slot] == 1:
            load.first_s[slot] = end_s
        else:
            gap = end_s - load.last_s[slot]
            if gap > load.gap_s[slot]:
                load.gap_s[slot] = gap
        load.last_s[slot] = end_s


def is_stalled(state: State) -> bool:
    """Whether the last step did nothing and nobody was preempted for it."""
    numbers = state.numbers
    return numbers[SEQUENCES] == 0 and numbers[N_PREEMPTED] == 0


Advance = Callable[[Limits, Costs, State, Load, StepRecord, int, int], tuple[int, int]]


def advance_for(source_digest: int) -> Advance:
    """The loop over steps, tied to the sources that it was compiled from.

    numba's cache notices changes of this file only; as part of the closure the digest of all kernel
    sources becomes part of the cache's key.
    """

    def advance(
        limits: Limits,
        costs: Costs,
        state: State,
        load: Load,
        steps: StepRecord,
        num_blocks: int,
        max_in_flight: int,
    ) -> tuple[int, int]:
        """Run until all is done or the record is full: (status, rows written)."""
        if source_digest < 0:
            return DONE, 0
        total = len(load.arrival_s)
        row = 0
        while row < len(steps.start_s):
            enter_arrived(limits, state, load, max_in_flight)
            following = load.following[0]
            if state.numbers[N_RUNNING] + state.numbers[N_WAITING] == 0:
                if following == total:
                    return DONE, row
                load.clock[0] = load.arrival_s[following]
                continue
            before = state.numbers[N_RUNNING] + state.numbers[N_WAITING]
            step(limits, costs, state, num_blocks)
            start_s = load.clock[0]
            if is_stalled(state):
                if following == total or load.arrival_s[following] <= start_s:
                    return STALLED, row
                if load.arrival_s[following] >= NEVER:
                    return STALLED, row
                load.clock[0] = load.arrival_s[following]
                continue
            load.clock[0] = start_s + state.duration[0]
            record_step(state, steps, row, start_s)
            record_tokens(state, load, load.clock[0])
            if load.turnaround_s[0] > 0.0:
                ended = before - state.numbers[N_RUNNING] - state.numbers[N_WAITING]
                release_next(load, ended)
            row += 1
            if state.numbers[OUT_OF_MEMORY]:
                return RAN_OUT_OF_MEMORY, row
        return RECORD_FULL, row

    return advance
