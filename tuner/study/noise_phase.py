"""What is known of the noise when the search has ended, and every score in its light."""

from __future__ import annotations

import json

from objectives.pooling import pooled
from tuner.domain.states import AttemptPurpose, TrialState
from tuner.study.baseline import repeat_is_due, repeat_reference
from tuner.study.budget import deadline_passed, extra_round_fits
from tuner.study.checkpoints import IN_RESCORING
from tuner.study.context import StudyContext
from tuner.study.noise import noise_of, reference_measurements, within_run
from tuner.study.trial_score import ScoreNoise, trial_score

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

    One measurement of the baseline by chance too slow would flatter every trial. What Optuna was
    told stays: against another reference all scores move by the same amount.
    """
    history = context.ledger.history()
    reference, noise = history.reference, noise_of(context.objective, history)
    measurements = reference_measurements(history)
    if reference is None or noise is None:
        return
    pool = pooled(measurements)
    chance = ScoreNoise(
        reference=within_run(context.objective, measurements[0]),
        start_sd=noise.start_sd,
        starts=noise.starts,
    )
    for trial in history.trials:
        own = history.measured(trial.number, AttemptPurpose.SEARCH)
        if trial.state is not TrialState.COMPLETE or own is None:
            continue
        own = pool if trial.number == reference.number else own
        score = trial_score(context.spec.objective, own, pool, chance)
        if json.dumps(score) != json.dumps(trial.score):
            context.ledger.set_score(trial.number, score)
            context.checkpoint(IN_RESCORING)


def _may_start(context: StudyContext) -> bool:
    budget = context.spec.budget
    if deadline_passed(budget, context.clock.now()):
        return False
    account = context.spent(context.ledger.history())
    minutes = context.engine_minutes(context.attempt_s(account))
    return extra_round_fits(budget, account, minutes)
