"""ServeTune's tables. Rows stay inside this package: repositories return `tuner.store.records`."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, ForeignKey, Index, MetaData, String, UniqueConstraint
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from tuner.store.column_types import UtcDateTime

TABLE_PREFIX = "servetune_"
"""Optuna owns unprefixed tables (`studies`, `trials`, …) in the same database."""


class Base(DeclarativeBase):
    """Constraints are named, so that a migration on SQLite can find them."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {datetime: UtcDateTime, dict[str, Any]: JSON, list[Any]: JSON}  # noqa: RUF012


class StudyRow(Base):
    """A study. `generation` counts the studies of one name: `--new` makes the next one."""

    __tablename__ = "servetune_studies"
    __table_args__ = (
        UniqueConstraint("name", "generation"),
        Index(None, "name", "digest"),
        Index(None, "state"),
        # Ids are never used twice: an event's address is `study:seq`.
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(100))
    generation: Mapped[int]
    digest: Mapped[str] = mapped_column(String(64))
    document: Mapped[dict[str, Any]]
    state: Mapped[str] = mapped_column(String(16))
    phase: Mapped[str] = mapped_column(String(16))
    optuna_study_name: Mapped[str] = mapped_column(String(200), unique=True)
    space: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    calibration: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    recommendation: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    failure: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    notices: Mapped[list[Any]]
    next_event_seq: Mapped[int]
    lease_worker: Mapped[str | None] = mapped_column(String(64))
    lease_token: Mapped[int] = mapped_column(BigInteger, default=0)
    """The fencing token: one more at each claim, so that whoever claimed before is refused."""
    lease_expires_at: Mapped[datetime | None]
    """By the database's clock, as every moment of a lease."""
    requested: Mapped[str | None] = mapped_column(String(16))
    created_by: Mapped[str | None] = mapped_column(String(100))
    origin: Mapped[str] = mapped_column(String(16), default="cli")
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]
    started_at: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]


class TrialRow(Base):
    """A configuration of a study: our `number`, and the sampler's where it was asked."""

    __tablename__ = "servetune_trials"
    __table_args__ = (
        UniqueConstraint("study_id", "number"),
        UniqueConstraint("study_id", "optuna_number"),
        Index(None, "study_id", "config_digest"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    study_id: Mapped[int] = mapped_column(ForeignKey(StudyRow.id, ondelete="CASCADE"))
    number: Mapped[int]
    optuna_number: Mapped[int | None]
    origin: Mapped[str] = mapped_column(String(24))
    coordinates: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    config: Mapped[dict[str, Any]]
    config_digest: Mapped[str] = mapped_column(String(16))
    state: Mapped[str] = mapped_column(String(16))
    diagnosis: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    failure_class: Mapped[str | None] = mapped_column(String(64))
    """The diagnosis's, to count by: PostgreSQL reads nothing out of JSON that holds a NUL."""
    infeasibility: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    score: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    prediction: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    summary: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    """The headline of what was measured, so that lists need no measurement documents."""
    requested_by: Mapped[str | None] = mapped_column(String(100))
    created_at: Mapped[datetime]
    started_at: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]


class AttemptRow(Base):
    """One execution of a trial; what a later worker needs to reap its processes is in it."""

    __tablename__ = "servetune_attempts"
    __table_args__ = (UniqueConstraint("trial_id", "ordinal"), Index(None, "outcome"))

    id: Mapped[int] = mapped_column(primary_key=True)
    trial_id: Mapped[int] = mapped_column(ForeignKey(TrialRow.id, ondelete="CASCADE"))
    ordinal: Mapped[int]
    purpose: Mapped[str] = mapped_column(String(24))
    round: Mapped[int | None]
    workload_seed: Mapped[int] = mapped_column(BigInteger)
    state: Mapped[str] = mapped_column(String(16))
    outcome: Mapped[str] = mapped_column(String(16))
    host: Mapped[str | None] = mapped_column(String(255))
    guard_pid: Mapped[int | None]
    guard_start_ticks: Mapped[int | None] = mapped_column(BigInteger)
    engine_pid: Mapped[int | None]
    engine_start_ticks: Mapped[int | None] = mapped_column(BigInteger)
    port: Mapped[int | None]
    directory: Mapped[str] = mapped_column(String(255))
    diagnosis: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    started_at: Mapped[datetime]
    ready_at: Mapped[datetime | None]
    startup_s: Mapped[float | None]
    """Engine seconds that the start took, as read back once it was ready."""
    ended_at: Mapped[datetime | None]


class MeasurementRow(Base):
    """What an attempt measured, whole; never changed, never scored in place."""

    __tablename__ = "servetune_measurements"

    attempt_id: Mapped[int] = mapped_column(
        ForeignKey(AttemptRow.id, ondelete="CASCADE"), primary_key=True, autoincrement=False
    )
    document: Mapped[dict[str, Any]]
    valid: Mapped[bool]
    created_at: Mapped[datetime]


class EventRow(Base):
    """One fact of a study's history, numbered by the study and never by the table."""

    __tablename__ = "servetune_events"

    study_id: Mapped[int] = mapped_column(
        ForeignKey(StudyRow.id, ondelete="CASCADE"), primary_key=True
    )
    seq: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    kind: Mapped[str] = mapped_column(String(32))
    trial_number: Mapped[int | None]
    payload: Mapped[dict[str, Any]]
    at: Mapped[datetime]


class WorkerRow(Base):
    """A process that drives studies, for as long as it is known; `id` is made anew at each start.

    Pid, start time and the process namespace tell on its own host whether it still lives.
    """

    __tablename__ = "servetune_workers"
    __table_args__ = (Index(None, "last_seen_at"),)

    id: Mapped[str] = mapped_column(String(64), primary_key=True)
    host: Mapped[str] = mapped_column(String(255))
    namespace: Mapped[str | None] = mapped_column(String(64))
    pid: Mapped[int]
    start_ticks: Mapped[int] = mapped_column(BigInteger)
    version: Mapped[str] = mapped_column(String(64))
    gpus: Mapped[list[Any]]
    state: Mapped[str] = mapped_column(String(16))
    study_id: Mapped[int | None] = mapped_column(ForeignKey(StudyRow.id, ondelete="SET NULL"))
    progress: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    """What the worker is doing at this moment; no part of any study's history."""
    started_at: Mapped[datetime]
    last_seen_at: Mapped[datetime]


class ApiKeyRow(Base):
    """A key of the HTTP API: `id` is its public prefix, `hash` the SHA-256 of its secret."""

    __tablename__ = "servetune_api_keys"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    name: Mapped[str] = mapped_column(String(100))
    hash: Mapped[str] = mapped_column(String(64))
    scopes: Mapped[list[Any]]
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime | None]
    last_used_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]


class SessionRow(Base):
    """A browser's session, opened with a key; neither cookie nor CSRF token is stored."""

    __tablename__ = "servetune_sessions"
    __table_args__ = (Index(None, "expires_at"),)

    id_hash: Mapped[str] = mapped_column(String(64), primary_key=True)
    key_id: Mapped[str] = mapped_column(ForeignKey(ApiKeyRow.id, ondelete="CASCADE"))
    csrf_hash: Mapped[str] = mapped_column(String(64))
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime]


class IdempotencyKeyRow(Base):
    """The answer to a request that may come again; without a status it is being answered."""

    __tablename__ = "servetune_idempotency_keys"
    __table_args__ = (Index(None, "created_at"),)

    principal: Mapped[str] = mapped_column(String(100), primary_key=True)
    key: Mapped[str] = mapped_column(String(255), primary_key=True)
    fingerprint: Mapped[str] = mapped_column(String(64))
    status: Mapped[int | None]
    headers: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    body: Mapped[Any | None] = mapped_column(JSON(none_as_null=True))
    created_at: Mapped[datetime]


class UploadRow(Base):
    """A trace that came over HTTP; its bytes are in the artefact store."""

    __tablename__ = "servetune_uploads"

    id: Mapped[str] = mapped_column(String(64), primary_key=True)
    name: Mapped[str] = mapped_column(String(255))
    format: Mapped[str] = mapped_column(String(32))
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    sha256: Mapped[str] = mapped_column(String(64))
    description: Mapped[dict[str, Any]]
    created_by: Mapped[str | None] = mapped_column(String(100))
    created_at: Mapped[datetime]


class AuditRow(Base):
    """Who did what through the API; kept when what it was done to is gone."""

    __tablename__ = "servetune_audit"
    __table_args__ = (Index(None, "at"), {"sqlite_autoincrement": True})

    id: Mapped[int] = mapped_column(primary_key=True)
    at: Mapped[datetime]
    principal: Mapped[str] = mapped_column(String(100))
    action: Mapped[str] = mapped_column(String(64))
    subject: Mapped[str | None] = mapped_column(String(255))
    outcome: Mapped[str] = mapped_column(String(32))
    detail: Mapped[dict[str, Any]]
