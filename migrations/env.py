"""Runs ServeTune's migrations on the connection that `tuner.store.schema` hands over.

Optuna's tables and its `alembic_version` live in the same database: ours is another version table,
and nothing but our own tables is ever compared or dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from alembic import context
from sqlalchemy import Connection

from tuner.store.column_types import UtcDateTime
from tuner.store.models import Base
from tuner.store.schema import VERSION_TABLE


def _is_ours(name: str | None, kind: str, _parents: Mapping[Any, str | None]) -> bool:
    return name in Base.metadata.tables if kind == "table" else True


def _render(kind: str, item: object, _context: object) -> str | Literal[False]:
    # A migration must not change with the code: plain SQLAlchemy types only.
    if kind == "type" and isinstance(item, UtcDateTime):
        return "sa.DateTime(timezone=True)"
    return False


def _run() -> None:
    connection = context.config.attributes.get("connection")
    if not isinstance(connection, Connection):
        raise RuntimeError("migrations run through tuner.store.schema, which holds the lock")
    context.configure(
        connection=connection,
        target_metadata=Base.metadata,
        version_table=VERSION_TABLE,
        include_name=_is_ours,
        render_item=_render,
        render_as_batch=connection.dialect.name == "sqlite",
    )
    with context.begin_transaction():
        context.run_migrations()


_run()
