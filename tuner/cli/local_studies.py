"""Studies in a database that this process can reach."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tuner.cli import studies as stored
from tuner.cli.event_lines import print_event, watched_to_the_end
from tuner.cli.measuring import parse_flags, refuse
from tuner.cli.output import OutputFormat, notice
from tuner.cli.study_file import read_study
from tuner.domain.clock import SystemClock
from tuner.domain.states import StudyRequest
from tuner.settings import Settings
from tuner.store.database import open_database
from tuner.store.unit_of_work import Store
from tuner.worker.locations import require_database, resolve_locations
from tuner.worker.studies import try_configuration

POLL_S = 0.5


class LocalStudies:
    """`StudyAccess` on a database."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def create(self, document: Path, output: OutputFormat, *, new: bool) -> None:
        """Store the study in this file and leave it to a worker."""
        spec = read_study(document)
        stored.create(spec, document.resolve().parent, self._settings, output, new=new)

    def list(self, output: OutputFormat) -> None:
        """Print every study."""
        stored.list_all(self._settings, output)

    def show(self, reference: str, output: OutputFormat) -> None:
        """Print one study's report."""
        stored.show(reference, self._settings, output)

    def resume(self, reference: str, output: OutputFormat, *, queue: bool) -> int:
        """Drive the study here and now, or leave it to a worker; returns the exit code."""
        if not queue:
            return stored.resume(reference, self._settings, output)
        with self._store() as store, store.writing() as work:
            study = work.requests.resume(work.studies.find(reference).id)
        notice(f"{study.reference} is {study.state.value}")
        return 0

    def attempt(self, reference: str, flags: tuple[str, ...]) -> None:
        """Have these flags over the baseline's measured next."""
        given = parse_flags(flags)
        refuse(given)
        added = try_configuration(reference, given, resolve_locations(self._settings))
        notice(queued(added.trial.number, added.trial.state.value, added=added.added))

    def watch(self, reference: str, after: int, output: OutputFormat) -> int:
        """Print events until the study ends; returns the exit code."""
        with self._store() as store:
            with store.reading() as work:
                study = work.studies.find(reference)
            while True:
                for event in store.events_after(study.id, after):
                    after = event.seq
                    print_event(event, output)
                with store.reading() as work:
                    study = work.studies.get(study.id)
                if study.state.terminal and after >= study.last_event_seq:
                    return watched_to_the_end(study.state.value, study.recommendation)
                time.sleep(POLL_S)

    def stop(self, reference: str, request: str) -> None:
        """Ask for `pause` or `cancel`."""
        with self._store() as store, store.writing() as work:
            study = work.studies.find(reference)
            record = work.requests.stop(study.id, StudyRequest(request))
        notice(stopping(record.reference, record.state.value, record.requested is not None))

    def delete(self, reference: str) -> None:
        """Delete a study with its files."""
        stored.delete(reference, self._settings)
        notice(f"{reference} is deleted")

    @contextmanager
    def _store(self) -> Iterator[Store]:
        locations = resolve_locations(self._settings)
        require_database(locations)
        with open_database(locations.database) as database:
            yield Store(database, SystemClock())


def queued(number: int, state: str, *, added: bool) -> str:
    """What became of a configuration somebody wants tried, in a sentence."""
    if added:
        return f"trial {number} is measured next"
    return f"trial {number} has this configuration already; it is {state}"


def stopping(reference: str, state: str, requested: bool) -> str:
    """What was achieved by asking, in a sentence."""
    if requested:
        return f"{reference}: asked for; its worker stops the engine within seconds"
    return f"{reference} is {state}"
