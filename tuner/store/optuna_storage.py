"""Optuna's side of the database: its own tables, opened without creating or changing them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from optuna.exceptions import StorageInternalError
from optuna.storages import RDBStorage
from sqlalchemy.exc import SQLAlchemyError

from tuner.errors import DatabaseError, SchemaNotCurrentError
from tuner.store.database import LOCK_WAIT_S, postgres_connect_args
from tuner.store.failures import UPGRADE_HINT, operational_errors, translate
from tuner.store.url import DatabaseUrl


def optuna_storage(url: str | DatabaseUrl) -> RDBStorage:
    """Optuna's storage in a database whose schema is current.

    `tuner.store.schema.check` is to be called first, once per process: this does not create tables
    (concurrent first-time creation fails in Optuna). Raises DatabaseError or SchemaNotCurrentError.
    Close it with `close_optuna_storage`.
    """
    parsed = DatabaseUrl.parse(url) if isinstance(url, str) else url
    path = parsed.sqlite_path
    if path is not None and not path.exists():
        raise SchemaNotCurrentError("there is no database", where=str(parsed), hint=UPGRADE_HINT)
    with optuna_errors(parsed):
        try:
            return RDBStorage(
                storage_text(parsed),
                engine_kwargs=storage_engine_arguments(parsed),
                skip_table_creation=True,
            )
        except RuntimeError as error:
            raise SchemaNotCurrentError(
                "Optuna's tables are not those of the installed Optuna",
                where=str(parsed),
                hint=UPGRADE_HINT,
            ) from error


def close_optuna_storage(storage: RDBStorage) -> None:
    """Close the storage's connections."""
    storage.remove_session()
    storage.engine.dispose()


@contextmanager
def optuna_errors(url: str | DatabaseUrl) -> Iterator[None]:
    """Turn the database's refusals inside Optuna into ours (see `operational_errors`).

    Wrap calls of `ask`, `tell` and the like: Optuna wraps most of them in StorageInternalError.
    """
    parsed = DatabaseUrl.parse(url) if isinstance(url, str) else url
    with operational_errors(parsed):
        try:
            yield
        except StorageInternalError as error:
            cause = error.__cause__
            translated = translate(cause, parsed) if isinstance(cause, SQLAlchemyError) else None
            raise translated or DatabaseError(
                f"Optuna could not store: {parsed.masked(str(cause or error))}", where=str(parsed)
            ) from error


def storage_text(url: DatabaseUrl) -> str:
    """The URL as Optuna wants it: it passes it through `str.format`."""
    return url.text.replace("{", "{{").replace("}", "}}")


def storage_engine_arguments(url: DatabaseUrl) -> dict[str, Any]:
    """Engine arguments for Optuna that match `tuner.store.database`."""
    if url.sqlite_path is not None:
        # IMMEDIATE: take the write lock when a transaction begins, and wait for it; a deferred one
        # that finds a newer snapshot at its first write fails without waiting.
        arguments = {"timeout": LOCK_WAIT_S, "isolation_level": "IMMEDIATE"}
        return {"connect_args": arguments, "hide_parameters": True}
    return {
        "pool_pre_ping": True,
        "pool_size": 2,
        "connect_args": postgres_connect_args(url),
        "hide_parameters": True,
    }


@contextmanager
def optuna_logging_untouched() -> Iterator[None]:
    """Keep Optuna's migrations from configuring the process's logging.

    Its Alembic environment calls `logging.config.fileConfig` when the root logger has no handler,
    which disables every logger that exists.
    """
    root, silent = logging.getLogger(), logging.NullHandler()
    root.addHandler(silent)
    try:
        yield
    finally:
        root.removeHandler(silent)
