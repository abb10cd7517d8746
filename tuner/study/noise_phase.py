"""What is known of the noise when the search has ended, and every score in its light."""

from __future__ import annotations

import json

from tuner.study.baseline import repeat_is_due, repeat_reference
from tuner.study.budget import deadline_passed, extra_round_fits
from tuner.study.checkpoints import IN_RESCORING
from tuner.study.context import StudyContext
from tuner.study.noise import noise_of
from tuner.study.rescoring import scores

NOISE_NOTICE = "noise"


def settle_noise(context: StudyContext) -> None:
    """Measure what is left of the baseline's repeats, score all trials anew, tell the noise.

    Raises CancelledError or StudyFailedError. May be repeated: it does what is left to do.
    """
    while _may_start(context):
        context.cancellation.raise_if_requested()
        history = context.ledger.history()
        if not repeat_is_due(context, history, context.spec.budget.trials):
            break
        repeat_reference(context, history)
    rescore_trials(context)
    noise = noise_of(context.objective, context.ledger.history())
    if noise is not None:
        context.ledger.notice(NOISE_NOTICE, noise.sentence, noise=noise.to_dict())


def rescore_trials(context: StudyContext) -> None:
    """Score every measured trial against all measurements of the reference together.

    What Optuna was told stays: against another reference all scores move by the same amount.
    """
    history = context.ledger.history()
    stored = {trial.number: trial.score for trial in history.trials}
    for number, score in scores(history, context.spec.objective).items():
        if json.dumps(score) != json.dumps(stored[number]):
            context.ledger.set_score(number, score)
            context.checkpoint(IN_RESCORING)


def _may_start(context: StudyContext) -> bool:
    budget = context.spec.budget
    if deadline_passed(budget, context.clock.now()):
        return False
    account = context.spent(context.ledger.history())
    minutes = context.engine_minutes(context.attempt_s(account))
    return extra_round_fits(budget, account, minutes)
