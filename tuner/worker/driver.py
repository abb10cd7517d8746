"""Drives one claimed study in this process: everything it needs, built, used and put away."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tuner.domain.cancellation import Cancellation
from tuner.domain.clock import Clock
from tuner.domain.states import StudyState
from tuner.domain.study_spec import StudySpec
from tuner.errors import DatabaseError, UnknownStudyError
from tuner.search.optuna_logging import quiet_optuna
from tuner.search.proposer import Proposer
from tuner.store.artifacts import ArtifactStore
from tuner.store.leases import Claim
from tuner.store.optuna_storage import close_optuna_storage, optuna_errors, optuna_storage
from tuner.store.records import JsonObject, StudyRecord
from tuner.store.unit_of_work import Store
from tuner.study.checkpoints import AFTER_CLAIM, BEFORE_RELEASE, Checkpoint
from tuner.study.context import StudyContext
from tuner.study.engine_launch import time_scale
from tuner.study.engine_version import KnownEngine
from tuner.study.executor import Executor
from tuner.study.ledger import History, StudyLedger
from tuner.study.monitor import ProgressMonitor
from tuner.study.patience import Patience
from tuner.study.progress import Observer
from tuner.study.runner import run
from tuner.study.scoring import objective_of
from tuner.study.space import frozen_space
from tuner.study.target import Target, target_of
from tuner.study.trial_score import objectives_count
from tuner.worker.lease_keeper import LeaseKeeper
from tuner.worker.live import LiveProgress
from tuner.worker.locations import Locations

logger = logging.getLogger(__name__)

ExecutorFactory = Callable[[Clock, Locations, Checkpoint], Executor]


@dataclass(frozen=True, slots=True)
class Means:
    """What drives any study in this process."""

    store: Store
    locations: Locations
    clock: Clock
    checkpoint: Checkpoint
    executor_of: ExecutorFactory
    patience_s: float
    """How long a database that is away is waited for."""


@dataclass(frozen=True, slots=True)
class StudyDriver:
    """One study under a claim. `resting` is what it becomes when this process stops by itself."""

    means: Means
    claim: Claim
    spec: StudySpec
    base_dir: Path
    known: KnownEngine
    observer: Observer
    cancellation: Cancellation
    resting: StudyState

    def drive(self, study: StudyRecord) -> History:
        """Run the study from wherever it stands; raises as `tuner.study.runner.run`.

        The lease is renewed meanwhile and given back in the end, whatever that is.
        """
        means, moment = self.means, _Moment()
        live = LiveProgress(
            self.observer, moment.publish, means.clock, time_scale(self.spec.engine)
        )
        patience = Patience(means.clock, self.cancellation, means.patience_s)
        monitor = ProgressMonitor(self.spec, live, means.clock)
        ledger = StudyLedger(
            means.store,
            study.id,
            monitor.happened,
            after_seq=study.last_event_seq,
            claim=self.claim,
            patience=patience,
        )
        means.checkpoint(AFTER_CLAIM)
        if study.requested is not None:
            # Its last driver died before it did what it was asked to.
            self.cancellation.request(f"a user asked to {study.requested.value} the study")
        with (
            _released(means, self.claim),
            LeaseKeeper(
                means.store, self.claim, self.cancellation, means.clock, progress=moment.latest
            ),
        ):
            patience.outlast(lambda again: self._run(ledger, monitor))
        return ledger.history()

    def _run(self, ledger: StudyLedger, monitor: ProgressMonitor) -> None:
        """Anew when the database failed the sampler: reconciliation repairs what that left."""
        if ledger.study().space is None:
            for text in self.known.notices:
                ledger.notice("engine_version", text)
        target = target_of(self.spec, self.base_dir, self.known.version)
        database = self.means.locations.database
        with (
            optuna_errors(database),
            _proposer(self.spec, target, ledger, self.means.locations) as proposer,
        ):
            run(self._context(target, ledger, proposer, monitor))

    def _context(
        self, target: Target, ledger: StudyLedger, proposer: Proposer, monitor: ProgressMonitor
    ) -> StudyContext:
        means = self.means
        return StudyContext(
            spec=self.spec,
            target=target,
            base_dir=self.base_dir,
            ledger=ledger,
            proposer=proposer,
            forecaster=target.forecaster(),
            objective=objective_of(self.spec.objective),
            executor=means.executor_of(means.clock, means.locations, means.checkpoint),
            artifacts=ArtifactStore(means.locations.artifacts),
            clock=means.clock,
            cancellation=self.cancellation,
            checkpoint=means.checkpoint,
            monitor=monitor,
            host=socket.gethostname(),
            resting=self.resting,
        )


class _Moment:
    """What the study does at this moment, as the lease's keeper writes it down."""

    def __init__(self) -> None:
        self._latest: JsonObject | None = None

    def publish(self, document: JsonObject | None) -> None:
        self._latest = document

    def latest(self) -> JsonObject | None:
        return self._latest


@contextmanager
def _released(means: Means, claim: Claim) -> Iterator[None]:
    """Give the study back at the end; where that fails, the lease runs out by itself."""
    try:
        yield
    finally:
        means.checkpoint(BEFORE_RELEASE)
        try:
            with means.store.writing() as work:
                work.leases.release(claim)
        except (DatabaseError, UnknownStudyError) as error:
            logger.warning("the lease of study %d runs out by itself: %s", claim.study_id, error)


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
