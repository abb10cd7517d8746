"""Rows of the store as tests of pure decisions need them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from objectives.measurement import Measurement
from tuner.domain.diagnosis import Diagnosis
from tuner.domain.engine_config import EngineConfig
from tuner.domain.states import (
    AttemptOutcome,
    AttemptPurpose,
    StudyPhase,
    StudyState,
    TrialOrigin,
    TrialState,
)
from tuner.store.records import (
    AttemptRecord,
    JsonObject,
    MeasurementRecord,
    StudyRecord,
    TrialRecord,
)

START = datetime(2030, 1, 1, tzinfo=UTC)


def study_record(
    *, phase: StudyPhase = StudyPhase.SEARCH, calibration: JsonObject | None = None
) -> StudyRecord:
    return StudyRecord(
        id=1,
        name="chat",
        generation=1,
        digest="d" * 64,
        document={},
        state=StudyState.RUNNING,
        phase=phase,
        optuna_study_name="chat@1",
        space=None,
        calibration=calibration,
        recommendation=None,
        failure=None,
        notices=(),
        last_event_seq=1,
        created_at=START,
        updated_at=START,
        started_at=START,
        ended_at=None,
    )


def trial_record(
    number: int,
    state: TrialState = TrialState.COMPLETE,
    *,
    score: float | None = None,
    config: EngineConfig | None = None,
    diagnosis: Diagnosis | None = None,
    infeasibility: JsonObject | None = None,
) -> TrialRecord:
    chosen = config or EngineConfig.of({"max-num-seqs": 8 + number})
    return TrialRecord(
        id=number + 1,
        study_id=1,
        number=number,
        optuna_number=number - 1 if number else None,
        origin=TrialOrigin.SAMPLER if number else TrialOrigin.BASELINE,
        coordinates=None,
        config=chosen,
        config_digest=chosen.digest,
        state=state,
        diagnosis=diagnosis,
        infeasibility=infeasibility,
        score=None if score is None else {"value": score},
        prediction=None,
        created_at=START,
        started_at=START,
        ended_at=None,
    )


def attempt_record(
    identifier: int,
    trial_number: int,
    *,
    purpose: AttemptPurpose = AttemptPurpose.SEARCH,
    outcome: AttemptOutcome = AttemptOutcome.MEASURED,
    seconds: float | None = 60.0,
    round_number: int | None = None,
    diagnosis: Diagnosis | None = None,
) -> AttemptRecord:
    return AttemptRecord(
        id=identifier,
        study_id=1,
        trial_number=trial_number,
        ordinal=identifier,
        purpose=purpose,
        round=round_number,
        workload_seed=0,
        state=TrialState.STOPPING,
        outcome=outcome,
        host="here",
        guard=None,
        engine=None,
        port=None,
        directory=f"study-1/trial-{trial_number}/attempt-{identifier}",
        diagnosis=diagnosis,
        started_at=START,
        ended_at=None if seconds is None else START + timedelta(seconds=seconds),
    )


def measurement_record(
    attempt: AttemptRecord, measurement: Measurement, *, valid: bool = True
) -> MeasurementRecord:
    return MeasurementRecord(
        attempt_id=attempt.id,
        trial_number=attempt.trial_number,
        ordinal=attempt.ordinal,
        purpose=attempt.purpose,
        round=attempt.round,
        workload_seed=attempt.workload_seed,
        measurement=measurement,
        valid=valid,
        created_at=START,
    )
