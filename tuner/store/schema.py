"""The schema of both ledgers in one database: created, upgraded and checked.

Only `upgrade` changes anything, under a lock that all processes share; everything else calls
`check` and refuses to start when it is told to.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util.exc import CommandError
from sqlalchemy import Connection, text

import tuner
from tuner.errors import DatabaseError, SchemaNotCurrentError
from tuner.store.advisory_lock import LockSpace, advisory_lock
from tuner.store.database import connect_sqlite, create_database_engine
from tuner.store.failures import UPDATE_HINT, UPGRADE_HINT, operational_errors
from tuner.store.file_lock import LockHeldError, file_lock
from tuner.store.optuna_storage import close_optuna_storage, optuna_storage, upgrade_optuna
from tuner.store.url import DatabaseUrl

VERSION_TABLE = "servetune_alembic_version"
"""Not Alembic's default `alembic_version`: that one is Optuna's."""

UPGRADE_WAIT_S = 300.0


def migrations_path() -> Path:
    """The migrations: inside the package in a wheel, at the root of a checkout."""
    package = Path(tuner.__file__).parent
    shipped = package / "_migrations"
    return shipped if shipped.is_dir() else package.parent / "migrations"


def upgrade(url: str | DatabaseUrl) -> None:
    """Bring Optuna's and ServeTune's tables to this version, creating what is missing.

    Any number of processes may call it at once. Raises DatabaseError, or SchemaNotCurrentError
    when a newer version has been here.
    """
    parsed = DatabaseUrl.parse(url) if isinstance(url, str) else url
    with _upgrade_lock(parsed):
        _upgrade(parsed)


def create_if_missing(path: Path) -> None:
    """Make this SQLite database unless it exists: whole or, when killed on the way, not at all.

    Any number of processes may call it at once. Raises DatabaseError.
    """
    url = DatabaseUrl.of_file(path)
    with _upgrade_lock(url):
        if path.exists():
            return
        draft = path.with_name(f"{path.name}.new")
        for suffix in ("", "-wal", "-shm", "-journal"):
            draft.with_name(draft.name + suffix).unlink(missing_ok=True)
        _upgrade(DatabaseUrl.of_file(draft))
        draft.rename(path)


def _upgrade(url: DatabaseUrl) -> None:
    if url.sqlite_path is not None:
        _prepare_sqlite_file(url, url.sqlite_path)
    upgrade_optuna(url)
    with migration_connection(url) as connection, _newer_revisions_refused(url):
        command.upgrade(migration_config(connection), "head")


def check(url: str | DatabaseUrl) -> None:
    """Raise SchemaNotCurrentError unless both schemas are this version's; changes nothing."""
    parsed = DatabaseUrl.parse(url) if isinstance(url, str) else url
    path = parsed.sqlite_path
    if path is not None and not path.exists():
        raise _not_current(parsed, "there is no database yet", UPGRADE_HINT)
    engine = create_database_engine(parsed)
    try:
        with operational_errors(parsed), engine.connect() as connection:
            _check_ours(parsed, connection)
    finally:
        engine.dispose()
    close_optuna_storage(optuna_storage(parsed))


@contextmanager
def migration_connection(url: str | DatabaseUrl) -> Iterator[Connection]:
    """A connection in one transaction for the whole of a migration.

    On SQLite without foreign keys, because a table is changed by copying it and dropping the
    original, which would cascade; they are checked before the commit instead.
    """
    parsed = DatabaseUrl.parse(url) if isinstance(url, str) else url
    engine = create_database_engine(parsed, foreign_keys=False)
    try:
        with operational_errors(parsed), engine.begin() as connection:
            yield connection
            if parsed.sqlite_path is not None:
                broken = connection.execute(text("PRAGMA foreign_key_check")).first()
                if broken is not None:
                    raise DatabaseError(
                        f"the migration would leave rows without their parents: {tuple(broken)}",
                        where=str(parsed),
                    )
    finally:
        engine.dispose()


def migration_config(connection: Connection) -> Config:
    """Alembic's configuration for our migrations on this connection."""
    config = Config()
    config.set_main_option("script_location", str(migrations_path()).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


@contextmanager
def _upgrade_lock(url: DatabaseUrl) -> Iterator[None]:
    path = url.sqlite_path
    if path is None:
        holder = f"servetune db upgrade pid {os.getpid()}"
        with advisory_lock(url, LockSpace.SCHEMA, 0, wait_s=UPGRADE_WAIT_S, holder=holder):
            yield
        return
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with file_lock(path.with_name(f"{path.name}.upgrade.lock"), wait_s=UPGRADE_WAIT_S):
            yield
    except LockHeldError as error:
        raise DatabaseError(
            f"process {error.holder_pid or '?'} has been upgrading for {UPGRADE_WAIT_S:.0f} s",
            where=str(url),
        ) from error
    except OSError as error:
        raise DatabaseError(
            f"the database's folder cannot be used ({error.strerror})",
            where=str(path.parent),
            hint="create it with write access for this user, or name another database",
        ) from error


def _prepare_sqlite_file(url: DatabaseUrl, path: Path) -> None:
    """Create the file for its owner only, in WAL mode (which the file remembers)."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    with operational_errors(url), closing(connect_sqlite(path)) as connection:
        (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
        if mode != "wal":
            connection.execute("PRAGMA journal_mode = WAL")


def _check_ours(url: DatabaseUrl, connection: Connection) -> None:
    context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
    current = context.get_current_revision()
    scripts = ScriptDirectory.from_config(migration_config(connection))
    if current == scripts.get_current_head():
        return
    if current is None:
        raise _not_current(url, "the database has no ServeTune tables yet", UPGRADE_HINT)
    known = {script.revision for script in scripts.walk_revisions()}
    newer = current not in known
    raise _not_current(
        url,
        f"ServeTune's tables are of {'a newer' if newer else 'an older'} version ({current})",
        UPDATE_HINT if newer else UPGRADE_HINT,
    )


@contextmanager
def _newer_revisions_refused(url: DatabaseUrl) -> Iterator[None]:
    try:
        yield
    except CommandError as error:
        raise _not_current(
            url, f"ServeTune's tables are of a newer version ({error})", UPDATE_HINT
        ) from error


def _not_current(url: DatabaseUrl, message: str, hint: str) -> SchemaNotCurrentError:
    return SchemaNotCurrentError(message, where=str(url), hint=hint)
