"""What the sampler is told of a trial, from its stored row only: telling twice changes nothing."""

from __future__ import annotations

from objectives.constraints import ENGINE_RUNS, infeasibility_grade
from tuner.domain.states import TrialOrigin, TrialState
from tuner.search.outcome import Completed, Infeasible, Outcome
from tuner.search.space import OutsideSpace
from tuner.store.records import TrialRecord
from tuner.study.context import StudyContext
from tuner.study.early_abort import ended_by_failures, extrapolated_value
from tuner.study.trial_score import told_values

UNASKED = (TrialOrigin.BASELINE, TrialOrigin.MANUAL)
"""Trials that no sampler proposed: they are added to its ledger when they have ended."""


def tell_trial(context: StudyContext, trial: TrialRecord) -> None:
    """Tell an ended trial's result; ValueError for one that has not ended.

    A trial that could not be scored, or failed through us, says nothing of its configuration.
    Raises LeaseLostError where the study is driven by somebody else.
    """
    if not trial.state.terminal:
        raise ValueError(f"trial {trial.number} has not ended")
    context.ledger.require_lease()
    outcome = _outcome(context, trial)
    if trial.origin in UNASKED:
        _tell_unasked(context, trial, outcome)
        return
    if trial.optuna_number is None:
        return
    proposer, number = context.proposer, trial.optuna_number
    if outcome is None:
        proposer.tell_failed(number)
    elif isinstance(outcome, Completed) and outcome.extrapolated:
        proposer.tell_pruned(number, outcome.values)
    elif isinstance(outcome, Completed):
        proposer.tell_complete(number, outcome.values)
    else:
        proposer.tell_infeasible(number, outcome.grade, constraint=outcome.constraint)


def _tell_unasked(context: StudyContext, trial: TrialRecord, outcome: Outcome | None) -> None:
    """The sampler did not ask for it; it is added, once, where the space has coordinates for it."""
    if outcome is None:
        return
    config = context.target.effective(trial.config)
    if trial.origin is TrialOrigin.MANUAL:
        place = context.proposer.add_known(config, outcome, trial.origin)
        if isinstance(place, OutsideSpace):
            reasons = "; ".join(place.reasons)
            context.ledger.notice(
                "trial_outside_space",
                f"Trial {trial.number}, added by hand, lies outside the search space ({reasons}); "
                "it is compared with all others, but the sampler learns nothing from it.",
                trial=trial.number,
            )
        return
    place = context.proposer.add_baseline(config, outcome)
    if isinstance(place, OutsideSpace):
        reasons = "; ".join(place.reasons)
        context.ledger.notice(
            "baseline_outside_space",
            f"The baseline lies outside the search space ({reasons}); it is measured and compared "
            "with, but the sampler learns nothing from it.",
        )


def _outcome(context: StudyContext, trial: TrialRecord) -> Outcome | None:
    if trial.state is TrialState.COMPLETE:
        values = told_values(context.spec.objective, trial.score)
        return None if values is None else Completed(values)
    if trial.state is TrialState.PRUNED and ended_by_failures(trial.score):
        return Infeasible(ENGINE_RUNS, infeasibility_grade(None, served=True))
    if trial.state is TrialState.PRUNED:
        worth = extrapolated_value(trial.score)
        return None if worth is None else Completed((worth,), extrapolated=True)
    if trial.state is TrialState.INFEASIBLE and trial.infeasibility is not None:
        constraint, grade = trial.infeasibility["constraint"], trial.infeasibility["grade"]
        return Infeasible(str(constraint), float(str(grade)))
    return None
