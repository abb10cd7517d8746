"""Where the commands' studies are: in a database here, or behind a service's API."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from tuner.cli.output import OutputFormat
from tuner.cli.remote.place import is_remote
from tuner.errors import InvalidInputError
from tuner.settings import load_settings


class StudyAccess(Protocol):
    """What the commands do with studies; each method prints and may raise ServeTuneError."""

    def create(self, document: Path, output: OutputFormat, *, new: bool) -> None:
        """Store the study in this file and leave it to a worker."""

    def list(self, output: OutputFormat) -> None:
        """Print every study."""

    def show(self, reference: str, output: OutputFormat) -> None:
        """Print one study's report."""

    def watch(self, reference: str, after: int, output: OutputFormat) -> int:
        """Print events until the study ends; returns the exit code."""

    def resume(self, reference: str, output: OutputFormat, *, queue: bool) -> int:
        """Go on with a study, here or by a worker; returns the exit code."""

    def attempt(self, reference: str, flags: tuple[str, ...]) -> None:
        """Have these flags over the baseline's measured next."""

    def stop(self, reference: str, request: str) -> None:
        """Ask for `pause` or `cancel`."""

    def delete(self, reference: str) -> None:
        """Delete a study."""


@contextmanager
def study_access(
    server: str | None, database_url: str | None, state_dir: Path | None
) -> Iterator[StudyAccess]:
    """The studies that the options, the environment or the configuration file point to."""
    settings = load_settings(database_url=database_url, state_dir=state_dir, server=server)
    if server is not None and (database_url is not None or state_dir is not None):
        raise InvalidInputError("--server excludes --database-url and --state-dir")
    if is_remote(settings, database_url, state_dir):
        from tuner.cli.remote.studies import remote_studies

        with remote_studies(settings) as remote:
            yield remote
    else:
        from tuner.cli.local_studies import LocalStudies

        yield LocalStudies(settings)
