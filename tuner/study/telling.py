"""What the sampler is told of a trial, from its stored row only: telling twice changes nothing."""

from __future__ import annotations

from tuner.domain.states import TrialOrigin, TrialState
from tuner.search.outcome import Completed, Infeasible, Outcome
from tuner.search.space import OutsideSpace
from tuner.store.records import TrialRecord
from tuner.study.context import StudyContext
from tuner.study.early_abort import extrapolated_value
from tuner.study.trial_score import told_values


def tell_trial(context: StudyContext, trial: TrialRecord) -> None:
    """Tell an ended trial's result; ValueError for one that has not ended.

    A trial that could not be scored, or failed through us, says nothing of its configuration.
    """
    if not trial.state.terminal:
        raise ValueError(f"trial {trial.number} has not ended")
    outcome = _outcome(context, trial)
    if trial.origin is TrialOrigin.BASELINE:
        _tell_baseline(context, trial, outcome)
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


def _tell_baseline(context: StudyContext, trial: TrialRecord, outcome: Outcome | None) -> None:
    """The baseline was not asked for; it is added where the space has coordinates for it."""
    if outcome is None:
        return
    place = context.proposer.add_baseline(context.target.effective(trial.config), outcome)
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
    if trial.state is TrialState.PRUNED:
        worth = extrapolated_value(trial.score)
        return None if worth is None else Completed((worth,), extrapolated=True)
    if trial.state is TrialState.INFEASIBLE and trial.infeasibility is not None:
        constraint, grade = trial.infeasibility["constraint"], trial.infeasibility["grade"]
        return Infeasible(str(constraint), float(str(grade)))
    return None
