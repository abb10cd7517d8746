"""A study as the service shows it: standing, budget, incumbent and baseline, without measurements.

Built from rows only, so that a study with a thousand trials is shown as quickly as one with ten.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from tuner.domain.well_formed import well_formed
from tuner.store.records import StudyRecord, TrialRecord
from tuner.study.report import is_simulated
from tuner.study.standing import Standing
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


def study_overview(study: StudyRecord, standing: Standing, now: datetime) -> JsonObject:
    """One study in a list, with what it has spent and found."""
    best, recommendation = standing.best, study.recommendation or {}
    return {
        **study_line(study),
        "progress": _progress(study, standing, now),
        "best_trial": None if best is None else best.number,
        "best_score": None if best is None else score_value(best.score),
        "verdict": recommendation.get("verdict"),
        "confirmed": recommendation.get("gain"),
    }


def study_view(study: StudyRecord, standing: Standing, now: datetime) -> JsonObject:
    """One study whole, but for its trials."""
    best, baseline = standing.best, standing.baseline
    return {
        **study_line(study),
        "last_event_seq": study.last_event_seq,
        "progress": _progress(study, standing, now),
        "incumbent": None if best is None else _brief(best),
        "baseline": None if baseline is None else _brief(baseline),
        "calibration": _copy(study.calibration),
        "recommendation": well_formed(_copy(study.recommendation)),
        "failure": well_formed(_copy(study.failure)),
        "notices": well_formed([dict(notice) for notice in study.notices]),
    }


def _progress(study: StudyRecord, standing: Standing, now: datetime) -> JsonObject:
    """What is done, used and left; what is not known is null, and what is left a forecast."""
    account, planned = standing.account, standing.planned
    ended = study.state.terminal
    total = account.starts if ended else max(planned.starts, account.starts)
    limit, each = planned.gpu_minutes, account.mean_attempt_s
    until = study.ended_at or now
    elapsed = None if study.started_at is None else (until - study.started_at).total_seconds()
    return {
        "trials_done": account.trials,
        "trials_total": planned.trials,
        "starts_done": account.starts,
        "starts_total": total,
        "elapsed_s": elapsed,
        "time_left_s": 0.0 if ended else None if each is None else each * (total - account.starts),
        "gpu_minutes_used": account.gpu_minutes,
        "gpu_minutes_limit": limit,
        "gpu_minutes_left": None if limit is None else max(0.0, limit - account.gpu_minutes),
        "deadline": _time(planned.deadline),
    }


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
