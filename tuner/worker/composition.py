"""The composition root: everything a study needs, built from the settings' places."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tuner.domain.cancellation import Cancellation
from tuner.domain.clock import Clock, SystemClock
from tuner.domain.document import study_digest
from tuner.domain.engine_config import EngineConfig
from tuner.domain.study_spec import StudySpec
from tuner.search.optuna_logging import quiet_optuna
from tuner.search.proposer import Proposer
from tuner.settings import Settings
from tuner.store.artifacts import ArtifactStore
from tuner.store.database import open_database
from tuner.store.location import prepare_state_directory
from tuner.store.optuna_storage import close_optuna_storage, optuna_errors, optuna_storage
from tuner.store.records import StudyRecord
from tuner.store.schema import upgrade
from tuner.store.study_lock import study_lock
from tuner.store.unit_of_work import Store
from tuner.study.admission import require_measurable, require_tunable
from tuner.study.checkpoints import Checkpoint, no_checkpoint
from tuner.study.context import StudyContext
from tuner.study.engine_version import KnownEngine, known_engine
from tuner.study.executor import Executor
from tuner.study.ledger import History, StudyLedger
from tuner.study.monitor import ProgressMonitor
from tuner.study.plan import StudyPlan, plan_study
from tuner.study.progress import Observer, SilentObserver
from tuner.study.runner import run
from tuner.study.scoring import objective_of
from tuner.study.space import frozen_space
from tuner.study.stored_study import (
    RecommendedCommand,
    base_dir_of,
    default_name,
    note_base_dir,
    stored_spec,
)
from tuner.study.stored_study import recommended_command as recommended
from tuner.study.target import Target, target_of
from tuner.study.trial_score import objectives_count
from tuner.worker.equipment import local_executor
from tuner.worker.locations import (
    DatabaseStatus,
    Locations,
    database_status,
    prepare,
    require_database,
    resolve_locations,
)
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
    "plan",
    "recommended_command",
    "resolve_locations",
    "resume_study",
    "run_study",
    "upgrade_database",
]

ExecutorFactory = Callable[[Clock, Locations, Checkpoint], Executor]


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
    StartupError (another process drives it, no database), CancelledError (it is paused),
    StudyFailedError. A finished study is returned as it is.
    """
    known = known_engine(spec, base_dir, locations.state_dir)
    require_tunable(spec, base_dir, known.version)  # before anything is stored
    prepare(locations)
    clock = SystemClock()
    with _store(locations, clock) as store:
        study = _create(spec, store, locations, base_dir, new=new)
        driver = _Driver(
            store,
            locations,
            clock,
            observer or SilentObserver(),
            cancellation or Cancellation(),
            checkpoint,
            executor_of,
        )
        return driver.drive(spec, study, base_dir, known)


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
    with _store(locations, clock) as store:
        with store.reading() as work:
            study = work.studies.find(reference)
        driver = _Driver(
            store,
            locations,
            clock,
            observer or SilentObserver(),
            cancellation or Cancellation(),
            no_checkpoint,
            local_executor,
        )
        base_dir = base_dir_of(ArtifactStore(locations.artifacts), study)
        spec = stored_spec(study)
        known = KnownEngine()
        if not study.state.terminal:
            known = known_engine(spec, base_dir, locations.state_dir)
            require_tunable(spec, base_dir, known.version)
        return driver.drive(spec, study, base_dir, known)


def load_history(reference: str, locations: Locations) -> History:
    """Everything stored of a study; raises UnknownStudyError, SchemaNotCurrentError."""
    require_database(locations)
    clock = SystemClock()
    with _store(locations, clock) as store:
        with store.reading() as work:
            study = work.studies.find(reference)
        return StudyLedger(store, study.id, lambda event: None).history()


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
) -> SingleMeasurement:
    """Measure one configuration (default: the document's baseline), both segments, no search.

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


def _create(
    spec: StudySpec, store: Store, locations: Locations, base_dir: Path, *, new: bool
) -> StudyRecord:
    with store.writing() as work:
        created = work.studies.create(
            spec.name or default_name(spec),
            study_digest(spec),
            spec.model_dump(mode="json"),
            new=new,
        )
    if created.created:
        note_base_dir(ArtifactStore(locations.artifacts), created.study, base_dir)
    return created.study


@dataclass(frozen=True, slots=True)
class _Driver:
    """Everything of this process that drives a study."""

    store: Store
    locations: Locations
    clock: Clock
    observer: Observer
    cancellation: Cancellation
    checkpoint: Checkpoint
    executor_of: ExecutorFactory

    def drive(
        self, spec: StudySpec, study: StudyRecord, base_dir: Path, known: KnownEngine
    ) -> History:
        with study_lock(self.locations.database, study.id):
            monitor = ProgressMonitor(spec, self.observer, self.clock)
            seq = study.last_event_seq
            ledger = StudyLedger(self.store, study.id, monitor.happened, after_seq=seq)
            if ledger.study().space is None:
                for text in known.notices:
                    ledger.notice("engine_version", text)
            target = target_of(spec, base_dir, known.version)
            with _proposer(spec, target, ledger, self.locations) as proposer:
                context = self._context(spec, target, base_dir, ledger, proposer, monitor)
                with optuna_errors(self.locations.database):
                    run(context)
            return ledger.history()

    def _context(
        self,
        spec: StudySpec,
        target: Target,
        base_dir: Path,
        ledger: StudyLedger,
        proposer: Proposer,
        monitor: ProgressMonitor,
    ) -> StudyContext:
        return StudyContext(
            spec=spec,
            target=target,
            base_dir=base_dir,
            ledger=ledger,
            proposer=proposer,
            forecaster=target.forecaster(),
            objective=objective_of(spec.objective),
            executor=self.executor_of(self.clock, self.locations, self.checkpoint),
            artifacts=ArtifactStore(self.locations.artifacts),
            clock=self.clock,
            cancellation=self.cancellation,
            checkpoint=self.checkpoint,
            monitor=monitor,
            host=socket.gethostname(),
        )


@contextmanager
def _proposer(
    spec: StudySpec, target: Target, ledger: StudyLedger, locations: Locations
) -> Iterator[Proposer]:
    import optuna

    quiet_optuna()
    space = frozen_space(spec, target, ledger)
    storage = optuna_storage(locations.database)
    try:
        study = optuna.create_study(
            storage=storage,
            study_name=ledger.study().optuna_study_name,
            directions=["maximize"] * objectives_count(spec.objective),
            load_if_exists=True,
        )
        yield Proposer(study, space, spec.sampler, base=target.fixed)
    finally:
        close_optuna_storage(storage)


@contextmanager
def _store(locations: Locations, clock: Clock) -> Iterator[Store]:
    with open_database(locations.database) as database:
        yield Store(database, clock)
