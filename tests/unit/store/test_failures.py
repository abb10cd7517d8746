from __future__ import annotations

import sqlite3

import psycopg
import pytest
from psycopg import errors as pg
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError, StatementError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from tuner.errors import DatabaseError, SchemaNotCurrentError
from tuner.store.failures import operational_errors, translate
from tuner.store.url import DatabaseUrl

SQLITE = DatabaseUrl.parse("sqlite:////data/servetune.db")
POSTGRES = DatabaseUrl.parse("postgresql://ann:hunter2@host/tuning")


def sqlite_error(code: int, text: str = "refused") -> OperationalError:
    error = sqlite3.OperationalError(text)
    error.sqlite_errorcode = code
    return OperationalError("SELECT 1", {}, error)


def postgres_error(error: psycopg.Error) -> DBAPIError:
    return DBAPIError("SELECT 1", {}, error)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (sqlite3.SQLITE_BUSY, "locked"),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, "locked"),
        (sqlite3.SQLITE_READONLY, "read-only"),
        (sqlite3.SQLITE_READONLY_DIRECTORY, "read-only"),
        (sqlite3.SQLITE_FULL, "disk is full"),
        (sqlite3.SQLITE_IOERR_WRITE, "cannot be read or written"),
        (sqlite3.SQLITE_CANTOPEN, "cannot be opened"),
        (sqlite3.SQLITE_NOTADB, "not an SQLite database"),
        (sqlite3.SQLITE_CORRUPT, "damaged"),
    ],
)
def test_what_sqlite_refuses_is_named(code: int, expected: str) -> None:
    error = translate(sqlite_error(code), SQLITE)

    assert isinstance(error, DatabaseError)
    assert expected in error.message
    assert error.hint
    assert error.where == str(SQLITE)


@pytest.mark.parametrize(
    ("cause", "expected"),
    [
        (pg.ReadOnlySqlTransaction("x"), "read-only"),
        (pg.DiskFull("x"), "disk is full"),
        (pg.LockNotAvailable("x"), "locked"),
        (pg.DeadlockDetected("x"), "deadlock"),
        (pg.InsufficientPrivilege("x"), "refuses this user"),
        (pg.AdminShutdown("x"), "shutting down"),
        (pg.TooManyConnections("x"), "no resources"),
        (pg.ConnectionFailure("x"), "not reachable"),
        (pg.InvalidPassword("x"), "refuses the login"),
        (pg.InvalidCatalogName("x"), "does not exist"),
        (pg.InternalError_("x"), "internal error"),
        (psycopg.OperationalError("connection refused"), "not reachable"),
        (psycopg.OperationalError("the connection is closed"), "not reachable"),
        (psycopg.OperationalError('FATAL: role "ann" does not exist'), "refuses the login"),
        (psycopg.OperationalError('FATAL: database "t" does not exist'), "does not exist"),
        (psycopg.OperationalError("password authentication failed"), "refuses the login"),
    ],
)
def test_what_postgresql_refuses_is_named(cause: psycopg.Error, expected: str) -> None:
    error = translate(postgres_error(cause), POSTGRES)

    assert isinstance(error, DatabaseError)
    assert expected in error.message
    assert error.hint


@pytest.mark.parametrize(
    ("error", "url"),
    [
        (sqlite_error(sqlite3.SQLITE_ERROR, "no such table: servetune_studies"), SQLITE),
        (sqlite_error(sqlite3.SQLITE_ERROR, "no such column: phase"), SQLITE),
        (postgres_error(pg.UndefinedTable("x")), POSTGRES),
        (postgres_error(pg.UndefinedColumn("x")), POSTGRES),
    ],
)
def test_a_missing_table_asks_for_an_upgrade(error: DBAPIError, url: DatabaseUrl) -> None:
    translated = translate(error, url)

    assert isinstance(translated, SchemaNotCurrentError)
    assert "servetune db upgrade" in (translated.hint or "")


@pytest.mark.parametrize(
    ("error", "url"),
    [
        (sqlite_error(sqlite3.SQLITE_ERROR, "near SELEC: syntax error"), SQLITE),
        (IntegrityError("INSERT", {}, sqlite3.IntegrityError("UNIQUE")), SQLITE),
        (postgres_error(pg.SyntaxError("x")), POSTGRES),
        (postgres_error(pg.UniqueViolation("x")), POSTGRES),
        (postgres_error(psycopg.ProgrammingError("x")), POSTGRES),
    ],
)
def test_our_own_mistakes_pass_through(error: DBAPIError, url: DatabaseUrl) -> None:
    assert translate(error, url) is None
    with pytest.raises(DBAPIError) as caught, operational_errors(url):
        raise error
    assert caught.value is error


def test_an_exhausted_pool_is_a_database_error() -> None:
    error = translate(PoolTimeoutError("QueuePool limit"), POSTGRES)

    assert isinstance(error, DatabaseError)
    assert "no connection in time" in error.message


def test_a_value_json_cannot_carry_is_a_value_error() -> None:
    wrapped = StatementError("bind", "INSERT", {}, ValueError("Out of range float values"))

    with pytest.raises(ValueError, match="Out of range"), operational_errors(SQLITE):
        raise wrapped


def test_no_message_shows_the_password() -> None:
    cause = psycopg.OperationalError('connection to "ann:hunter2@host"\n  failed')

    with pytest.raises(DatabaseError) as caught, operational_errors(POSTGRES):
        raise postgres_error(cause)

    assert "hunter2" not in str(caught.value)
    assert "***" in str(caught.value)
    assert "\n  failed" not in caught.value.message


def test_a_raw_driver_error_is_translated_too() -> None:
    error = sqlite3.OperationalError("readonly")
    error.sqlite_errorcode = sqlite3.SQLITE_READONLY

    with pytest.raises(DatabaseError, match="read-only"), operational_errors(SQLITE):
        raise error


def test_a_raw_error_of_our_own_making_passes_through() -> None:
    with pytest.raises(sqlite3.ProgrammingError), operational_errors(SQLITE):
        raise sqlite3.ProgrammingError("closed")


def test_other_errors_are_none_of_its_business() -> None:
    with pytest.raises(KeyError), operational_errors(SQLITE):
        raise KeyError("x")
