"""The phase that measures what runs today, and what is compared with when that cannot run."""

from __future__ import annotations

import math

from tuner.domain.states import AttemptPurpose, TrialOrigin
from tuner.store.records import TrialRecord
from tuner.store.trials import NewTrial
from tuner.study.attempts import Measuring, run_again, run_trial, settled
from tuner.study.budget import BASELINE_REPEATS
from tuner.study.checkpoints import AFTER_TELL, AFTER_TRIAL_ROW
from tuner.study.context import StudyContext
from tuner.study.ledger import History
from tuner.study.noise import disagree
from tuner.study.target import baseline_config
from tuner.study.telling import tell_trial

BASELINE = 0


def measure_baseline(context: StudyContext) -> TrialRecord:
    """Trial 0, measured once; whatever came of it is told."""
    history = context.ledger.history()
    if any(trial.number == BASELINE for trial in history.trials):
        trial = history.trial(BASELINE)
    else:
        config = baseline_config(context.spec, context.target)
        trial = context.ledger.propose(NewTrial(TrialOrigin.BASELINE, config))
        context.checkpoint(AFTER_TRIAL_ROW)
    if not trial.state.terminal:
        trial = run_trial(context, trial)
    tell_trial(context, trial)
    context.checkpoint(AFTER_TELL)
    if context.ledger.history().reference is None:
        context.ledger.notice(
            "baseline_cannot_run",
            "The baseline cannot run; the first configuration that can takes its "
            "place in every comparison.",
        )
    return trial


def repeat_is_due(context: StudyContext, history: History, trials_done: int) -> bool:
    """Whether the reference is to be measured again after so many trials of the budget.

    A third and two thirds into the search, and once more at its end when the starts so far
    disagree: spread out, so that a drift of the machine shows.
    """
    done = repeats_done(history)
    if history.reference is None or done > BASELINE_REPEATS:
        return False
    if done == BASELINE_REPEATS and not disagree(context.objective, history):
        return False
    share = min(1.0, (done + 1) / (BASELINE_REPEATS + 1))
    return trials_done >= math.ceil(share * context.spec.budget.trials)


def repeats_done(history: History) -> int:
    """How many repeats of the reference need no further attempt."""
    reference = history.reference
    if reference is None:
        return 0
    done = 0
    while settled(history.attempts_of(reference.number, AttemptPurpose.BASELINE_REPEAT, done)):
        done += 1
    return done


def repeat_reference(context: StudyContext, history: History) -> None:
    """Measure the reference on a fresh start under the search's own requests: pure noise."""
    reference = history.reference
    if reference is not None:
        seed, number = context.spec.workload.seed, repeats_done(history)
        measuring = Measuring(AttemptPurpose.BASELINE_REPEAT, seed, round=number)
        run_again(context, reference, measuring)
