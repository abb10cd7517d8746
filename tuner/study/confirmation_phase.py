"""The phase that measures the finalists and the reference again, on fresh starts and new seeds."""

from __future__ import annotations

from objectives.measurement import Measurement
from tuner.domain.states import AttemptOutcome, AttemptPurpose, TrialState
from tuner.study.attempts import Measuring, run_again, settled
from tuner.study.budget import deadline_passed, extra_round_fits
from tuner.study.checkpoints import IN_CONFIRMATION
from tuner.study.confirmation import (
    ArmRound,
    ConfirmationState,
    SearchResult,
    choose_finalists,
    held_out_seed,
    next_arm,
)
from tuner.study.context import StudyContext
from tuner.study.intervals import look_level
from tuner.study.ledger import History
from tuner.study.noise import noise_of, pair_spread
from tuner.study.scoring import paired_difference
from tuner.study.trial_score import score_value


def confirm(context: StudyContext) -> None:
    """Run every arm of every round that the verdict needs.

    Raises CancelledError or StudyFailedError.
    """
    while True:
        context.cancellation.raise_if_requested()
        history = context.ledger.history()
        state = confirmation_state(context, history)
        if state is None:
            return
        arm = next_arm(state, *_rounds(context, history), single_look_level(context))
        context.monitor.standing(history, context.spent(history), _starts_left(context, state))
        if arm is None:
            return
        context.checkpoint(IN_CONFIRMATION)
        measuring = Measuring(
            AttemptPurpose.CONFIRMATION,
            held_out_seed(context.spec.workload.seed, arm.round),
            round=arm.round,
            burst=True,
        )
        run_again(context, history.trial(arm.trial_number), measuring)


def confirmation_state(context: StudyContext, history: History) -> ConfirmationState | None:
    """Where the confirmation stands by the store; None without a reference to compare with."""
    reference = history.reference
    if reference is None:
        return None
    finalists = finalists_of(context, history)
    arms = [
        ArmRound(trial, number)
        for number in range(highest_round(history) + 1)
        for trial in (reference.number, *finalists)
    ]
    return ConfirmationState(
        reference=reference.number,
        finalists=finalists,
        finished=frozenset(arm for arm in arms if _settled(history, arm)),
        differences={f: differences(context, history, f) for f in finalists},
        spreads={f: spreads(context, history, f) for f in finalists},
        out=frozenset(f for f in finalists if failed_round(history, f) is not None),
    )


def finalists_of(context: StudyContext, history: History) -> tuple[int, ...]:
    """The finalists by the search's scores, which confirmation never changes."""
    results = []
    for trial in history.trials:
        value = score_value(trial.score)
        if trial.state is TrialState.COMPLETE and value is not None:
            digest = context.target.effective(trial.config).digest
            results.append(SearchResult(trial.number, digest, value))
    reference = history.reference
    own = next((r for r in results if reference and r.trial_number == reference.number), None)
    if own is None:
        return ()
    return choose_finalists(results, own, context.spec.confirmation.finalists)


def differences(context: StudyContext, history: History, finalist: int) -> tuple[float, ...]:
    """Paired score differences of a finalist, one per round in which both arms were measured."""
    found = []
    for number in range(highest_round(history) + 1):
        pair = round_pair(history, finalist, number)
        value = None if pair is None else paired_difference(context.objective, *pair)
        if value is not None:
            found.append(value)
    return tuple(found)


def spreads(context: StudyContext, history: History, finalist: int) -> tuple[float | None, ...]:
    """What to expect of each of the finalist's `differences`, by the intervals of its two runs."""
    noise = noise_of(context.objective, history)
    start_sd = 0.0 if noise is None else noise.start_sd
    found = []
    for number in range(highest_round(history) + 1):
        pair = round_pair(history, finalist, number)
        if pair is not None and paired_difference(context.objective, *pair) is not None:
            found.append(pair_spread(context.objective, *pair, start_sd))
    return tuple(found)


def single_look_level(context: StudyContext) -> float:
    """The level of one look by what the document allows, however much of it is run."""
    wanted = context.spec.confirmation
    return look_level(wanted.rounds, wanted.max_rounds, wanted.finalists)


def round_pair(
    history: History, finalist: int, number: int
) -> tuple[Measurement, Measurement] | None:
    """The finalist's and the reference's measurement of a round; None unless there are both."""
    reference = history.reference
    if reference is None:
        return None
    own = history.measured(finalist, AttemptPurpose.CONFIRMATION, number)
    other = history.measured(reference.number, AttemptPurpose.CONFIRMATION, number)
    return None if own is None or other is None else (own, other)


def failed_round(history: History, finalist: int) -> int | None:
    """The first round in which the engine could not run this finalist; None when it always did."""
    rounds = [
        a.round
        for a in history.attempts
        if a.trial_number == finalist
        and a.purpose is AttemptPurpose.CONFIRMATION
        and a.outcome is AttemptOutcome.INFEASIBLE
        and a.round is not None
    ]
    return min(rounds) if rounds else None


def highest_round(history: History) -> int:
    """The last round of confirmation begun; -1 before the first."""
    rounds = (a.round for a in history.attempts if a.purpose is AttemptPurpose.CONFIRMATION)
    return max((number for number in rounds if number is not None), default=-1)


def _settled(history: History, arm: ArmRound) -> bool:
    attempts = history.attempts_of(arm.trial_number, AttemptPurpose.CONFIRMATION, arm.round)
    return settled(attempts)


def _rounds(context: StudyContext, history: History) -> tuple[int, int]:
    """Fewest and most rounds; no extra ones beyond the budget, none after the deadline."""
    wanted = context.spec.confirmation
    if deadline_passed(context.spec.budget, context.clock.now()):
        return 0, 0
    account = context.spent(history)
    start_minutes = context.engine_minutes(context.attempt_s(account))
    if extra_round_fits(context.spec.budget, account, start_minutes):
        return wanted.rounds, wanted.max_rounds
    return wanted.rounds, wanted.rounds


def _starts_left(context: StudyContext, state: ConfirmationState) -> int:
    alive = [f for f in state.finalists if f not in state.out]
    arms = (state.reference, *alive) if alive else ()
    rounds = range(context.spec.confirmation.rounds)
    return sum(ArmRound(arm, number) not in state.finished for arm in arms for number in rounds)
