"""Studies, trials, attempts, measurements and events.

Revision ID: 0001
Revises:
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision: str = "0001"
down_revision: str | None = None
branch_labels: None = None
depends_on: None = None


def upgrade() -> None:
    _create_studies()
    _create_trials()
    _create_attempts()
    _create_measurements()
    _create_events()


def downgrade() -> None:
    for table in ("events", "measurements", "attempts", "trials", "studies"):
        op.drop_table(f"servetune_{table}")


def _optional_json(name: str) -> sa.Column[object]:
    return sa.Column(name, sa.JSON(none_as_null=True), nullable=True)


def _moment(name: str, *, nullable: bool = False) -> sa.Column[object]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=nullable)


def _create_studies() -> None:
    op.create_table(
        "servetune_studies",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("document", sa.JSON(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("phase", sa.String(16), nullable=False),
        sa.Column("optuna_study_name", sa.String(200), nullable=False),
        _optional_json("space"),
        _optional_json("calibration"),
        _optional_json("recommendation"),
        _optional_json("failure"),
        sa.Column("notices", sa.JSON(), nullable=False),
        sa.Column("next_event_seq", sa.Integer(), nullable=False),
        _moment("created_at"),
        _moment("updated_at"),
        _moment("started_at", nullable=True),
        _moment("ended_at", nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_servetune_studies"),
        sa.UniqueConstraint("name", "generation", name="uq_servetune_studies_name_generation"),
        sa.UniqueConstraint("optuna_study_name", name="uq_servetune_studies_optuna_study_name"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_servetune_studies_name_digest", "servetune_studies", ["name", "digest"])
    op.create_index("ix_servetune_studies_state", "servetune_studies", ["state"])


def _create_trials() -> None:
    op.create_table(
        "servetune_trials",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("study_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("optuna_number", sa.Integer(), nullable=True),
        sa.Column("origin", sa.String(24), nullable=False),
        _optional_json("coordinates"),
        sa.Column("config", sa.JSON(), nullable=False),
        sa.Column("config_digest", sa.String(16), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        _optional_json("diagnosis"),
        _optional_json("infeasibility"),
        _optional_json("score"),
        _optional_json("prediction"),
        _moment("created_at"),
        _moment("started_at", nullable=True),
        _moment("ended_at", nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_servetune_trials"),
        sa.ForeignKeyConstraint(
            ["study_id"],
            ["servetune_studies.id"],
            name="fk_servetune_trials_study_id",
            ondelete="CASCADE",
        ),
        sa.UniqueConstraint("study_id", "number", name="uq_servetune_trials_study_id_number"),
        sa.UniqueConstraint(
            "study_id", "optuna_number", name="uq_servetune_trials_study_id_optuna_number"
        ),
    )
    op.create_index(
        "ix_servetune_trials_study_id_config_digest",
        "servetune_trials",
        ["study_id", "config_digest"],
    )


def _create_attempts() -> None:
    op.create_table(
        "servetune_attempts",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("trial_id", sa.Integer(), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("purpose", sa.String(24), nullable=False),
        sa.Column("round", sa.Integer(), nullable=True),
        sa.Column("workload_seed", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("outcome", sa.String(16), nullable=False),
        sa.Column("host", sa.String(255), nullable=True),
        sa.Column("guard_pid", sa.Integer(), nullable=True),
        sa.Column("guard_start_ticks", sa.BigInteger(), nullable=True),
        sa.Column("engine_pid", sa.Integer(), nullable=True),
        sa.Column("engine_start_ticks", sa.BigInteger(), nullable=True),
        sa.Column("port", sa.Integer(), nullable=True),
        sa.Column("directory", sa.String(255), nullable=False),
        _optional_json("diagnosis"),
        _moment("started_at"),
        _moment("ended_at", nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_servetune_attempts"),
        sa.ForeignKeyConstraint(
            ["trial_id"],
            ["servetune_trials.id"],
            name="fk_servetune_attempts_trial_id",
            ondelete="CASCADE",
        ),
        sa.UniqueConstraint("trial_id", "ordinal", name="uq_servetune_attempts_trial_id_ordinal"),
    )
    op.create_index("ix_servetune_attempts_outcome", "servetune_attempts", ["outcome"])


def _create_measurements() -> None:
    op.create_table(
        "servetune_measurements",
        sa.Column("attempt_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("document", sa.JSON(), nullable=False),
        sa.Column("valid", sa.Boolean(), nullable=False),
        _moment("created_at"),
        sa.PrimaryKeyConstraint("attempt_id", name="pk_servetune_measurements"),
        sa.ForeignKeyConstraint(
            ["attempt_id"],
            ["servetune_attempts.id"],
            name="fk_servetune_measurements_attempt_id",
            ondelete="CASCADE",
        ),
    )


def _create_events() -> None:
    op.create_table(
        "servetune_events",
        sa.Column("study_id", sa.Integer(), nullable=False),
        sa.Column("seq", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("trial_number", sa.Integer(), nullable=True),
        sa.Column("payload", sa.JSON(), nullable=False),
        _moment("at"),
        sa.PrimaryKeyConstraint("study_id", "seq", name="pk_servetune_events"),
        sa.ForeignKeyConstraint(
            ["study_id"],
            ["servetune_studies.id"],
            name="fk_servetune_events_study_id",
            ondelete="CASCADE",
        ),
    )
