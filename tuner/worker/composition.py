"""The composition root: everything a study needs, built from the settings' places."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tuner.domain.cancellation import Cancellation
from tuner.domain.clock import Clock, SystemClock
from tuner.domain.document import study_digest
from tuner.domain.engine_config import EngineConfig
from tuner.domain.states import StudyState
from tuner.domain.study_spec import StudySpec
from tuner.errors import AlreadyDrivenError
from tuner.settings import Settings
from tuner.store.artifacts import ArtifactStore
from tuner.store.database import open_database
from tuner.store.leases import LEASE_S, Claim
from tuner.store.location import prepare_state_directory
from tuner.store.records import StudyRecord
from tuner.store.schema import upgrade
from tuner.store.unit_of_work import Store, Work
from tuner.store.workers import WorkerIdentity
from tuner.study.admission import require_measurable, require_tunable
from tuner.study.checkpoints import Checkpoint, no_checkpoint
from tuner.study.engine_version import KnownEngine, known_engine
from tuner.study.ledger import History, StudyLedger
from tuner.study.patience import LONGEST_S
from tuner.study.plan import StudyPlan, plan_study
from tuner.study.progress import Observer, SilentObserver
from tuner.study.stored_study import (
    RecommendedCommand,
    base_dir_of,
    default_name,
    note_base_dir,
    stored_spec,
)
from tuner.study.stored_study import recommended_command as recommended
from tuner.worker.daemon import Worker
from tuner.worker.driver import ExecutorFactory, Means, StudyDriver
from tuner.worker.equipment import local_executor
from tuner.worker.identity import described, enlisted, leases_of_the_dead
from tuner.worker.local_executor import visible_gpus
from tuner.worker.locations import (
    DatabaseStatus,
    Locations,
    database_status,
    prepare,
    require_database,
    resolve_locations,
)
from tuner.worker.metrics import WorkerMetrics
from tuner.worker.single_measurement import SingleMeasurement, measure_once

__all__ = [
    "DatabaseStatus",
    "Locations",
    "RecommendedCommand",
    "Settings",
    "SingleMeasurement",
    "StudyPlan",
    "database_status",
    "list_studies",
    "load_history",
    "measure",
    "open_worker",
    "plan",
    "recommended_command",
    "resolve_locations",
    "resume_study",
    "run_study",
    "upgrade_database",
]


def run_study(
    spec: StudySpec,
    locations: Locations,
    *,
    base_dir: Path,
    observer: Observer | None = None,
    cancellation: Cancellation | None = None,
    new: bool = False,
    checkpoint: Checkpoint = no_checkpoint,
    executor_of: ExecutorFactory = local_executor,
) -> History:
    """Run the study of this document to its end, or go on with the one that was interrupted.

    `base_dir` is what the document's relative paths are relative to. An SQLite database that does
    not exist is created. Raises StudyChangedError (same name, other document, not `new`),
    StartupError (another process drives it, no database), CancelledError (it rests as its user
    wants), LeaseLostError (another worker took it over), StudyFailedError. A finished study is
    returned as it is.
    """
    known = known_engine(spec, base_dir, locations.state_dir)
    require_tunable(spec, base_dir, known.version)  # before anything is stored
    prepare(locations)
    clock = SystemClock()

    def submitted(work: Work) -> StudyRecord:
        return _create(spec, work, new=new)

    with _store(locations, clock) as store, enlisted(store) as me:
        study, claim = _claimed(store, me, submitted)
        artifacts = ArtifactStore(locations.artifacts)
        if not artifacts.names(f"study-{study.id}"):
            note_base_dir(artifacts, study, base_dir)
        if claim is None:
            return _history(store, study.id)
        means = Means(store, locations, clock, checkpoint, executor_of, LONGEST_S)
        driver = StudyDriver(
            means,
            claim,
            spec,
            base_dir,
            known,
            observer or SilentObserver(),
            cancellation or Cancellation(),
            StudyState.PAUSED,
        )
        return driver.drive(study)


def resume_study(
    reference: str,
    locations: Locations,
    *,
    observer: Observer | None = None,
    cancellation: Cancellation | None = None,
) -> History:
    """Go on with a stored study by its name, `name@generation` or id; raises as `run_study`."""
    require_database(locations)
    clock = SystemClock()
    with _store(locations, clock) as store, enlisted(store) as me:
        with store.reading() as work:
            study = work.studies.find(reference)
        spec, base_dir = stored_spec(study), base_dir_of(ArtifactStore(locations.artifacts), study)
        known = KnownEngine()
        if not study.state.terminal:
            known = known_engine(spec, base_dir, locations.state_dir)
            require_tunable(spec, base_dir, known.version)
        study, claim = _claimed(store, me, lambda work: work.studies.get(study.id))
        if claim is None:
            return _history(store, study.id)
        means = Means(store, locations, clock, no_checkpoint, local_executor, LONGEST_S)
        driver = StudyDriver(
            means,
            claim,
            spec,
            base_dir,
            known,
            observer or SilentObserver(),
            cancellation or Cancellation(),
            StudyState.PAUSED,
        )
        return driver.drive(study)


def _claimed(
    store: Store, me: WorkerIdentity, found: Callable[[Work], StudyRecord]
) -> tuple[StudyRecord, Claim | None]:
    """The study, claimed in the commit that found or made it; no claim on a finished one.

    Raises AlreadyDrivenError naming the process.
    """
    with store.writing() as work:
        study = found(work)
        if study.state is StudyState.COMPLETE:
            return study, None
        if study.requested is not None:
            # Whoever runs it now wants something else by now.
            work.requests.resume(study.id)
        dead = leases_of_the_dead(work, me)
        try:
            claim = work.leases.claim_study(study.id, me.id, dead=dead)
        except AlreadyDrivenError as error:
            raise AlreadyDrivenError(
                study.id, described(work.workers.all(), error.holder)
            ) from None
        return work.studies.get(study.id), claim


def _history(store: Store, study_id: int) -> History:
    return StudyLedger(store, study_id, lambda event: None).history()


@contextmanager
def open_worker(
    locations: Locations,
    *,
    once: bool = False,
    observer: Observer | None = None,
    checkpoint: Checkpoint = no_checkpoint,
    executor_of: ExecutorFactory = local_executor,
    ttl_s: float = LEASE_S,
    metrics: WorkerMetrics | None = None,
) -> Iterator[Worker]:
    """A worker of this host, ready to run; an SQLite database that does not exist is created.

    Raises StartupError. With `once` it ends when no study waits.
    """
    prepare(locations)
    clock = SystemClock()
    with _store(locations, clock) as store:
        means = Means(store, locations, clock, checkpoint, executor_of, LONGEST_S)
        observer = observer or SilentObserver()
        gpus = visible_gpus(os.environ)
        yield Worker(means, gpus, observer, metrics, ttl_s=ttl_s, once=once)


def load_history(reference: str, locations: Locations) -> History:
    """Everything stored of a study; raises UnknownStudyError, SchemaNotCurrentError."""
    require_database(locations)
    clock = SystemClock()
    with _store(locations, clock) as store:
        with store.reading() as work:
            study = work.studies.find(reference)
        return _history(store, study.id)


def list_studies(locations: Locations) -> tuple[StudyRecord, ...]:
    """Every stored study, oldest first; raises SchemaNotCurrentError, DatabaseError."""
    require_database(locations)
    with _store(locations, SystemClock()) as store, store.reading() as work:
        return work.studies.all()


def upgrade_database(locations: Locations) -> None:
    """Bring the database's tables to this version, creating what is missing."""
    locations.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    upgrade(locations.database)


def recommended_command(history: History, locations: Locations) -> RecommendedCommand | None:
    """The launch command a study recommends, with its provenance; None when there is none."""
    return recommended(history, ArtifactStore(locations.artifacts), at=SystemClock().now())


def measure(
    spec: StudySpec,
    locations: Locations,
    *,
    base_dir: Path,
    config: EngineConfig | None = None,
    observer: Observer | None = None,
    cancellation: Cancellation | None = None,
    executor_of: ExecutorFactory = local_executor,
    find_max_rate: bool = False,
) -> SingleMeasurement:
    """Measure one configuration (default: the document's baseline), both segments, no search.

    `find_max_rate` looks for the highest rate that meets the document's SLO too.

    Needs no database. Raises InvalidStudyError or StartupError; every end of the attempts, a
    cancelled one too, is in the result.
    """
    known = known_engine(spec, base_dir, locations.state_dir)
    require_measurable(spec, base_dir, known.version)
    prepare_state_directory(locations.state_dir)
    clock = SystemClock()
    return measure_once(
        spec,
        config,
        base_dir=base_dir,
        artifacts=locations.artifacts,
        executor=executor_of(clock, locations, no_checkpoint),
        observer=observer or SilentObserver(),
        cancellation=cancellation or Cancellation(),
        clock=clock,
        version=known.version,
        find_max_rate=find_max_rate,
    )


def plan(
    spec: StudySpec,
    *,
    base_dir: Path,
    asked: EngineConfig | None = None,
    state_dir: Path | None = None,
) -> StudyPlan:
    """What the study would do, without starting anything; raises InvalidInputError.

    `asked` are flags over the baseline's, forecast as well. With a `state_dir` a real engine's
    executable is asked for its version, once.
    """
    known = KnownEngine() if state_dir is None else known_engine(spec, base_dir, state_dir)
    return plan_study(spec, base_dir, asked, known)


def _create(spec: StudySpec, work: Work, *, new: bool) -> StudyRecord:
    created = work.studies.create(
        spec.name or default_name(spec),
        study_digest(spec),
        spec.model_dump(mode="json"),
        new=new,
    )
    return created.study


@contextmanager
def _store(locations: Locations, clock: Clock) -> Iterator[Store]:
    with open_database(locations.database) as database:
        yield Store(database, clock)
