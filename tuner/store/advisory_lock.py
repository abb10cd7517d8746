"""PostgreSQL's advisory locks, held by a connection and freed when it ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

from sqlalchemy import Connection, create_engine, text
from sqlalchemy.pool import NullPool

from tuner.store.database import postgres_connect_args
from tuner.store.failures import operational_errors
from tuner.store.url import DatabaseUrl


class LockSpace(IntEnum):
    """First half of a lock's key; the second half is a study's id, or 0."""

    SCHEMA = 0x53545501
    STUDY = 0x53545502
    STUDY_NAMES = 0x53545503


class AdvisoryLockHeldError(Exception):
    """Another connection has the lock; `holder` is the application name it gave."""

    def __init__(self, holder: str | None) -> None:
        super().__init__(f"locked by {holder}")
        self.holder = holder


@contextmanager
def advisory_lock(
    url: DatabaseUrl, space: LockSpace, key: int, *, wait_s: float, holder: str
) -> Iterator[None]:
    """Hold the lock for the block, on a connection of its own called `holder`.

    Waits up to `wait_s` seconds when positive (DatabaseError after that); with 0 it raises
    AdvisoryLockHeldError at once.
    """
    arguments = {**postgres_connect_args(url), "application_name": holder[:63]}
    engine = create_engine(
        url.url, poolclass=NullPool, isolation_level="AUTOCOMMIT", connect_args=arguments
    )
    with operational_errors(url):
        connection = engine.connect()
    with connection:
        with operational_errors(url):
            _acquire(connection, space, key, wait_s)
        # Closing the connection frees the lock, also when the server has gone meanwhile.
        yield


def _acquire(connection: Connection, space: LockSpace, key: int, wait_s: float) -> None:
    numbers = {"space": int(space), "key": key}
    if wait_s > 0:
        connection.execute(text(f"SET lock_timeout = {int(wait_s * 1000)}"))
        connection.execute(text("SELECT pg_advisory_lock(:space, :key)"), numbers)
        return
    taken = connection.execute(text("SELECT pg_try_advisory_lock(:space, :key)"), numbers)
    if not taken.scalar_one():
        raise AdvisoryLockHeldError(_holder(connection, numbers))


def _holder(connection: Connection, numbers: dict[str, int]) -> str | None:
    query = text(
        "SELECT a.application_name FROM pg_locks l JOIN pg_stat_activity a USING (pid)"
        " WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 2"
        " AND l.classid = :space AND l.objid = :key"
        " AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    )
    return connection.execute(query, numbers).scalar()
