"""What is asked of stored studies from the command line of a host that reaches their database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tuner.domain.clock import SystemClock
from tuner.domain.engine_config import EngineConfig
from tuner.domain.states import StudyRequest
from tuner.domain.study_spec import StudySpec
from tuner.store.artifacts import ArtifactStore
from tuner.store.database import open_database
from tuner.store.records import StudyRecord
from tuner.store.studies import CreatedStudy
from tuner.store.trials import AddedTrial
from tuner.store.unit_of_work import Store
from tuner.study.admission import require_tunable
from tuner.study.creation import create_study
from tuner.study.deletion import delete_study
from tuner.study.stored_study import base_dir_of, stored_spec
from tuner.study.target import baseline_config, target_of
from tuner.worker.locations import Locations, prepare, require_database

WHO = "command line"


def queue_study(
    spec: StudySpec, locations: Locations, *, base_dir: Path, new: bool = False
) -> CreatedStudy:
    """Store a study for a worker of this host; raises as `run_study` does before it runs."""
    require_tunable(spec, base_dir)
    prepare(locations)
    with _store(locations) as store:
        return create_study(spec, store, ArtifactStore(locations.artifacts), base_dir, new=new)


def stop_study(reference: str, request: StudyRequest, locations: Locations) -> StudyRecord:
    """Pause or cancel; the study as it stands after that, see `StudyRequests.stop`."""
    with _found(reference, locations) as (store, study), store.writing() as work:
        return work.requests.stop(study.id, request, by=WHO)


def remove_study(reference: str, locations: Locations) -> StudyRecord:
    """Delete a study with its files; what it was. Raises StudyStateError while it is driven."""
    with _found(reference, locations) as (store, study):
        delete_study(store, ArtifactStore(locations.artifacts), study.id)
        return study


def try_configuration(reference: str, flags: EngineConfig, locations: Locations) -> AddedTrial:
    """Queue these flags over the baseline's as the study's next trial.

    Raises StudyStateError when its search is over.
    """
    with _found(reference, locations) as (store, study):
        spec = stored_spec(study)
        target = target_of(spec, base_dir_of(ArtifactStore(locations.artifacts), study))
        config = baseline_config(spec, target).with_flags(flags.as_dict())
        with store.writing() as work:
            return work.trials.add_manual(study.id, config, WHO)


@contextmanager
def _store(locations: Locations) -> Iterator[Store]:
    with open_database(locations.database) as database:
        yield Store(database, SystemClock())


@contextmanager
def _found(reference: str, locations: Locations) -> Iterator[tuple[Store, StudyRecord]]:
    require_database(locations)
    with _store(locations) as store:
        with store.reading() as work:
            study = work.studies.find(reference)
        yield store, study
