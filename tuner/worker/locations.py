"""Where this process keeps studies: database and artefacts."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tuner.engine.host_lock import lock_directory
from tuner.errors import SchemaNotCurrentError, ServeTuneError
from tuner.settings import Settings
from tuner.store.location import (
    default_artifacts_root,
    default_database_url,
    home_directory,
    prepare_state_directory,
    state_directory,
)
from tuner.store.schema import check, create_if_missing
from tuner.store.url import DatabaseUrl


@dataclass(frozen=True, slots=True)
class Locations:
    """The database, and the directory for everything that is not in it."""

    database: DatabaseUrl
    state_dir: Path

    @property
    def artifacts(self) -> Path:
        return default_artifacts_root(self.state_dir)

    @property
    def gpu_locks(self) -> Path:
        """Not in the state directory where it can be avoided: GPUs belong to the host, whichever
        database a study is in and whoever runs it.
        """
        return lock_directory(fallback=self.state_dir / "gpu-locks")


@dataclass(frozen=True, slots=True)
class DatabaseStatus:
    """Whether studies can be kept, in words."""

    usable: bool
    description: str
    hint: str | None = None


def resolve_locations(settings: Settings) -> Locations:
    """The settings' places, or the XDG state directory's; touches nothing.

    Raises DatabaseError for a URL that cannot be read.
    """
    directory = settings.state_dir or state_directory(os.environ, home_directory())
    if settings.database_url is None:
        return Locations(default_database_url(directory), directory)
    return Locations(DatabaseUrl.parse(settings.database_url), directory)


def database_status(settings: Settings) -> DatabaseStatus:
    """Look at the database without changing it; the first study makes a missing SQLite file."""
    try:
        database = resolve_locations(settings).database
        path = database.sqlite_path
        if path is not None and not path.exists():
            return DatabaseStatus(True, f"{database} will be made by the first study")
        check(database)
    except ServeTuneError as error:
        return DatabaseStatus(False, error.message, error.hint)
    return DatabaseStatus(True, f"{database} is current")


def prepare(locations: Locations) -> None:
    """Make sure studies can be kept; an SQLite database that does not exist yet is created.

    Raises DatabaseError, or SchemaNotCurrentError: an existing database is never changed here.
    """
    prepare_state_directory(locations.state_dir)
    path = locations.database.sqlite_path
    if path is not None and not path.exists():
        create_if_missing(path)
    check(locations.database)


def require_database(locations: Locations) -> None:
    """Raise SchemaNotCurrentError or DatabaseError unless there is a current database."""
    path = locations.database.sqlite_path
    if path is not None and not path.exists():
        raise SchemaNotCurrentError(
            "there is no database yet", where=str(locations.database), hint="run a study first"
        )
    check(locations.database)
