"""The phase that turns the store's measurements into the verdict and ends the study."""

from __future__ import annotations

from objectives.bottleneck import Bound, bottleneck
from objectives.measurement import Measurement
from tuner.domain.states import AttemptOutcome, AttemptPurpose, TrialOrigin
from tuner.store.records import TrialRecord
from tuner.study.attempts import WEAKNESS
from tuner.study.checkpoints import IN_RECOMMENDATION
from tuner.study.confirmation_phase import failed_round, finalists_of, highest_round, round_pair
from tuner.study.context import StudyContext
from tuner.study.ledger import History
from tuner.study.recommendation import (
    Candidate,
    PairedRound,
    Recommendation,
    Reference,
    recommend,
)
from tuner.study.recommendation_document import recommendation_to_dict
from tuner.study.scoring import paired_difference


def conclude(context: StudyContext) -> Recommendation:
    """The verdict, stored together with the study's end."""
    verdict = verdict_of(context, context.ledger.history())
    context.checkpoint(IN_RECOMMENDATION)
    context.ledger.conclude(recommendation_to_dict(verdict))
    return verdict


def verdict_of(context: StudyContext, history: History) -> Recommendation:
    """The verdict by what is stored; pure over the store, so it may be asked at any time."""
    reference = history.reference
    candidates = [_candidate(context, history, number) for number in finalists_of(context, history)]
    return recommend(
        None if reference is None else _reference(history, reference),
        candidates,
        simulated=context.simulated,
        why_infeasible=_why_infeasible(history),
    )


def _reference(history: History, trial: TrialRecord) -> Reference:
    measurement = history.reference_measurement
    return Reference(
        trial.number,
        trial.config,
        is_baseline=trial.origin is TrialOrigin.BASELINE,
        bottleneck=None if measurement is None else _bottleneck_sentence(trial, measurement),
    )


def _bottleneck_sentence(trial: TrialRecord, measurement: Measurement) -> str | None:
    found = bottleneck(measurement)
    if found.bound is Bound.UNKNOWN:
        return None
    name = "The baseline" if trial.origin is TrialOrigin.BASELINE else f"Trial {trial.number}"
    return f"{name}, saturated, was bound by {found.summary}."


def _candidate(context: StudyContext, history: History, number: int) -> Candidate:
    rounds = []
    for index in range(highest_round(history) + 1):
        pair = round_pair(history, number, index)
        score = None if pair is None else paired_difference(context.objective, *pair)
        if pair is not None and score is not None:
            rounds.append(PairedRound(index, score, *pair))
    return Candidate(
        trial_number=number,
        config=history.trial(number).config,
        rounds=tuple(rounds),
        failure=_failure(history, number),
        weaknesses=_weaknesses(history, number),
    )


def _failure(history: History, number: int) -> str | None:
    failed = failed_round(history, number)
    if failed is None:
        return None
    attempts = history.attempts_of(number, AttemptPurpose.CONFIRMATION, failed)
    found = (a.diagnosis for a in attempts if a.outcome is AttemptOutcome.INFEASIBLE)
    diagnosis = next(found, None)
    summary = diagnosis.summary if diagnosis else "the engine could not run it"
    return f"in round {failed + 1} of the confirmation: {summary}"


def _weaknesses(history: History, number: int) -> tuple[str, ...]:
    found = []
    for record in history.measurements:
        if record.trial_number != number or record.purpose is not AttemptPurpose.CONFIRMATION:
            continue
        for note in record.measurement.notes:
            if note.startswith(WEAKNESS) and record.round is not None:
                text = note.removeprefix(WEAKNESS)
                found.append(f"in round {record.round + 1} {text}")
    return tuple(found)


def _why_infeasible(history: History) -> str | None:
    """The failure of the first trial that has one: the baseline's, where it failed."""
    for trial in history.trials:
        if trial.diagnosis is not None:
            return f"Trial {trial.number}: {trial.diagnosis.summary}"
        if trial.infeasibility is not None:
            return f"Trial {trial.number}: {trial.infeasibility['reason']}"
    return None
