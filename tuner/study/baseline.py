"""The phase that measures what runs today, and what is compared with when that cannot run."""

from __future__ import annotations

import math

from tuner.domain.states import AttemptPurpose, TrialOrigin
from tuner.store.records import TrialRecord
from tuner.store.trials import NewTrial
from tuner.study.attempts import Measuring, run_again, run_trial, settled
from tuner.study.checkpoints import AFTER_TELL, AFTER_TRIAL_ROW
from tuner.study.context import StudyContext
from tuner.study.ledger import History
from tuner.study.target import baseline_config
from tuner.study.telling import tell_trial

BASELINE = 0


def measure_baseline(context: StudyContext) -> TrialRecord:
    """Trial 0, measured once; whatever came of it is told."""
    history = context.ledger.history()
    if history.trials:
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
    """Whether the reference is to be measured again: once, halfway through the search."""
    reference = history.reference
    if reference is None or trials_done < math.ceil(context.spec.budget.trials / 2):
        return False
    return not settled(history.attempts_of(reference.number, AttemptPurpose.BASELINE_REPEAT))


def repeat_reference(context: StudyContext, history: History) -> None:
    """Measure the reference on a fresh start under the search's own requests: pure noise."""
    reference = history.reference
    if reference is not None:
        seed = context.spec.workload.seed
        run_again(context, reference, Measuring(AttemptPurpose.BASELINE_REPEAT, seed))
