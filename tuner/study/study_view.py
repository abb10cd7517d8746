"""A study as the service shows it: standing, budget, incumbent and baseline, without measurements.

Built from rows only, so that a study with a thousand trials is shown as quickly as one with ten.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from tuner.domain.states import TrialState
from tuner.domain.study_spec import StudySpec
from tuner.domain.well_formed import well_formed
from tuner.store.records import AttemptRecord, StudyRecord, TrialRecord
from tuner.study.budget import Spent, planned_starts, spent
from tuner.study.engine_launch import time_scale
from tuner.study.report import is_simulated
from tuner.study.stored_study import stored_spec
from tuner.study.target import gpu_count
from tuner.study.trial_score import score_value

JsonObject = dict[str, object]


def study_line(study: StudyRecord) -> JsonObject:
    """One study in a list."""
    return {
        "id": study.id,
        "reference": study.reference,
        "name": study.name,
        "generation": study.generation,
        "digest": study.digest,
        "state": study.state.value,
        "phase": study.phase.value,
        "requested": None if study.requested is None else study.requested.value,
        "simulated": is_simulated(study),
        "origin": study.origin.value,
        "created_by": study.created_by,
        "driven_by": None if study.lease is None else study.lease.worker_id,
        "created_at": _time(study.created_at),
        "updated_at": _time(study.updated_at),
        "started_at": _time(study.started_at),
        "ended_at": _time(study.ended_at),
    }


def study_view(
    study: StudyRecord,
    trials: Sequence[TrialRecord],
    attempts: Sequence[AttemptRecord],
    now: datetime,
) -> JsonObject:
    """One study whole, but for its trials."""
    spec = stored_spec(study)
    scale = time_scale(spec.engine)
    account = spent(trials, attempts, gpu_count=gpu_count(spec), time_scale=scale)
    best = best_trial(trials)
    baseline = next((trial for trial in trials if trial.number == 0), None)
    return {
        **study_line(study),
        "last_event_seq": study.last_event_seq,
        "progress": _progress(study, spec, account, now),
        "incumbent": None if best is None else _brief(best),
        "baseline": None if baseline is None else _brief(baseline),
        "calibration": _copy(study.calibration),
        "recommendation": well_formed(_copy(study.recommendation)),
        "failure": well_formed(_copy(study.failure)),
        "notices": well_formed([dict(notice) for notice in study.notices]),
    }


def _progress(study: StudyRecord, spec: StudySpec, account: Spent, now: datetime) -> JsonObject:
    """What is done, used and left; what is not known is null, and what is left a forecast."""
    ended = study.state.terminal
    total = account.starts if ended else max(planned_starts(spec), account.starts)
    limit = spec.budget.gpu_minutes
    each = account.mean_attempt_s
    until = study.ended_at or now
    elapsed = None if study.started_at is None else (until - study.started_at).total_seconds()
    return {
        "trials_done": account.trials,
        "trials_total": spec.budget.trials,
        "starts_done": account.starts,
        "starts_total": total,
        "elapsed_s": elapsed,
        "time_left_s": 0.0 if ended else None if each is None else each * (total - account.starts),
        "gpu_minutes_used": account.gpu_minutes,
        "gpu_minutes_limit": limit,
        "gpu_minutes_left": None if limit is None else max(0.0, limit - account.gpu_minutes),
        "deadline": _time(spec.budget.deadline),
    }


def best_trial(trials: Sequence[TrialRecord]) -> TrialRecord | None:
    """The best complete trial; the older one of equals."""
    scored = [
        (value, -trial.number, trial)
        for trial in trials
        if trial.state is TrialState.COMPLETE and (value := score_value(trial.score)) is not None
    ]
    return max(scored, key=lambda item: item[:2])[2] if scored else None


def _brief(trial: TrialRecord) -> JsonObject:
    return {
        "trial": trial.number,
        "flags": trial.config.as_dict(),
        "score": _copy(trial.score),
        "summary": _copy(trial.summary),
    }


def trial_line(trial: TrialRecord) -> JsonObject:
    """One trial in a list."""
    diagnosis = trial.diagnosis
    return {
        "number": trial.number,
        "origin": trial.origin.value,
        "requested_by": trial.requested_by,
        "state": trial.state.value,
        "flags": trial.config.as_dict(),
        "config_digest": trial.config_digest,
        "score": _copy(trial.score),
        "summary": _copy(trial.summary),
        "prediction": _copy(trial.prediction),
        "infeasibility": well_formed(_copy(trial.infeasibility)),
        "failure_class": None if diagnosis is None else diagnosis.failure_class,
        "created_at": _time(trial.created_at),
        "started_at": _time(trial.started_at),
        "ended_at": _time(trial.ended_at),
    }


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def _copy(value: Mapping[str, object] | None) -> JsonObject | None:
    return None if value is None else dict(value)
