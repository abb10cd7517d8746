"""Leases, workers, requests, trial summaries; keys, sessions, uploads and audit of the API.

Revision ID: 0002
Revises: 0001
"""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision: str = "0002"
down_revision: str | None = "0001"
branch_labels: None = None
depends_on: None = None

_STUDY_COLUMNS = (
    "lease_worker",
    "lease_token",
    "lease_expires_at",
    "requested",
    "created_by",
    "origin",
)
_TRIAL_COLUMNS = ("summary", "requested_by", "failure_class")
_ATTEMPT_COLUMNS = ("ready_at", "startup_s")
_TABLES = ("workers", "sessions", "api_keys", "idempotency_keys", "uploads", "audit")


def upgrade() -> None:
    _extend_studies()
    _extend_trials()
    op.add_column("servetune_attempts", _moment("ready_at", nullable=True))
    op.add_column("servetune_attempts", sa.Column("startup_s", sa.Double(), nullable=True))
    _create_workers()
    _create_keys_and_sessions()
    _create_idempotency_keys()
    _create_uploads()
    _create_audit()
    _summarise_trials()
    _classify_failures()


def downgrade() -> None:
    for table in _TABLES:
        op.drop_table(f"servetune_{table}")
    for column in reversed(_ATTEMPT_COLUMNS):
        op.drop_column("servetune_attempts", column)
    for column in reversed(_TRIAL_COLUMNS):
        op.drop_column("servetune_trials", column)
    for column in reversed(_STUDY_COLUMNS):
        op.drop_column("servetune_studies", column)


def _optional_json(name: str) -> sa.Column[object]:
    return sa.Column(name, sa.JSON(none_as_null=True), nullable=True)


def _moment(name: str, *, nullable: bool = False) -> sa.Column[object]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=nullable)


def _text(name: str, length: int, *, nullable: bool = False) -> sa.Column[object]:
    return sa.Column(name, sa.String(length), nullable=nullable)


def _extend_studies() -> None:
    # Added one by one, without copying the table: its rows' ids must never be given out again.
    columns: tuple[sa.Column[object], ...] = (
        _text("lease_worker", 64, nullable=True),
        sa.Column("lease_token", sa.BigInteger(), nullable=False, server_default="0"),
        _moment("lease_expires_at", nullable=True),
        _text("requested", 16, nullable=True),
        _text("created_by", 100, nullable=True),
        sa.Column("origin", sa.String(16), nullable=False, server_default="cli"),
    )
    for column in columns:
        op.add_column("servetune_studies", column)


def _extend_trials() -> None:
    op.add_column("servetune_trials", _optional_json("summary"))
    op.add_column("servetune_trials", _text("requested_by", 100, nullable=True))
    op.add_column("servetune_trials", _text("failure_class", 64, nullable=True))


def _create_workers() -> None:
    op.create_table(
        "servetune_workers",
        _text("id", 64),
        _text("host", 255),
        _text("namespace", 64, nullable=True),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("start_ticks", sa.BigInteger(), nullable=False),
        _text("version", 64),
        sa.Column("gpus", sa.JSON(), nullable=False),
        _text("state", 16),
        sa.Column("study_id", sa.Integer(), nullable=True),
        _optional_json("progress"),
        _moment("started_at"),
        _moment("last_seen_at"),
        sa.PrimaryKeyConstraint("id", name="pk_servetune_workers"),
        sa.ForeignKeyConstraint(
            ["study_id"],
            ["servetune_studies.id"],
            name="fk_servetune_workers_study_id",
            ondelete="SET NULL",
        ),
    )
    op.create_index("ix_servetune_workers_last_seen_at", "servetune_workers", ["last_seen_at"])


def _create_keys_and_sessions() -> None:
    op.create_table(
        "servetune_api_keys",
        _text("id", 32),
        _text("name", 100),
        _text("hash", 64),
        sa.Column("scopes", sa.JSON(), nullable=False),
        _moment("created_at"),
        _moment("expires_at", nullable=True),
        _moment("last_used_at", nullable=True),
        _moment("revoked_at", nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_servetune_api_keys"),
    )
    op.create_table(
        "servetune_sessions",
        _text("id_hash", 64),
        _text("key_id", 32),
        _text("csrf_hash", 64),
        _moment("created_at"),
        _moment("expires_at"),
        sa.PrimaryKeyConstraint("id_hash", name="pk_servetune_sessions"),
        sa.ForeignKeyConstraint(
            ["key_id"],
            ["servetune_api_keys.id"],
            name="fk_servetune_sessions_key_id",
            ondelete="CASCADE",
        ),
    )
    op.create_index("ix_servetune_sessions_expires_at", "servetune_sessions", ["expires_at"])


def _create_idempotency_keys() -> None:
    op.create_table(
        "servetune_idempotency_keys",
        _text("principal", 100),
        _text("key", 255),
        _text("fingerprint", 64),
        sa.Column("status", sa.Integer(), nullable=True),
        _optional_json("headers"),
        _optional_json("body"),
        _moment("created_at"),
        sa.PrimaryKeyConstraint("principal", "key", name="pk_servetune_idempotency_keys"),
    )
    op.create_index(
        "ix_servetune_idempotency_keys_created_at", "servetune_idempotency_keys", ["created_at"]
    )


def _create_uploads() -> None:
    op.create_table(
        "servetune_uploads",
        _text("id", 64),
        _text("name", 255),
        _text("format", 32),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        _text("sha256", 64),
        sa.Column("description", sa.JSON(), nullable=False),
        _text("created_by", 100, nullable=True),
        _moment("created_at"),
        sa.PrimaryKeyConstraint("id", name="pk_servetune_uploads"),
    )


def _create_audit() -> None:
    op.create_table(
        "servetune_audit",
        sa.Column("id", sa.Integer(), nullable=False),
        _moment("at"),
        _text("principal", 100),
        _text("action", 64),
        _text("subject", 255, nullable=True),
        _text("outcome", 32),
        sa.Column("detail", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_servetune_audit"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_servetune_audit_at", "servetune_audit", ["at"])


_MEASURED = sa.text(
    "SELECT t.id AS trial, m.document AS document FROM servetune_measurements m"
    " JOIN servetune_attempts a ON a.id = m.attempt_id"
    " JOIN servetune_trials t ON t.id = a.trial_id"
    " WHERE a.purpose = 'search' AND m.valid ORDER BY a.id"
)


def _summarise_trials() -> None:
    """Give every measured trial the summary that new ones are stored with."""
    connection = op.get_bind()
    trials = sa.table("servetune_trials", sa.column("id"), sa.column("summary", sa.JSON()))
    for found in connection.execute(_MEASURED).all():
        document = found.document
        summary = _summary(json.loads(document) if isinstance(document, str) else document)
        connection.execute(
            trials.update().where(trials.c.id == found.trial).values(summary=summary)
        )


def _classify_failures() -> None:
    """Copy the class out of each diagnosis; in Python, because a log line may hold a NUL."""
    connection = op.get_bind()
    trials = sa.table(
        "servetune_trials",
        sa.column("id"),
        sa.column("failure_class"),
        sa.column("diagnosis", sa.JSON()),
    )
    for identifier, diagnosis in connection.execute(sa.select(trials.c.id, trials.c.diagnosis)):
        if diagnosis is not None:
            change = trials.update().where(trials.c.id == identifier)
            connection.execute(change.values(failure_class=diagnosis["failure_class"]))


def _summary(measurement: dict[str, Any]) -> dict[str, Any]:
    """As `tuner.study.report.trial_summary` was when this migration was written."""
    latency, capacity = measurement["latency"], measurement["capacity"]
    engine, instrument = measurement["engine"], measurement["instrument"]
    return {
        "quantities": {
            **{
                f"{name}_{percentile}_ms": _percentile(latency[f"{name}_ms"], percentile)
                for name in ("ttft", "tpot", "itl", "e2e")
                for percentile in ("p50", "p95", "p99")
            },
            "output_tokens_per_s": _reading(capacity["output_tokens_per_s"]),
            "goodput_per_s": _reading(latency["goodput_per_s"]),
            "slo_attainment": _reading(latency["slo_attainment"]),
        },
        "preemptions_per_request": _worst(_preempted(latency, "scheduled"), _saturated(capacity)),
        "kv_usage_peak": _worst(latency["kv_usage_peak"], capacity["kv_usage_peak"]),
        "kv_cache_tokens": engine["kv_cache_tokens"],
        "gpu_utilization": latency.get("gpu_utilization"),
        "gpu_utilization_saturated": capacity.get("gpu_utilization"),
        "startup_s": engine["startup_s"],
        "engine_version": engine["version"],
        "applied": {
            "max-num-seqs": engine["max_num_seqs"],
            "max-num-batched-tokens": engine["max_num_batched_tokens"],
            "enable-chunked-prefill": engine["chunked_prefill"],
            "gpu-memory-utilization": engine["gpu_memory_utilization"],
        },
        "valid": instrument["valid"],
    }


def _percentile(distribution: dict[str, Any] | None, name: str) -> dict[str, Any] | None:
    if distribution is None:
        return None
    estimate = distribution[name]
    cut = distribution.get("censored", 0) > 0 and estimate["value"] >= distribution["max"]["value"]
    return _reading(estimate, censored=cut)


def _reading(estimate: dict[str, Any] | None, *, censored: bool = False) -> dict[str, Any] | None:
    if estimate is None:
        return None
    return {**{name: estimate.get(name) for name in ("value", "low", "high")}, "censored": censored}


def _saturated(capacity: dict[str, Any]) -> float | None:
    if capacity["preemptions"] == 0 and capacity["requests"]["unfinished"] > 0:
        return 0.0
    return _preempted(capacity, "completed")


def _preempted(segment: dict[str, Any], requests: str) -> float | None:
    preemptions, count = segment["preemptions"], segment["requests"][requests]
    return None if preemptions is None or not count else float(preemptions / count)


def _worst(*values: float | None) -> float | None:
    known = [value for value in values if value is not None]
    return max(known) if known else None
