"""The phase that turns the store's measurements into the verdict and ends the study."""

from __future__ import annotations

from dataclasses import replace

from objectives.bottleneck import Bound, bottleneck
from objectives.measurement import Measurement
from objectives.pooling import pooled
from objectives.utilization import utilization_remark
from tuner.domain.engine_config import EngineConfig
from tuner.domain.states import AttemptOutcome, AttemptPurpose, TrialOrigin, TrialState
from tuner.errors import StudyFailedError
from tuner.store.records import TrialRecord
from tuner.study.attempts import WEAKNESS
from tuner.study.changes import PairedRound
from tuner.study.checkpoints import IN_RECOMMENDATION
from tuner.study.confirmation_phase import (
    failed_round,
    finalists_of,
    highest_round,
    round_pair,
    single_look_level,
    spreads,
)
from tuner.study.context import StudyContext
from tuner.study.ledger import History
from tuner.study.noise import noise_of, reference_measurements
from tuner.study.picks import Pick, named_picks
from tuner.study.recommendation import (
    Candidate,
    Recommendation,
    Reference,
    Setting,
    recommend,
)
from tuner.study.recommendation_document import recommendation_to_dict
from tuner.study.report import applied_flags
from tuner.study.scoring import paired_difference
from tuner.study.trial_score import score_value
from tuner.study.what_bound import engine_limits


def conclude(context: StudyContext) -> Recommendation:
    """The verdict, stored together with the study's end.

    Raises StudyFailedError when nothing was measured and that was our fault: nothing is known then
    of what the configurations can do.
    """
    history = context.ledger.history()
    _require_knowledge(history)
    verdict = verdict_of(context, history)
    context.checkpoint(IN_RECOMMENDATION)
    context.ledger.conclude(recommendation_to_dict(verdict))
    return verdict


def _require_knowledge(history: History) -> None:
    if history.reference is not None:
        return
    failed = [trial for trial in history.trials if trial.state is TrialState.FAILED]
    if failed:
        why = next(
            (t.diagnosis.summary for t in failed if t.diagnosis is not None), "no reason known"
        )
        raise StudyFailedError(
            f"nothing could be measured: {len(failed)} trials failed through no fault of theirs "
            f"(trial {failed[0].number}: {why})",
            hint="remove the cause, then start the study afresh with --new",
        )


def verdict_of(context: StudyContext, history: History) -> Recommendation:
    """The verdict by what is stored; pure over the store, so it may be asked at any time."""
    reference = history.reference
    candidates = [_candidate(context, history, number) for number in finalists_of(context, history)]
    setting = Setting(
        simulated=context.simulated,
        look_level=single_look_level(context),
        noise=noise_of(context.objective, history),
        picks=_picks(context, history),
    )
    return recommend(
        None if reference is None else _reference(context, history, reference),
        candidates,
        setting,
        why_infeasible=_why_infeasible(history),
    )


def _reference(context: StudyContext, history: History, trial: TrialRecord) -> Reference:
    measurement = history.reference_measurement
    applied = _applied(context, trial.config, measurement)
    return Reference(
        trial.number,
        trial.config,
        is_baseline=trial.origin is TrialOrigin.BASELINE,
        remarks=() if measurement is None else _remarks(trial, measurement, applied),
        applied=applied,
    )


def _applied(
    context: StudyContext, config: EngineConfig, measurement: Measurement | None
) -> EngineConfig:
    """The flags with the engine's defaults: as it reported them, else as they are known to be."""
    reported = {} if measurement is None else applied_flags(measurement)
    known = {
        name: value for name, value in reported.items() if isinstance(value, bool | int | float)
    }
    if context.target.gpu is None:
        # The defaults of these two depend on the GPU; unknown, they are not guessed.
        filled = context.target.effective(config)
        guessed = [n for n in ("max-num-seqs", "max-num-batched-tokens") if config.get(n) is None]
        return filled.without(*guessed).with_flags(known)
    return context.target.effective(config).with_flags(known)


def _remarks(
    trial: TrialRecord, measurement: Measurement, applied: EngineConfig
) -> tuple[str, ...]:
    """What bound the reference when saturated, and what its GPU did at the study's rate."""
    engine = engine_limits(measurement.engine, applied)
    name = "The baseline" if trial.origin is TrialOrigin.BASELINE else f"Trial {trial.number}"
    found = bottleneck(replace(measurement, engine=engine))
    told = []
    if found.bound is not Bound.UNKNOWN:
        told.append(f"{name}, saturated, was bound by {found.summary}.")
    remark = utilization_remark(measurement.latency)
    return (*told, remark) if remark else tuple(told)


def _picks(context: StudyContext, history: History) -> tuple[Pick, ...]:
    """Named picks among the search's measurements."""
    reference = reference_measurements(history)
    if not reference:
        return ()
    measured = {
        trial.number: own
        for trial in history.trials
        if trial.state is TrialState.COMPLETE
        and (own := history.measured(trial.number, AttemptPurpose.SEARCH)) is not None
    }
    scores = {trial.number: score_value(trial.score) for trial in history.trials}
    percentile = context.spec.objective.latency_percentile
    return named_picks(measured, pooled(reference), scores, percentile)


def _candidate(context: StudyContext, history: History, number: int) -> Candidate:
    expected = iter(spreads(context, history, number))
    rounds = []
    for index in range(highest_round(history) + 1):
        pair = round_pair(history, number, index)
        score = None if pair is None else paired_difference(context.objective, *pair)
        if pair is not None and score is not None:
            rounds.append(PairedRound(index, score, *pair, spread=next(expected)))
    config = history.trial(number).config
    measurement = history.measured(number, AttemptPurpose.SEARCH)
    return Candidate(
        trial_number=number,
        config=config,
        rounds=tuple(rounds),
        failure=_failure(history, number),
        weaknesses=_weaknesses(history, number),
        applied=_applied(context, config, measurement),
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
