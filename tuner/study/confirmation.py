"""Who is confirmed, in which order, on which seeds, and when that is enough: pure decisions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tuner.study.intervals import gain_interval
from tuner.study.seeds import derived_seed

BURST_MAX_REQUESTS = 256
BURST_MAX_PROMPT_TOKENS = 131_072
BURST_OUTPUT_TOKENS = 64
BURST_WINDOW_S = 60.0
"""Bounds of the worst-case burst: it must show whether the engine survives, not take all day."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """A finished trial of the search, as far as the choice of finalists needs it."""

    trial_number: int
    config_digest: str
    score: float


@dataclass(frozen=True, slots=True)
class ArmRound:
    """One arm's part in one round: the trial to start afresh, and the round (from 0)."""

    trial_number: int
    round: int


@dataclass(frozen=True, slots=True)
class ConfirmationState:
    """What the store says of the confirmation so far.

    `finished` holds the arm-rounds which need no further attempt, whatever came of them;
    `differences` the paired score differences per finalist in order of rounds;
    `out` the finalists which failed and take no further part.
    """

    reference: int
    finalists: tuple[int, ...]
    finished: frozenset[ArmRound]
    differences: Mapping[int, tuple[float, ...]]
    out: frozenset[int]


def choose_finalists(
    results: Sequence[SearchResult], reference: SearchResult, count: int
) -> tuple[int, ...]:
    """The best `count` by score which beat the reference at all and are not it; ties to the older.

    A configuration which scored no better than the reference when it had every chance cannot be
    recommended, so no engine time is spent on it.
    """
    rivals = [
        r
        for r in results
        if r.score > reference.score and r.config_digest != reference.config_digest
    ]
    ranked = sorted(rivals, key=lambda r: (-r.score, r.trial_number))
    return tuple(r.trial_number for r in ranked[:count])


def arm_order(arms: Sequence[int], round_number: int) -> tuple[int, ...]:
    """The arms of a round, rotated by it: no arm is always first on a cold machine."""
    if not arms:
        return ()
    shift = round_number % len(arms)
    return (*arms[shift:], *arms[:shift])


def held_out_seed(workload_seed: int, round_number: int) -> int:
    """The round's workload seed: never the search's, the same for every arm, new in each round."""
    seed = derived_seed(workload_seed, "confirmation", round_number)
    return seed if seed != workload_seed else seed + 1


def next_arm(state: ConfirmationState, rounds: int, max_rounds: int) -> ArmRound | None:
    """The next fresh start, or None when the confirmation is complete.

    Rounds are completed before it is asked whether another is needed; no round is begun once every
    finalist is out.
    """
    number = 0
    while number < max(rounds, max_rounds):
        alive = tuple(f for f in state.finalists if f not in state.out)
        missing = _missing(state, alive, number)
        if missing is not None:
            return missing
        number += 1
        if number >= rounds and not _undecided(state, alive):
            return None
    return None


def _missing(state: ConfirmationState, alive: Sequence[int], number: int) -> ArmRound | None:
    if not alive:
        return None
    order = arm_order((state.reference, *state.finalists), number)
    for trial in order:
        arm = ArmRound(trial, number)
        if trial not in state.out and arm not in state.finished:
            return arm
    return None


def _undecided(state: ConfirmationState, alive: Sequence[int]) -> bool:
    intervals = [gain_interval(state.differences.get(trial, ())) for trial in alive]
    return any(interval is None or interval.undecided for interval in intervals)


def burst_size(max_num_seqs: int, longest_prompt_tokens: int) -> int:
    """Requests of the longest prompt which arrive at once: all sequences' worth, bounded."""
    by_tokens = max(1, BURST_MAX_PROMPT_TOKENS // max(1, longest_prompt_tokens))
    return max(1, min(max_num_seqs, BURST_MAX_REQUESTS, by_tokens))
