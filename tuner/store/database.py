"""Connections and transactions on SQLite and PostgreSQL."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.orm import Session, sessionmaker

from tuner.store.failures import operational_errors
from tuner.store.url import DatabaseUrl

LOCK_WAIT_S = 30.0
"""How long a transaction waits for another one's lock before it gives up."""

CONNECT_TIMEOUT_S = 10

_WRITES = "servetune_writes"

# ASCII only: the escapes carry what a log line may hold and PostgreSQL's text type refuses (NUL,
# lone surrogates). NaN and infinity are refused: a reader would take them for numbers.
_to_json = partial(json.dumps, allow_nan=False, separators=(",", ":"))


class Database:
    """One database: read sessions on a consistent snapshot, write transactions one at a time.

    `transaction` takes SQLite's write lock at its start (`BEGIN IMMEDIATE`), so that it can never
    fail half-way for want of it; on PostgreSQL writers are put in order by the study's row lock.
    """

    def __init__(self, url: DatabaseUrl, engine: Engine) -> None:
        self._url = url
        self._engine = engine
        self._readers = sessionmaker(_read_only(engine), expire_on_commit=False)
        writable = engine.execution_options(**{_WRITES: True})
        self._writers = sessionmaker(writable, expire_on_commit=False)

    @property
    def url(self) -> DatabaseUrl:
        return self._url

    @property
    def engine(self) -> Engine:
        return self._engine

    @contextmanager
    def session(self) -> Iterator[Session]:
        """A read-only session that sees one snapshot; raises DatabaseError."""
        with operational_errors(self._url), self._readers() as session:
            yield session

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        """A session that is committed at the end and rolled back on any error.

        Raises DatabaseError; when that comes from the commit itself on PostgreSQL, whether the
        commit happened is unknown and the caller has to read again.
        """
        with operational_errors(self._url), self._writers.begin() as session:
            # Begins here and now, not at the first statement.
            session.connection()
            yield session

    def close(self) -> None:
        """Close every connection; the object may be used again and then reconnects."""
        self._engine.dispose()

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def open_database(url: str | DatabaseUrl) -> Database:
    """A database by URL, without connecting yet; raises DatabaseError for an unusable URL.

    An SQLite file is never created here: that is what `tuner.store.schema.upgrade` is for.
    """
    parsed = DatabaseUrl.parse(url) if isinstance(url, str) else url
    return Database(parsed, create_database_engine(parsed))


def require_writable(session: Session) -> None:
    """RuntimeError in a session that `transaction` did not open: what it wrote would be lost."""
    if not session.connection().get_execution_options().get(_WRITES, False):
        raise RuntimeError("a write needs Database.transaction, not Database.session")


def create_database_engine(url: DatabaseUrl, *, foreign_keys: bool = True) -> Engine:
    """The engine behind `open_database`; migrations of SQLite need it without foreign keys."""
    path = url.sqlite_path
    if path is None:
        return _postgres_engine(url)
    engine = create_engine(
        url.url,
        creator=partial(connect_sqlite, path, foreign_keys=foreign_keys),
        json_serializer=_to_json,
        hide_parameters=True,
    )
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def connect_sqlite(path: Path, *, foreign_keys: bool = True) -> sqlite3.Connection:
    """A raw connection to an existing file, in the driver's autocommit mode."""
    connection = sqlite3.connect(
        f"file:{quote(str(path))}?mode=rw",
        uri=True,
        timeout=LOCK_WAIT_S,
        # No BEGIN by the driver: `_begin_sqlite` says which kind.
        isolation_level=None,
        check_same_thread=False,
    )
    connection.execute(f"PRAGMA foreign_keys = {'ON' if foreign_keys else 'OFF'}")
    # FULL, not NORMAL: in WAL mode NORMAL may lose the last commits in a power cut. A study commits
    # a few times a minute, so the fsync of each costs nothing that matters.
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get(_WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN DEFERRED")


def _postgres_engine(url: DatabaseUrl) -> Engine:
    engine = create_engine(
        url.url,
        json_serializer=_to_json,
        hide_parameters=True,
        pool_pre_ping=True,
        connect_args=postgres_connect_args(url),
    )
    event.listen(engine, "connect", _limit_lock_waits)
    return engine


def postgres_connect_args(url: DatabaseUrl) -> dict[str, Any]:
    """Driver arguments that the URL does not already set."""
    defaults = {"connect_timeout": CONNECT_TIMEOUT_S, "application_name": "servetune"}
    return {name: value for name, value in defaults.items() if name not in url.url.query}


def _limit_lock_waits(connection: Any, _record: object) -> None:
    # Set on the connection, not as a start-up option: connection poolers refuse those.
    connection.execute(f"SET lock_timeout = {int(LOCK_WAIT_S * 1000)}")
    connection.commit()


def _read_only(engine: Engine) -> Engine:
    if engine.dialect.name == "sqlite":
        return engine
    return engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
