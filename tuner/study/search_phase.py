"""The phase that asks, launches what may run, and tells."""

from __future__ import annotations

from tuner.domain.states import TrialState
from tuner.errors import StudyFailedError
from tuner.search.feasibility import PredictedInfeasible, check
from tuner.search.first_points import first_points
from tuner.search.proposer import Proposal
from tuner.store.records import TrialRecord
from tuner.store.trials import NewTrial
from tuner.study.attempts import run_trial
from tuner.study.baseline import repeat_is_due, repeat_reference
from tuner.study.budget import search_end
from tuner.study.checkpoints import AFTER_ASK, AFTER_TELL, AFTER_TRIAL_ROW, BEFORE_ASK
from tuner.study.context import StudyContext
from tuner.study.ledger import History
from tuner.study.target import baseline_config
from tuner.study.telling import tell_trial

MOST_REJECTIONS_IN_A_ROW = 20
"""After so many predicted failures the prediction itself is put to the test by a launch."""

MOST_FAILURES_IN_A_ROW = 3
"""Trials that fail through us one after the other: the machine is not fit for measuring."""


class Search:
    """One run of the search phase; decisions rest on the store, so it may begin anywhere."""

    def __init__(self, context: StudyContext) -> None:
        self._context = context
        self._failures = 0

    def run(self) -> None:
        """Search until the budget ends or nothing new can be proposed.

        Raises CancelledError or StudyFailedError.
        """
        self._enqueue_first_points()
        while True:
            context = self._context
            context.cancellation.raise_if_requested()
            history = context.ledger.history()
            account = context.spent(history)
            context.monitor.standing(history, account)
            if repeat_is_due(context, history, account.trials):
                repeat_reference(context, history)
                continue
            live = next((t for t in history.trials if not t.state.terminal), None)
            if live is not None:
                self._finish(live)
                continue
            attempt_s = context.attempt_s(account)
            minutes = context.engine_minutes(attempt_s)
            why = search_end(context.spec, account, context.clock.now(), attempt_s, minutes)
            if why is None and self._step(history):
                continue
            context.ledger.notice("search_ended", why or "nothing new can be proposed")
            return

    def _enqueue_first_points(self) -> None:
        context = self._context
        known = context.target.effective(baseline_config(context.spec, context.target))
        tried = {t.config_digest for t in context.ledger.history().trials}
        points = first_points(
            context.proposer.space,
            workload_preset=context.spec.workload.preset,
            seed=context.spec.sampler.seed,
            known=(known,),
        )
        for point in points:
            config = context.target.with_searched(
                context.proposer.space.to_config(point.coordinates)
            )
            if config.digest not in tried:
                context.proposer.enqueue(point.coordinates, point.origin)

    def _step(self, history: History) -> bool:
        """One proposal, settled; False when there is none."""
        context = self._context
        context.checkpoint(BEFORE_ASK)
        proposal = context.proposer.ask()
        if proposal is None:
            return False
        context.checkpoint(AFTER_ASK)
        trial = NewTrial(
            proposal.origin, proposal.config, dict(proposal.coordinates), proposal.number
        )
        if proposal.duplicate_of is not None:
            self._tell_twin(history, proposal, trial, proposal.duplicate_of)
            return True
        predicted = self._predicted(proposal)
        if predicted is not None and _rejections_in_a_row(history) < MOST_REJECTIONS_IN_A_ROW:
            tell_trial(context, context.ledger.reject(trial, _prediction(predicted)))
            return True
        stored = context.ledger.propose(trial)
        context.checkpoint(AFTER_TRIAL_ROW)
        self._finish(stored)
        return True

    def _tell_twin(
        self, history: History, proposal: Proposal, trial: NewTrial, optuna_number: int
    ) -> None:
        twin = next((t for t in history.trials if t.optuna_number == optuna_number), None)
        name = "the baseline" if twin is None else f"trial {twin.number}"
        self._context.ledger.skip(f"the same configuration as {name}", trial)
        self._context.proposer.tell_duplicate(proposal.number, optuna_number)

    def _predicted(self, proposal: Proposal) -> PredictedInfeasible | None:
        context = self._context
        verdict = check(
            context.target.effective(proposal.config),
            max_model_len=context.target.max_model_len,
            forecaster=context.forecaster,
        )
        return verdict if isinstance(verdict, PredictedInfeasible) else None

    def _finish(self, trial: TrialRecord) -> None:
        ended = run_trial(self._context, trial)
        tell_trial(self._context, ended)
        self._context.checkpoint(AFTER_TELL)
        self._failures = self._failures + 1 if ended.state is TrialState.FAILED else 0
        if self._failures >= MOST_FAILURES_IN_A_ROW:
            why = ended.diagnosis.summary if ended.diagnosis else "no cause was recorded"
            raise StudyFailedError(
                f"{self._failures} trials in a row failed through no fault of theirs: {why}",
                hint="see the attempts' logs; the same command continues the study",
            )


def _rejections_in_a_row(history: History) -> int:
    count = 0
    for trial in reversed(history.trials):
        if trial.infeasibility is None or trial.infeasibility.get("predicted") is not True:
            break
        count += 1
    return count


def _prediction(predicted: PredictedInfeasible) -> dict[str, object]:
    return {
        "constraint": predicted.constraint,
        "grade": predicted.grade,
        "failure_class": predicted.failure_class,
        "reason": predicted.reason,
        "predicted": True,
    }
