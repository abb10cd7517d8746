"""Workers in threads of the test, whose attempts run nothing and last as long as the test says."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.scripted_executor import measured
from tests.support.study_runs import document
from tuner.domain.cancellation import Cancellation
from tuner.domain.clock import Clock, SystemClock
from tuner.domain.document import load_study
from tuner.domain.states import AttemptOutcome, StudyState, TrialState
from tuner.errors import CancelledError
from tuner.store.database import open_database
from tuner.store.unit_of_work import Store
from tuner.store.url import DatabaseUrl
from tuner.study.calibration import calibrated_rate
from tuner.study.checkpoints import Checkpoint, no_checkpoint
from tuner.study.executor import AttemptListener, AttemptRequest, AttemptResult, Executor
from tuner.study.ledger import History, StudyLedger
from tuner.worker.composition import open_worker
from tuner.worker.daemon import Worker
from tuner.worker.locations import Locations
from tuner.worker.metrics import WorkerMetrics
from tuner.worker.studies import queue_study

WAIT_S = 60.0


@dataclass
class HeldExecutor:
    """Attempts that are over at once, but for the `hold`th, which waits for `go` or a stop."""

    hold: int | None = None
    go: threading.Event = field(default_factory=threading.Event)
    holding: threading.Event = field(default_factory=threading.Event)
    requests: list[AttemptRequest] = field(default_factory=list)
    running: int = 0
    before_end: Callable[[AttemptListener], None] = lambda listener: None

    def execute(
        self, request: AttemptRequest, listener: AttemptListener, cancellation: Cancellation
    ) -> AttemptResult:
        self.requests.append(request)
        self.running += 1
        try:
            listener.entered(TrialState.LAUNCHING)
            if request.calibration is None:
                listener.calibrated(calibrated_rate(10.0, 32))
            listener.entered(TrialState.MEASURING)
            if len(self.requests) == self.hold:
                self._wait(listener, cancellation)
            return measured(request)
        except CancelledError as error:
            return AttemptResult(AttemptOutcome.CANCELLED, error.message, 1.0)
        finally:
            self.running -= 1

    def _wait(self, listener: AttemptListener, cancellation: Cancellation) -> None:
        self.holding.set()
        while not self.go.is_set():
            cancellation.wait(0.01)
        self.before_end(listener)

    def factory(self, clock: Clock, locations: Locations, checkpoint: Checkpoint) -> Executor:
        return self


@dataclass
class Place:
    """A database and a directory for workers, and what is in them."""

    locations: Locations

    @classmethod
    def at(cls, url: str, directory: Path) -> Place:
        return cls(Locations(DatabaseUrl.parse(url), directory))

    def queue(self, study: Mapping[str, Any] | None = None, name: str = "crash") -> int:
        """The id of a study that waits for a worker."""
        chosen = {**(document(trials=2) if study is None else study), "name": name}
        spec = load_study(json.dumps(chosen), where="the test")
        directory = self.locations.state_dir
        return queue_study(spec, self.locations, base_dir=directory).study.id

    @contextmanager
    def store(self) -> Iterator[Store]:
        with open_database(self.locations.database) as database:
            yield Store(database, SystemClock())

    def history(self, study_id: int = 1) -> History:
        with self.store() as store:
            return StudyLedger(store, study_id, lambda event: None).history()

    def state(self, study_id: int = 1) -> StudyState:
        return self.history(study_id).study.state

    @contextmanager
    def worker(
        self,
        executor: HeldExecutor,
        *,
        once: bool = True,
        ttl_s: float = 30.0,
        checkpoint: Checkpoint = no_checkpoint,
        metrics: WorkerMetrics | None = None,
    ) -> Iterator[RunningWorker]:
        """A worker in a thread; stopped and waited for at the end."""
        with open_worker(
            self.locations,
            once=once,
            executor_of=executor.factory,
            ttl_s=ttl_s,
            checkpoint=checkpoint,
            metrics=metrics,
        ) as worker:
            worker.poll_s = 0.02
            running = RunningWorker(worker)
            running.thread.start()
            try:
                yield running
            finally:
                worker.stop("the test is over")
                executor.go.set()
                running.join()


class RunningWorker:
    """A worker's thread; what it raised is raised where it is waited for."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            self.worker.run()
        except BaseException as error:  # noqa: BLE001  # raised again in the test
            self.error = error

    def join(self) -> None:
        self.thread.join(WAIT_S)
        assert not self.thread.is_alive(), "the worker did not end"
        if self.error is not None:
            raise self.error


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait until something holds that another thread brings about."""
    ticks = threading.Event()
    for _ in range(round(WAIT_S / 0.02)):
        if condition():
            return
        ticks.wait(0.02)
    raise AssertionError(f"it never came to this: {what}")
