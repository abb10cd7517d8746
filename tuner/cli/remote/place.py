"""Whether a command is for a database here or for a service, as its options say."""

from __future__ import annotations

from pathlib import Path

from tuner.errors import InvalidInputError
from tuner.settings import Settings


def is_remote(settings: Settings, database_url: str | None, state_dir: Path | None) -> bool:
    """Whether to ask a service: a place named on the command line beats a configured server."""
    return bool(settings.server) and database_url is None and state_dir is None


def required_file(study: Path | None, from_command: str | None) -> Path:
    """The document's file; InvalidInputError for what a service would not take."""
    if from_command is not None:
        raise InvalidInputError(
            "--from-command names things on this host, which a service does not take",
            hint="name an engine profile in a study document",
        )
    if study is None:
        raise InvalidInputError("no study", hint="name a study document")
    return study
