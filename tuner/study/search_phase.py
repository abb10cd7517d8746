"""The phase that asks, launches what may run, and tells."""

from __future__ import annotations

from tuner.domain.engine_config import EngineConfig
from tuner.domain.states import TrialOrigin, TrialState
from tuner.errors import StudyFailedError
from tuner.search.feasibility import PredictedInfeasible, check
from tuner.search.proposer import Proposal
from tuner.store.records import TrialRecord
from tuner.store.trials import NewTrial
from tuner.study.attempts import run_trial
from tuner.study.baseline import repeat_is_due, repeat_reference
from tuner.study.budget import Spent, search_end
from tuner.study.checkpoints import (
    AFTER_ASK,
    AFTER_REJECTION,
    AFTER_SKIP,
    AFTER_TELL,
    AFTER_TRIAL_ROW,
    BEFORE_ASK,
)
from tuner.study.context import StudyContext
from tuner.study.first_points import (
    drop_prior,
    enqueue_first_points,
    is_discarded,
    prior_of,
)
from tuner.study.ledger import History
from tuner.study.observed_limits import (
    KV_BOUND,
    observed_infeasible,
    sequence_limit,
    was_told,
)
from tuner.study.prior import EnginePrior
from tuner.study.prior_trust import agreement, was_dropped
from tuner.study.stopping import early_end
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
        self._prior: EnginePrior | None = None

    def run(self) -> None:
        """Search until budget or expected gain end, or nothing new can be proposed.

        Raises CancelledError or StudyFailedError.
        """
        context = self._context
        history = context.ledger.history()
        self._prior = prior_of(context, history)
        enqueue_first_points(context, history, self._prior)
        while True:
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
            why = self._end(history, account)
            if why is None and self._step(history):
                continue
            context.ledger.notice("search_ended", why or "nothing new can be proposed")
            return

    def _end(self, history: History, account: Spent) -> str | None:
        context = self._context
        attempt_s = context.attempt_s(account)
        minutes = context.engine_minutes(attempt_s)
        spent = search_end(context.spec, account, context.clock.now(), attempt_s, minutes)
        return spent or early_end(context, history)

    def _step(self, history: History) -> bool:
        """One proposal, settled; False when there is none."""
        context = self._context
        history = self._judge_prior(history)
        context.checkpoint(BEFORE_ASK)
        context.ledger.require_lease()
        proposal = context.proposer.ask(lambda found: self._is_useless(found, history))
        if proposal is None:
            return False
        context.checkpoint(AFTER_ASK)
        trial = self._new_trial(proposal)
        if proposal.duplicate_of is not None:
            self._tell_twin(history, proposal, trial, proposal.duplicate_of)
            return True
        predicted = self._predicted(proposal.config, history)
        if predicted is not None and _rejections_in_a_row(history) < MOST_REJECTIONS_IN_A_ROW:
            rejected = context.ledger.reject(trial, _prediction(predicted))
            context.checkpoint(AFTER_REJECTION)
            tell_trial(context, rejected)
            return True
        stored = context.ledger.propose(trial)
        context.checkpoint(AFTER_TRIAL_ROW)
        self._finish(stored)
        return True

    def _new_trial(self, proposal: Proposal) -> NewTrial:
        expected = None if self._prior is None else self._prior.predict(proposal.config)
        return NewTrial(
            proposal.origin,
            proposal.config,
            dict(proposal.coordinates),
            proposal.number,
            None if expected is None else expected.to_dict(),
        )

    def _judge_prior(self, history: History) -> History:
        """Stop following the engine model once measurements contradict it."""
        if self._prior is None or was_dropped(history):
            return history
        found = agreement(history, self._prior.reference_score)
        if found is None or not found.misleads:
            return history
        drop_prior(self._context, found)
        return self._context.ledger.history()

    def _is_useless(self, proposal: Proposal, history: History) -> bool:
        """Whether a proposal is not worth a row: its author was dropped, or a launch would fail."""
        if is_discarded(proposal.origin, history):
            return True
        if proposal.origin is not TrialOrigin.SAMPLER or _rejections_in_a_row(history) > 1:
            # A sampler that knows nothing else has to be told.
            return False
        config = proposal.config
        return self._predicted(config, history) is not None or self._in_vain(config, history)

    def _in_vain(self, config: EngineConfig, history: History) -> bool:
        """Whether it only asks for sequences which the KV cache is known not to hold."""
        context = self._context
        cap = sequence_limit(config, history, context.target)
        if cap is None:
            return False
        if not was_told(cap, context.ledger.history()):
            details = {"trial": cap.trial, "max_num_seqs": cap.most}
            context.ledger.notice(KV_BOUND, cap.reason, **details)
        return True

    def _tell_twin(
        self, history: History, proposal: Proposal, trial: NewTrial, optuna_number: int
    ) -> None:
        twin = next((t for t in history.trials if t.optuna_number == optuna_number), None)
        if twin is None:
            digest = proposal.config.digest
            by_hand = (t for t in history.trials if t.origin is TrialOrigin.MANUAL)
            twin = next((t for t in by_hand if t.config_digest == digest), None)
        name = "the baseline" if twin is None else f"trial {twin.number}"
        self._context.ledger.skip(f"the same configuration as {name}", trial)
        self._context.checkpoint(AFTER_SKIP)
        self._context.proposer.tell_duplicate(proposal.number, optuna_number)

    def _predicted(self, config: EngineConfig, history: History) -> PredictedInfeasible | None:
        context = self._context
        verdict = check(
            context.target.effective(config),
            max_model_len=context.target.max_model_len,
            forecaster=context.forecaster,
        )
        if isinstance(verdict, PredictedInfeasible):
            return verdict
        return observed_infeasible(config, history, context.target)

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
