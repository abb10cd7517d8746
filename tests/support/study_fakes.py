"""Stand-ins for engines and loads, for the state machine of an attempt only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from objectives.measurement import EngineFacts, Measurement
from tests.support.study_measurements import measurement
from tuner.domain.cancellation import Cancellation
from tuner.domain.clock import Clock
from tuner.domain.diagnosis import Consequence, Diagnosis, Phase
from tuner.domain.engine_config import EngineConfig, LaunchCommand
from tuner.domain.states import TrialState
from tuner.domain.study_spec import DeadlinesSpec, SimulatedEngineSpec, WorkloadSpec
from tuner.engine.launcher import ExitStatus, LaunchRequest, ProcessIdentity, RunningEngine
from tuner.engine.readiness import NotReady, Ready
from tuner.study.attempt import Equipment, LoadHooks
from tuner.study.calibration import LoadCalibration, calibrated_rate
from tuner.study.checkpoints import no_checkpoint
from tuner.study.executor import AttemptRequest, LoadStatus


class ManualClock:
    """Time that moves only when told."""

    def __init__(self) -> None:
        self.elapsed_s = 0.0

    def now(self) -> datetime:
        return datetime(2030, 1, 1, tzinfo=UTC) + timedelta(seconds=self.elapsed_s)

    def monotonic(self) -> float:
        return self.elapsed_s

    def sleep(self, duration_s: float) -> None:
        self.elapsed_s += duration_s


def diagnosis(
    consequence: Consequence = Consequence.INFEASIBLE, failure_class: str = "oom_runtime"
) -> Diagnosis:
    return Diagnosis(failure_class, Phase.SERVING, consequence, f"it was {failure_class}")


class FakeEngine:
    """An engine whose death is decided by the test."""

    def __init__(self, request: LaunchRequest) -> None:
        self.request = request
        self.base_url = f"http://{request.host}:{request.port}"
        self.guard = ProcessIdentity(100, 1)
        self.engine = ProcessIdentity(101, 2)
        self.stops = 0
        self.dead = False

    def exit_status(self) -> ExitStatus | None:
        return ExitStatus(1, stop_requested=False, killed=False) if self.dead else None

    def owns_port(self) -> bool:
        return True

    def log_tail(self, max_bytes: int = 65536) -> str:
        return ""

    def stop(self) -> ExitStatus:
        self.stops += 1
        return ExitStatus(0, stop_requested=True, killed=False)


class FakeLauncher:
    def __init__(self, error: Exception | None = None) -> None:
        self.engines: list[FakeEngine] = []
        self.error = error

    def launch(self, request: LaunchRequest) -> RunningEngine:
        if self.error is not None:
            raise self.error
        self.engines.append(FakeEngine(request))
        return self.engines[-1]


LoadStep = Callable[[FakeEngine, LoadHooks], None]


def nothing(engine: FakeEngine, hooks: LoadHooks) -> None:
    """A load during which nothing happens."""


@dataclass
class FakeLoad:
    """Calls the test's function in the middle of each load."""

    result: Measurement = field(default_factory=measurement)
    measuring: LoadStep = nothing
    bursting: LoadStep = nothing
    weakness: str | None = None
    calls: list[str] = field(default_factory=list)
    calibrations: list[LoadCalibration] = field(default_factory=list)

    def calibrate(
        self, request: AttemptRequest, engine: RunningEngine, facts: EngineFacts, hooks: LoadHooks
    ) -> LoadCalibration:
        self.calls.append("calibrate")
        return calibrated_rate(10.0, 32)

    def measure(
        self,
        request: AttemptRequest,
        engine: RunningEngine,
        facts: EngineFacts,
        calibration: LoadCalibration,
        hooks: LoadHooks,
    ) -> Measurement:
        self.calls.append("measure")
        self.calibrations.append(calibration)
        hooks.progressed(LoadStatus("latency", 1.0, 100.0, 0, measuring=False))
        assert isinstance(engine, FakeEngine)
        self.measuring(engine, hooks)
        hooks.progressed(LoadStatus("latency", 50.0, 100.0, 9, measuring=True))
        return self.result

    def burst(
        self, request: AttemptRequest, engine: RunningEngine, facts: EngineFacts, hooks: LoadHooks
    ) -> str | None:
        self.calls.append("burst")
        assert isinstance(engine, FakeEngine)
        self.bursting(engine, hooks)
        return self.weakness


class RecordingListener:
    def __init__(self, failing_at: TrialState | None = None) -> None:
        self.heard: list[str] = []
        self.failing_at = failing_at

    def engine_started(self, guard: ProcessIdentity, engine: ProcessIdentity, port: int) -> None:
        self.heard.append("engine_started")

    def entered(self, state: TrialState) -> None:
        self.heard.append(state.value)
        if state is self.failing_at:
            raise RuntimeError("the listener broke")

    def read_back(self, facts: EngineFacts) -> None:
        self.heard.append("read_back")

    def calibrated(self, calibration: LoadCalibration) -> None:
        self.heard.append("calibrated")

    def load_progress(self, status: LoadStatus) -> None:
        self.heard.append(f"load {status.measuring}")


@contextmanager
def at_once(request: AttemptRequest, cancellation: Cancellation) -> Iterator[None]:
    """GPUs that nobody else wants."""
    yield


def fake_equipment(
    *,
    launcher: FakeLauncher,
    load: FakeLoad,
    not_ready: Diagnosis | None = None,
    on_death: Diagnosis | None = None,
    clock: Clock | None = None,
) -> Equipment:
    def wait(
        engine: RunningEngine,
        *,
        deadline_s: float,
        poll_s: float,
        clock: Clock,
        cancellation: Cancellation,
    ) -> Ready | NotReady:
        cancellation.raise_if_requested()
        return NotReady(not_ready) if not_ready else Ready(EngineFacts(simulated=True), 1.0)

    healthy = diagnosis(Consequence.NONE, "ok")
    return Equipment(
        launcher=launcher,
        load=load,
        clock=clock or ManualClock(),
        wait_until_ready=wait,
        diagnose=lambda engine: on_death or healthy,
        exclusive=at_once,
        checkpoint=no_checkpoint,
        free_port=lambda host: 18000,
    )


def attempt_request(
    directory: Path,
    *,
    calibration: LoadCalibration | None = None,
    burst: bool = False,
    engine: SimulatedEngineSpec | None = None,
) -> AttemptRequest:
    return AttemptRequest(
        command=LaunchCommand("Qwen/Qwen2.5-7B-Instruct", EngineConfig.of({"max-num-seqs": 64})),
        engine=engine or SimulatedEngineSpec(kind="simulated"),
        gpu_count=1,
        workload=WorkloadSpec(),
        base_dir=directory,
        workload_seed=0,
        max_model_len=4096,
        vocabulary_size=32_000,
        most_sequences=64,
        max_num_seqs=64,
        calibration=calibration,
        slo=None,
        deadlines=DeadlinesSpec(),
        directory=directory / "attempt-1",
        salt=1,
        burst=burst,
    )
