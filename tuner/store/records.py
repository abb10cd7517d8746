"""What the repositories return: frozen copies of rows, detached from any session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from objectives.measurement import Measurement
from tuner.domain.diagnosis import Diagnosis
from tuner.domain.engine_config import EngineConfig
from tuner.domain.states import (
    AttemptOutcome,
    AttemptPurpose,
    StudyOrigin,
    StudyPhase,
    StudyRequest,
    StudyState,
    TrialOrigin,
    TrialState,
    WorkerState,
)

JsonObject = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """Who drives a study, under which fencing token, until when by the database's clock."""

    worker_id: str
    token: int
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class HeldLease:
    """A lease with its study: what is compared to see whether its holder still renews it."""

    study_id: int
    worker_id: str
    token: int
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class WorkerRecord:
    """A process that drives studies; pid and start time name it within its namespace."""

    id: str
    host: str
    namespace: str | None
    pid: int
    start_ticks: int
    version: str
    gpus: tuple[str, ...]
    state: WorkerState
    study_id: int | None
    started_at: datetime
    last_seen_at: datetime
    progress: JsonObject | None = None
    """What it is doing at this moment, as `tuner.worker.live` tells it."""


@dataclass(frozen=True, slots=True)
class StudyRecord:
    """A study. `document` is the study file as JSON, `space` its search space's frozen maps."""

    id: int
    name: str
    generation: int
    digest: str
    document: JsonObject
    state: StudyState
    phase: StudyPhase
    optuna_study_name: str
    space: JsonObject | None
    calibration: JsonObject | None
    recommendation: JsonObject | None
    failure: JsonObject | None
    notices: tuple[JsonObject, ...]
    last_event_seq: int
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    lease: LeaseRecord | None = None
    requested: StudyRequest | None = None
    created_by: str | None = None
    origin: StudyOrigin = StudyOrigin.CLI

    @property
    def reference(self) -> str:
        """What finds this study and no other: `name@generation`."""
        return f"{self.name}@{self.generation}"


@dataclass(frozen=True, slots=True)
class TrialRecord:
    """A trial; `number` counts from 0 within the study and 0 is the baseline."""

    id: int
    study_id: int
    number: int
    optuna_number: int | None
    origin: TrialOrigin
    coordinates: JsonObject | None
    config: EngineConfig
    config_digest: str
    state: TrialState
    diagnosis: Diagnosis | None
    infeasibility: JsonObject | None
    score: JsonObject | None
    prediction: JsonObject | None
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    summary: JsonObject | None = None
    requested_by: str | None = None


@dataclass(frozen=True, slots=True)
class ProcessRecord:
    """A process of this attempt: pid and Linux start time, which together name one process."""

    pid: int
    start_ticks: int


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """One execution of a trial; `ordinal` counts from 1 within the trial.

    `state` is how far the attempt came (launching … stopping); `directory` is relative to the
    artefact store's root.
    """

    id: int
    study_id: int
    trial_number: int
    ordinal: int
    purpose: AttemptPurpose
    round: int | None
    workload_seed: int
    state: TrialState
    outcome: AttemptOutcome
    host: str | None
    guard: ProcessRecord | None
    engine: ProcessRecord | None
    port: int | None
    directory: str
    diagnosis: Diagnosis | None
    started_at: datetime
    ended_at: datetime | None
    ready_at: datetime | None = None
    startup_s: float | None = None
    """Engine seconds from launch to ready; None where the engine never was, or did not tell."""


@dataclass(frozen=True, slots=True)
class TrialStanding:
    """What counting and ranking read of a trial: neither configuration nor diagnosis."""

    number: int
    state: TrialState
    score: JsonObject | None
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class AttemptSpan:
    """What accounting reads of an attempt: whose it was, why it was made, and how long it took."""

    trial_number: int
    purpose: AttemptPurpose
    outcome: AttemptOutcome
    started_at: datetime
    ready_at: datetime | None
    startup_s: float | None
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class MeasurementRecord:
    """What one attempt measured, with the attempt it belongs to."""

    attempt_id: int
    trial_number: int
    ordinal: int
    purpose: AttemptPurpose
    round: int | None
    workload_seed: int
    measurement: Measurement
    valid: bool
    created_at: datetime


@dataclass(frozen=True, slots=True)
class AttemptEnd:
    """How an attempt ended, to be stored with what it measured in one transaction."""

    outcome: AttemptOutcome
    diagnosis: Diagnosis | None = None
    measurement: Measurement | None = None
