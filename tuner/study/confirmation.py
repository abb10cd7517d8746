"""Who is confirmed, in which order, on which seeds, and when that is enough: pure decisions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tuner.study.intervals import (
    LEAST_CHANCE,
    GainInterval,
    chance_of_significance,
    expected_spread,
    gain_interval,
    looks,
)
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
    `differences` the paired score differences per finalist in order of rounds; `spreads` what
    each round's runs lead to expect of its difference; `out` the finalists which failed and take
    no further part.
    """

    reference: int
    finalists: tuple[int, ...]
    finished: frozenset[ArmRound]
    differences: Mapping[int, tuple[float, ...]]
    out: frozenset[int]
    spreads: Mapping[int, tuple[float | None, ...]] = field(default_factory=dict)


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


def next_arm(
    state: ConfirmationState, rounds: int, max_rounds: int, level: float
) -> ArmRound | None:
    """The next fresh start, or None when the confirmation is complete.

    `level` is that of a single look, by the rounds that the study document allows. Rounds are
    completed before it is asked whether another is needed, and that is asked only at the looks.
    A finalist that is with confidence not worth having, or hardly has a chance any more, takes no
    part in later rounds; after the second look only the leader does, and the next best should it
    fail. No round is begun once a finalist is better with confidence, or all are out.
    """
    wanted = looks(rounds, max_rounds) if rounds > 0 else ()
    alive = tuple(f for f in state.finalists if f not in state.out)
    for number in range(max(rounds, max_rounds)):
        missing = _missing(state, alive, number)
        if missing is not None:
            return missing
        if number + 1 in wanted:
            found = {f: _interval(state, f, number + 1, level) for f in alive}
            if any(interval is not None and interval.significant for interval in found.values()):
                return None
            alive = tuple(f for f in alive if _worth_another(found[f], max_rounds, level))
            if number + 1 > rounds:
                alive = _leader(alive, found)
    return None


def most_starts(rounds: int, max_rounds: int, finalists: int) -> int:
    """Engine starts of a confirmation that stays undecided to its end; nothing is repeated."""
    together = (*looks(rounds, max_rounds), max_rounds)[1]
    return (1 + finalists) * together + min(1 + finalists, 2) * (max_rounds - together)


def _leader(alive: Sequence[int], found: Mapping[int, GainInterval | None]) -> tuple[int, ...]:
    """The finalist with the largest gain so far, before any of which nothing is known."""
    known = [(f, interval) for f in alive if (interval := found[f]) is not None]
    best = max(known, key=lambda pair: pair[1].mean, default=None)
    return tuple(alive[:1]) if best is None else (best[0],)


def _missing(state: ConfirmationState, alive: Sequence[int], number: int) -> ArmRound | None:
    if not alive:
        return None
    order = arm_order((state.reference, *state.finalists), number)
    for trial in order:
        arm = ArmRound(trial, number)
        if trial in (state.reference, *alive) and arm not in state.finished:
            return arm
    return None


def _interval(
    state: ConfirmationState, trial: int, number: int, level: float
) -> GainInterval | None:
    """What was known of a finalist after so many rounds; later ones never change it."""
    return gain_interval(
        state.differences.get(trial, ())[:number],
        expected_spread=expected_spread(state.spreads.get(trial, ())[:number]),
        look_level=level,
    )


def _worth_another(interval: GainInterval | None, max_rounds: int, level: float) -> bool:
    if interval is None:
        return True
    chance = chance_of_significance(interval, max_rounds, level)
    return not interval.hopeless and (chance is None or chance >= LEAST_CHANCE)


def burst_size(max_num_seqs: int, longest_prompt_tokens: int) -> int:
    """Requests of the longest prompt which arrive at once: all sequences' worth, bounded."""
    by_tokens = max(1, BURST_MAX_PROMPT_TOKENS // max(1, longest_prompt_tokens))
    return max(1, min(max_num_seqs, BURST_MAX_REQUESTS, by_tokens))
