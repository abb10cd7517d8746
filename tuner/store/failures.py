"""What a database says when it cannot serve, in ServeTune's words."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError, SQLAlchemyError, StatementError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from tuner.errors import DatabaseError, SchemaNotCurrentError, ServeTuneError
from tuner.store.url import DatabaseUrl

UPGRADE_HINT = "run `servetune db upgrade`"
UPDATE_HINT = "update ServeTune, or use another database"

_RETRY_HINT = "the same command again continues where it stopped"
_SQLITE_PRIMARY_CODES = {
    sqlite3.SQLITE_BUSY: ("is locked by another process", _RETRY_HINT),
    sqlite3.SQLITE_LOCKED: ("is locked by another process", _RETRY_HINT),
    sqlite3.SQLITE_READONLY: ("is read-only", "give this user write access to file and folder"),
    sqlite3.SQLITE_FULL: ("cannot grow: the disk is full", f"free some space; {_RETRY_HINT}"),
    sqlite3.SQLITE_IOERR: ("cannot be read or written", "look at the disk and its free space"),
    sqlite3.SQLITE_CANTOPEN: (
        "cannot be opened",
        f"{UPGRADE_HINT} to create it; its folder must exist and be writable",
    ),
    sqlite3.SQLITE_PERM: ("may not be opened", "give this user access to file and folder"),
    sqlite3.SQLITE_AUTH: ("may not be opened", "give this user access to file and folder"),
    sqlite3.SQLITE_NOTADB: ("is not an SQLite database", "name another file"),
    sqlite3.SQLITE_CORRUPT: ("is damaged", "restore it from a backup"),
}
_POSTGRES_STATES = {
    "25006": ("is read-only", "connect to the primary server"),
    "53100": ("cannot grow: the server's disk is full", f"free some space; {_RETRY_HINT}"),
    "55P03": ("is locked by another process", _RETRY_HINT),
    "40P01": ("ended this transaction to resolve a deadlock", _RETRY_HINT),
    "40001": ("could not serialise this transaction", _RETRY_HINT),
    "42501": ("refuses this user", "grant it the rights on ServeTune's tables"),
    "57014": ("cancelled the statement", _RETRY_HINT),
}
_POSTGRES_CLASSES = {
    "08": ("is not reachable", f"start the server or correct the URL; {_RETRY_HINT}"),
    "28": ("refuses the login", "correct user and password in the URL"),
    "3D": ("does not exist", "create it, or correct its name in the URL"),
    "53": ("has no resources left", f"look at the server's limits; {_RETRY_HINT}"),
    "57": ("is shutting down or starting up", _RETRY_HINT),
    "58": ("reports a system error", "look at the server's log"),
    "XX": ("reports an internal error", "look at the server's log"),
}
_MISSING_SCHEMA_STATES = frozenset({"42P01", "42703", "3F000"})


@contextmanager
def operational_errors(url: DatabaseUrl) -> Iterator[None]:
    """Turn what the database refuses to do into DatabaseError or SchemaNotCurrentError.

    Errors that only a mistake in ServeTune can cause (a violated constraint, bad SQL) pass through;
    a value that JSON cannot carry (NaN, infinity) is the ValueError it was.
    """
    try:
        yield
    except SQLAlchemyError as error:
        translated = translate(error, url)
        if translated is None:
            raise
        raise translated from error
    except sqlite3.Error as error:
        refusal = _from_sqlite(error, url)
        if refusal is None:
            raise
        raise refusal from error


def translate(error: SQLAlchemyError, url: DatabaseUrl) -> ServeTuneError | ValueError | None:
    """The error to raise instead, or None when the original should go on."""
    if isinstance(error, PoolTimeoutError):
        return _database_error(url, ("gave no connection in time", _RETRY_HINT), error)
    if isinstance(error, StatementError) and isinstance(error.orig, ValueError):
        return ValueError(str(error.orig))
    if not isinstance(error, DBAPIError):
        return None
    if isinstance(error.orig, sqlite3.Error):
        return _from_sqlite(error.orig, url)
    return _from_postgres(error, url)


def _from_sqlite(cause: sqlite3.Error, url: DatabaseUrl) -> ServeTuneError | None:
    if str(cause).startswith(("no such table", "no such column")):
        return _schema_error(url)
    # The primary code is the low byte of an extended one.
    code = getattr(cause, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    known = _SQLITE_PRIMARY_CODES.get(code)
    return _database_error(url, known, cause) if known else None


def _from_postgres(error: DBAPIError, url: DatabaseUrl) -> ServeTuneError | None:
    cause = error.orig
    if cause is None:
        return None
    state = getattr(cause, "sqlstate", None)
    if state in _MISSING_SCHEMA_STATES:
        return _schema_error(url)
    if state is None and type(cause).__name__ not in ("OperationalError", "ConnectionTimeout"):
        return None
    # Without a state the connection was never made, or broke; the text tells which.
    known = (
        _connection_failure(str(cause))
        if state is None
        else _POSTGRES_STATES.get(state) or _POSTGRES_CLASSES.get(state[:2])
    )
    return _database_error(url, known, cause) if known else None


def _connection_failure(text: str) -> tuple[str, str]:
    if "authentication failed" in text or "no password supplied" in text:
        return _POSTGRES_CLASSES["28"]
    if "role" in text and "does not exist" in text:
        return _POSTGRES_CLASSES["28"]
    if "database" in text and "does not exist" in text:
        return _POSTGRES_CLASSES["3D"]
    return _POSTGRES_CLASSES["08"]


def _database_error(
    url: DatabaseUrl, known: tuple[str, str], cause: BaseException
) -> DatabaseError:
    what, hint = known
    detail = url.masked(" ".join(str(cause).split()))
    return DatabaseError(f"the database {what} ({detail})", where=str(url), hint=hint)


def _schema_error(url: DatabaseUrl) -> SchemaNotCurrentError:
    return SchemaNotCurrentError(
        "the database lacks tables of this version of ServeTune", where=str(url), hint=UPGRADE_HINT
    )
