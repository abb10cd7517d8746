"""Optuna's side of the database: its own tables, opened without creating or changing them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from optuna.exceptions import StorageInternalError
from optuna.storages import RDBStorage
from sqlalchemy import event, inspect
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from tuner.errors import DatabaseError, SchemaNotCurrentError
from tuner.store.database import LOCK_WAIT_S, create_database_engine, postgres_connect_args
from tuner.store.failures import UPDATE_HINT, UPGRADE_HINT, operational_errors, translate
from tuner.store.url import DatabaseUrl


def optuna_storage(url: str | DatabaseUrl) -> RDBStorage:
    """Optuna's storage in a database whose schema is current; close it with `close_optuna_storage`.

    Creates no table: concurrent first-time creation fails in Optuna, so that is left to
    `tuner.store.schema.upgrade`. Raises DatabaseError or SchemaNotCurrentError.
    """
    parsed = DatabaseUrl.parse(url) if isinstance(url, str) else url
    _require_tables(parsed)
    with optuna_errors(parsed):
        storage = RDBStorage(
            _storage_text(parsed),
            engine_kwargs=_engine_arguments(parsed),
            skip_compatibility_check=True,
            skip_table_creation=True,
        )
        try:
            _require_current(parsed, storage)
            if parsed.sqlite_path is not None:
                _sync_with_our_commits(storage)
        except BaseException:
            close_optuna_storage(storage)
            raise
    return storage


def _sync_with_our_commits(storage: RDBStorage) -> None:
    """Spare Optuna's dozen commits per trial the wait for the disk, in WAL mode.

    A power cut then loses the last of them, never one before another: both sides write one log,
    and each of our commits (`synchronous = FULL`) flushes all that stands before it. So whatever
    our ledger knows of a trial, Optuna's still has, and what may be lost is what `reconcile` mends.
    """

    def relax(connection: Any, _record: object) -> None:
        if connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal":
            connection.execute("PRAGMA synchronous = NORMAL")

    storage.engine.dispose()  # Connections opened before would not hear of it.
    event.listen(storage.engine, "connect", relax)


def upgrade_optuna(url: DatabaseUrl) -> None:
    """Create or upgrade Optuna's tables, under the lock of `tuner.store.schema.upgrade`."""
    with optuna_errors(url):
        storage = RDBStorage(
            _storage_text(url),
            # No pool: nothing stays open when the constructor fails.
            engine_kwargs={**_engine_arguments(url), "poolclass": NullPool},
            skip_compatibility_check=True,
        )
        try:
            current = storage.get_current_version()
            if current == storage.get_head_version():
                return
            _refuse_newer(url, storage, current)
            with _logging_untouched():
                storage.upgrade()
        finally:
            close_optuna_storage(storage)


def close_optuna_storage(storage: RDBStorage) -> None:
    """Close the storage's connections."""
    storage.remove_session()
    storage.engine.dispose()


def forget_optuna_study(url: str | DatabaseUrl, name: str) -> None:
    """Delete Optuna's study of this name; nothing happens where there is none."""
    parsed = DatabaseUrl.parse(url) if isinstance(url, str) else url
    storage = optuna_storage(parsed)
    try:
        with optuna_errors(parsed), suppress(KeyError):
            storage.delete_study(storage.get_study_id_from_name(name))
    finally:
        close_optuna_storage(storage)


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


def _require_tables(url: DatabaseUrl) -> None:
    path = url.sqlite_path
    if path is not None and not path.exists():
        raise _not_current(url, "there is no database yet", UPGRADE_HINT)
    engine = create_database_engine(url)
    try:
        with operational_errors(url), engine.connect() as connection:
            tables = set(inspect(connection).get_table_names())
    finally:
        engine.dispose()
    if not {"alembic_version", "version_info"} <= tables:
        raise _not_current(url, "Optuna's tables are missing", UPGRADE_HINT)


def _require_current(url: DatabaseUrl, storage: RDBStorage) -> None:
    current = storage.get_current_version()
    if current != storage.get_head_version():
        _refuse_newer(url, storage, current)
        raise _not_current(
            url, f"Optuna's tables are of an older version ({current})", UPGRADE_HINT
        )


def _refuse_newer(url: DatabaseUrl, storage: RDBStorage, current: str) -> None:
    if current not in storage.get_all_versions():
        raise _not_current(url, f"Optuna's tables are of a newer version ({current})", UPDATE_HINT)


def _not_current(url: DatabaseUrl, message: str, hint: str) -> SchemaNotCurrentError:
    return SchemaNotCurrentError(message, where=str(url), hint=hint)


def _storage_text(url: DatabaseUrl) -> str:
    """The URL as Optuna wants it: it passes it through `str.format`."""
    return url.text.replace("{", "{{").replace("}", "}}")


def _engine_arguments(url: DatabaseUrl) -> dict[str, Any]:
    """Engine arguments for Optuna that match `tuner.store.database`."""
    if url.sqlite_path is not None:
        # IMMEDIATE: take the write lock when a transaction begins, and wait for it; a deferred one
        # that finds a newer snapshot at its first write fails without waiting.
        arguments = {"timeout": LOCK_WAIT_S, "isolation_level": "IMMEDIATE"}
        return {"connect_args": arguments, "hide_parameters": True}
    return {
        "pool_pre_ping": True,
        "connect_args": postgres_connect_args(url),
        "hide_parameters": True,
    }


@contextmanager
def _logging_untouched() -> Iterator[None]:
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
