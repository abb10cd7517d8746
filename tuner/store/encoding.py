"""Rows and JSON documents to records, and back."""

from __future__ import annotations

from typing import Any

from objectives.serialise import measurement_from_dict
from tuner.domain.diagnosis import Consequence, Diagnosis, Phase, Remedy
from tuner.domain.engine_config import EngineConfig
from tuner.domain.events import Event, EventKind
from tuner.domain.states import (
    AttemptOutcome,
    AttemptPurpose,
    StudyOrigin,
    StudyPhase,
    StudyRequest,
    StudyState,
    TrialOrigin,
    TrialState,
)
from tuner.store.models import AttemptRow, EventRow, MeasurementRow, StudyRow, TrialRow
from tuner.store.records import (
    AttemptRecord,
    LeaseRecord,
    MeasurementRecord,
    ProcessRecord,
    StudyRecord,
    TrialRecord,
)


def diagnosis_to_dict(diagnosis: Diagnosis | None) -> dict[str, Any] | None:
    """JSON form; None stays None."""
    if diagnosis is None:
        return None
    return {
        "failure_class": diagnosis.failure_class,
        "phase": diagnosis.phase.value,
        "consequence": diagnosis.consequence.value,
        "summary": diagnosis.summary,
        "evidence": list(diagnosis.evidence),
        "remedies": [
            {"knob": remedy.knob, "direction": remedy.direction, "value": remedy.value}
            for remedy in diagnosis.remedies
        ],
        "returncode": diagnosis.returncode,
        "severity": diagnosis.severity,
        "tunable": diagnosis.tunable,
        "facts": dict(diagnosis.facts),
    }


def diagnosis_from_dict(document: dict[str, Any] | None) -> Diagnosis | None:
    """The inverse of `diagnosis_to_dict`."""
    if document is None:
        return None
    return Diagnosis(
        failure_class=document["failure_class"],
        phase=Phase(document["phase"]),
        consequence=Consequence(document["consequence"]),
        summary=document["summary"],
        evidence=tuple(document["evidence"]),
        remedies=tuple(Remedy(**remedy) for remedy in document["remedies"]),
        returncode=document["returncode"],
        severity=document["severity"],
        tunable=document["tunable"],
        facts={
            name: tuple(value) if isinstance(value, list) else value
            for name, value in document["facts"].items()
        },
    )


def study_record(row: StudyRow) -> StudyRecord:
    return StudyRecord(
        id=row.id,
        name=row.name,
        generation=row.generation,
        digest=row.digest,
        document=row.document,
        state=StudyState(row.state),
        phase=StudyPhase(row.phase),
        optuna_study_name=row.optuna_study_name,
        space=row.space,
        calibration=row.calibration,
        recommendation=row.recommendation,
        failure=row.failure,
        notices=tuple(row.notices),
        last_event_seq=row.next_event_seq - 1,
        created_at=row.created_at,
        updated_at=row.updated_at,
        started_at=row.started_at,
        ended_at=row.ended_at,
        lease=_lease(row),
        requested=None if row.requested is None else StudyRequest(row.requested),
        created_by=row.created_by,
        origin=StudyOrigin(row.origin),
    )


def _lease(row: StudyRow) -> LeaseRecord | None:
    if row.lease_worker is None or row.lease_expires_at is None:
        return None
    return LeaseRecord(row.lease_worker, row.lease_token, row.lease_expires_at)


def trial_record(row: TrialRow) -> TrialRecord:
    return TrialRecord(
        id=row.id,
        study_id=row.study_id,
        number=row.number,
        optuna_number=row.optuna_number,
        origin=TrialOrigin(row.origin),
        coordinates=row.coordinates,
        config=EngineConfig.of(row.config),
        config_digest=row.config_digest,
        state=TrialState(row.state),
        diagnosis=diagnosis_from_dict(row.diagnosis),
        infeasibility=row.infeasibility,
        score=row.score,
        prediction=row.prediction,
        created_at=row.created_at,
        started_at=row.started_at,
        ended_at=row.ended_at,
        summary=row.summary,
        requested_by=row.requested_by,
    )


def attempt_record(row: AttemptRow, trial: TrialRow) -> AttemptRecord:
    return AttemptRecord(
        id=row.id,
        study_id=trial.study_id,
        trial_number=trial.number,
        ordinal=row.ordinal,
        purpose=AttemptPurpose(row.purpose),
        round=row.round,
        workload_seed=row.workload_seed,
        state=TrialState(row.state),
        outcome=AttemptOutcome(row.outcome),
        host=row.host,
        guard=_process(row.guard_pid, row.guard_start_ticks),
        engine=_process(row.engine_pid, row.engine_start_ticks),
        port=row.port,
        directory=row.directory,
        diagnosis=diagnosis_from_dict(row.diagnosis),
        started_at=row.started_at,
        ended_at=row.ended_at,
        ready_at=row.ready_at,
        startup_s=row.startup_s,
    )


def measurement_record(
    row: MeasurementRow, attempt: AttemptRow, trial: TrialRow
) -> MeasurementRecord:
    return MeasurementRecord(
        attempt_id=row.attempt_id,
        trial_number=trial.number,
        ordinal=attempt.ordinal,
        purpose=AttemptPurpose(attempt.purpose),
        round=attempt.round,
        workload_seed=attempt.workload_seed,
        measurement=measurement_from_dict(row.document),
        valid=row.valid,
        created_at=row.created_at,
    )


def event_record(row: EventRow) -> Event:
    return Event(
        study_id=row.study_id,
        seq=row.seq,
        at=row.at,
        kind=EventKind(row.kind),
        trial_number=row.trial_number,
        payload=row.payload,
    )


def _process(pid: int | None, start_ticks: int | None) -> ProcessRecord | None:
    if pid is None or start_ticks is None:
        return None
    return ProcessRecord(pid, start_ticks)
