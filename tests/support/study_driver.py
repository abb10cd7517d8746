"""Drives a study in a process of its own, which a test may have killed at a named point.

An order's `engine` is `real` (the embedded engine) or `fake` (a sleeping process and invented
measurements, for tests of the two ledgers); `crash_at` and `occurrence` name the moment of death,
or `kill_after_s` draws it from the clock. Its `process` is `tune` or `worker`. An
`insistent` sampler is not asked anew when it repeats itself.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from dataclasses import dataclass, fields
from pathlib import Path

# Imported for the fork server, which preloads this module: the search imports them when it needs
# them, which in every forked driver anew costs more than the rest of its study.
import optuna.samplers  # noqa: F401
import scipy.stats.qmc  # noqa: F401

from objectives.measurement import EngineFacts, Measurement
from tests.support.study_fakes import at_once
from tests.support.study_measurements import measurement
from tuner.domain.cancellation import Cancellation
from tuner.domain.clock import Clock
from tuner.domain.diagnosis import Consequence, Diagnosis, Phase
from tuner.domain.document import load_study
from tuner.domain.states import StudyRequest
from tuner.domain.study_spec import StudySpec
from tuner.engine.launcher import ExitStatus, LaunchRequest, ProcessIdentity, RunningEngine
from tuner.engine.process_tree import read_processes
from tuner.engine.readiness import NotReady, Ready
from tuner.loadgen.instrument import InstrumentLimits
from tuner.search import proposer
from tuner.store.url import DatabaseUrl
from tuner.study.attempt import Equipment, LoadHooks, run_attempt
from tuner.study.calibration import LoadCalibration, calibrated_rate
from tuner.study.checkpoints import MID_LOAD, Checkpoint
from tuner.study.executor import (
    AttemptListener,
    AttemptRequest,
    AttemptResult,
    Executor,
    LoadStatus,
)
from tuner.worker.composition import open_worker, run_study
from tuner.worker.driver import ExecutorFactory
from tuner.worker.equipment import local_executor
from tuner.worker.locations import Locations
from tuner.worker.studies import queue_study, stop_study

PATIENT = InstrumentLimits(
    **{
        field.name: 0 if field.name == "sent_over_offered" else 10**9
        for field in fields(InstrumentLimits)
    }
)
"""For tests of the study on a crowded machine, where nobody looks at the numbers."""


ASKED = threading.Event()
"""Set where a user has asked for a stop: the load then lasts until that is noticed."""


def killer(name: str | None, occurrence: int) -> Checkpoint:
    """A checkpoint at which this process dies as if by `kill -9`."""
    seen = 0

    def checkpoint(reached: str) -> None:
        nonlocal seen
        seen += reached == name
        if reached == name and seen == occurrence:
            os.kill(os.getpid(), signal.SIGKILL)

    return checkpoint


@dataclass(frozen=True)
class SleepingEngine:
    """A real process in a session of its own that does nothing but can be left behind."""

    request: LaunchRequest
    process: subprocess.Popen[bytes]
    base_url: str = "http://127.0.0.1:9"

    @property
    def guard(self) -> ProcessIdentity:
        return self.engine

    @property
    def engine(self) -> ProcessIdentity:
        stat = read_processes()[self.process.pid]
        return ProcessIdentity(stat.pid, stat.start_ticks)

    def exit_status(self) -> ExitStatus | None:
        return None

    def owns_port(self) -> bool:
        return True

    def log_tail(self, max_bytes: int = 65536) -> str:
        return ""

    def stop(self) -> ExitStatus:
        self.process.kill()
        self.process.wait()
        return ExitStatus(-9, stop_requested=True, killed=True)


class SleepingLauncher:
    def launch(self, request: LaunchRequest) -> RunningEngine:
        process = subprocess.Popen(
            ["sleep", "600"],
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        return SleepingEngine(request, process)


class InventedLoad:
    """More sequences, more throughput; a little noise by the seed, and from start to start."""

    def calibrate(
        self, request: AttemptRequest, engine: RunningEngine, facts: EngineFacts, hooks: LoadHooks
    ) -> LoadCalibration:
        return calibrated_rate(10.0, 32)

    def measure(
        self,
        request: AttemptRequest,
        engine: RunningEngine,
        facts: EngineFacts,
        calibration: LoadCalibration,
        hooks: LoadHooks,
    ) -> Measurement:
        hooks.progressed(LoadStatus("latency", 1.0, 9.0, 1, measuring=True))
        if ASKED.is_set():
            hooks.cancellation.wait(60)
        sequences = request.command.config.max_num_seqs or 1
        jitter = 1 + (request.workload_seed % 7 + sequences % 5 + request.salt % 3) / 1000
        return measurement(
            ttft_ms=400 * jitter, tokens_per_s=100.0 * sequences, seed=request.workload_seed
        )

    def burst(
        self, request: AttemptRequest, engine: RunningEngine, facts: EngineFacts, hooks: LoadHooks
    ) -> str | None:
        return None


def ready_at_once(
    engine: RunningEngine,
    *,
    deadline_s: float,
    poll_s: float,
    clock: Clock,
    cancellation: Cancellation,
) -> Ready | NotReady:
    return Ready(EngineFacts(simulated=True), 1.0)


@dataclass(frozen=True)
class FakeExecutor:
    equipment: Equipment

    def execute(
        self, request: AttemptRequest, listener: AttemptListener, cancellation: Cancellation
    ) -> AttemptResult:
        return run_attempt(request, self.equipment, listener, cancellation)


def fake_executor(clock: Clock, locations: Locations, checkpoint: Checkpoint) -> Executor:
    healthy = Diagnosis("ok", Phase.SERVING, Consequence.NONE, "nothing is wrong")
    return FakeExecutor(
        Equipment(
            launcher=SleepingLauncher(),
            load=InventedLoad(),
            clock=clock,
            wait_until_ready=ready_at_once,
            diagnose=lambda engine: healthy,
            exclusive=at_once,
            checkpoint=checkpoint,
            free_port=lambda host: 9,
        )
    )


def patient_executor(clock: Clock, locations: Locations, checkpoint: Checkpoint) -> Executor:
    return local_executor(clock, locations, checkpoint, PATIENT)


def locations_in(directory: Path) -> Locations:
    return Locations(DatabaseUrl.of_file(directory / "servetune.db"), directory)


def kill_later(delay_s: float) -> None:
    """Die by SIGKILL wherever this process then is."""
    timer = threading.Timer(delay_s, os.kill, (os.getpid(), signal.SIGKILL))
    timer.daemon = True
    timer.start()


def main(order: dict[str, object]) -> None:
    if order.get("kill_after_s") is not None:
        kill_later(float(str(order["kill_after_s"])))
    if order.get("insistent"):
        setattr(proposer, "MOST_ASKED_AGAIN", 0)  # noqa: B010  # ends with this process
    directory = Path(str(order["state_dir"]))
    crash_at = order.get("crash_at")
    spec = load_study(json.dumps(order["document"]), where="the test")
    checkpoint = killer(
        None if crash_at is None else str(crash_at), int(str(order.get("occurrence", 1)))
    )
    executor_of = fake_executor if order["engine"] == "fake" else patient_executor
    if order.get("process") == "worker":
        work(spec, directory, checkpoint, executor_of, str(order.get("request") or ""))
        return
    run_study(
        spec,
        locations_in(directory),
        base_dir=directory,
        checkpoint=checkpoint,
        executor_of=executor_of,
    )


def work(
    spec: StudySpec,
    directory: Path,
    checkpoint: Checkpoint,
    executor_of: ExecutorFactory,
    request: str,
) -> None:
    """A worker that ends when nothing waits; `request` is asked of the study in its first load."""
    locations = locations_in(directory)
    queue_study(spec, locations, base_dir=directory)

    def ask_then(reached: str) -> None:
        if request and reached == MID_LOAD and not ASKED.is_set():
            ASKED.set()
            stop_study(spec.name or "", StudyRequest(request), locations)
        checkpoint(reached)

    with open_worker(locations, once=True, executor_of=executor_of, checkpoint=ask_then) as worker:
        worker.run()
