"""Where the database and the artefacts are unless told otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tuner.errors import DatabaseError
from tuner.store.url import DatabaseUrl

DATABASE_FILE = "servetune.db"
ARTIFACTS_FOLDER = "artifacts"


def state_directory(environ: Mapping[str, str], home: Path | None) -> Path:
    """`$XDG_STATE_HOME/servetune`, or `.local/state/servetune` under `home`.

    A relative `XDG_STATE_HOME` is ignored, as the XDG base directory specification demands.
    Raises DatabaseError where there is neither.
    """
    configured = Path(environ.get("XDG_STATE_HOME", ""))
    if configured.is_absolute():
        return configured / "servetune"
    if home is None:
        raise DatabaseError(
            "this user has no home directory to keep studies in",
            hint="name a directory with SERVETUNE_STATE_DIR or --state-dir",
        )
    return home / ".local" / "state" / "servetune"


def home_directory() -> Path | None:
    """The user's home; None where a container runs under a user id that nobody knows."""
    try:
        return Path.home()
    except RuntimeError:
        return None


def prepare_state_directory(directory: Path) -> Path:
    """Make the directory for its owner only; one that exists keeps its rights."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise DatabaseError(
            f"the state directory cannot be made ({error.strerror})",
            where=str(directory),
            hint="name another one with SERVETUNE_STATE_DIR",
        ) from error
    return directory


def default_database_url(directory: Path) -> DatabaseUrl:
    """The SQLite database of a state directory."""
    return DatabaseUrl.of_file(directory / DATABASE_FILE)


def default_artifacts_root(directory: Path) -> Path:
    """The artefacts of a state directory."""
    return directory / ARTIFACTS_FOLDER
