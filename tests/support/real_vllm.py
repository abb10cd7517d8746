"""A real vLLM on this machine's CPU, attempts on it, and a watch over everything they start."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from objectives.measurement import EngineFacts
from tests.support.study_fakes import at_once
from tuner.domain.cancellation import Cancellation
from tuner.domain.clock import SystemClock
from tuner.domain.engine_config import EngineConfig
from tuner.domain.states import TrialState
from tuner.domain.study_spec import DeadlinesSpec, StudySpec
from tuner.engine.diagnosis import diagnose
from tuner.engine.launcher import LaunchRequest, ProcessIdentity
from tuner.engine.port import free_port, is_free
from tuner.engine.process_launcher import ProcessLauncher
from tuner.engine.process_tree import ProcessStat, descendants, is_running, read_processes
from tuner.engine.readiness import LOG_BYTES, wait_until_ready
from tuner.engine.shared_memory import mapped_segments
from tuner.loadgen.schedule import rate_arrival
from tuner.study.attempt import Equipment, run_attempt
from tuner.study.calibration import LoadCalibration, given_rate
from tuner.study.checkpoints import no_checkpoint
from tuner.study.engine_launch import launch_request
from tuner.study.executor import AttemptRequest, AttemptResult, LoadStatus
from tuner.study.load_session import LoadSession
from tuner.study.target import baseline_config, target_of

ROOT = Path(__file__).parents[2]
MIB = 1 << 20
PATIENCE_S = 240.0
"""A start takes 15 to 30 s on two idle cores, and several times that on busy ones."""


@dataclass(frozen=True, slots=True)
class Installation:
    """What `scripts/setup-vllm` made."""

    vllm: Path
    model: Path


def installation() -> Installation:
    """Set it up, or find it in its cache."""
    done = subprocess.run(
        [ROOT / "scripts" / "setup-vllm"], stdout=subprocess.PIPE, text=True, check=True
    )
    found = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    return Installation(Path(found["vllm"]), Path(found["model"]))


def document(made: Installation, **changes: Any) -> dict[str, Any]:
    """A study of the tiny model with a load that hardly occupies it."""
    return {
        "model": {"path": str(made.model), "max_model_len": 2048},
        "engine": {
            "kind": "vllm",
            "launcher": {"type": "process", "executable": str(made.vllm)},
            "flags": {"enforce-eager": True, "served-model-name": "tiny"},
            "env": {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"},
        },
        "search_space": {"kv_cache_memory_bytes": {"low": 2 * MIB, "high": 64 * MIB}},
        "baseline": {"flags": {"max-num-seqs": 16, "kv-cache-memory-bytes": 64 * MIB}},
        "workload": {
            "lengths": {
                "prompt_tokens": {"type": "constant", "value": 64},
                "output_tokens": {"type": "constant", "value": 32},
            },
            "arrival": {"rate": 3.0},
            "warmup_s": 1,
            "latency_window_s": 4,
            "capacity_window_s": 4,
        },
        "deadlines": {
            "startup_s": PATIENCE_S,
            "stop_grace_s": 8,
            "stall_s": 10,
            "attempt_s": 2 * PATIENCE_S,
        },
        **changes,
    }


def spec_of(made: Installation, **changes: Any) -> StudySpec:
    return StudySpec.model_validate(document(made, **changes))


def attempt_request(spec: StudySpec, directory: Path, **deadlines: float) -> AttemptRequest:
    """One attempt of the document's baseline at the document's rate, uncalibrated."""
    target = target_of(spec, directory)
    config = baseline_config(spec, target)
    sequences = target.effective(config).max_num_seqs or 1
    times = {**spec.deadlines.model_dump(), **deadlines}
    return AttemptRequest(
        command=target.command(config),
        engine=spec.engine,
        gpu_count=1,
        workload=spec.workload,
        base_dir=directory,
        workload_seed=0,
        max_model_len=target.max_model_len,
        vocabulary_size=target.vocabulary_size,
        most_sequences=sequences,
        max_num_seqs=sequences,
        calibration=given_rate(rate_arrival(spec.workload.arrival).rate or 1.0, 16),
        slo=None,
        deadlines=DeadlinesSpec(**times),
        directory=directory / "attempt",
        salt=1,
    )


def engine_request(spec: StudySpec, directory: Path) -> LaunchRequest:
    """What the launcher gets for the document's baseline."""
    return launch_request(attempt_request(spec, directory), free_port("127.0.0.1"))


class Watch:
    """Notes every process and every shared-memory segment below some processes, until stopped."""

    PERIOD_S = 0.2

    def __init__(self) -> None:
        self._roots: list[int] = []
        self._seen: dict[tuple[int, int], ProcessStat] = {}
        self._segments: dict[str, int] = {}
        self._ports: list[int] = []
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def follow(self, identities: Iterable[ProcessIdentity], port: int | None = None) -> None:
        with self._lock:
            self._roots += [identity.pid for identity in identities]
            self._ports += [] if port is None else [port]
        self.look()

    def look(self) -> None:
        with self._lock:
            table = read_processes()
            known = [process.pid for process in self._seen.values()]
            family = descendants([*self._roots, *known], table)
            family += [table[pid] for pid in self._roots if pid in table]
            for process in family:
                self._seen[(process.pid, process.start_ticks)] = process
            self._segments |= mapped_segments(process.pid for process in family)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self.PERIOD_S):
            self.look()

    @property
    def segments_seen(self) -> int:
        return len(self._segments)

    @property
    def processes_seen(self) -> int:
        return len(self._seen)

    def left_over(self) -> list[str]:
        """What is still there of everything that was seen, in words."""
        running = [
            f"process {pid}: {command_of(pid)}"
            for pid, start_ticks in self._seen
            if is_running(pid, start_ticks)
        ]
        segments = [path for path, inode in self._segments.items() if _inode(path) == inode]
        ports = [f"port {port}" for port in self._ports if not is_free("127.0.0.1", port)]
        return [*running, *segments, *ports]


def command_of(pid: int) -> str:
    """The command line of a process, or nothing."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()[:120]
    return ""


def _inode(path: str) -> int | None:
    try:
        return os.stat(path).st_ino  # noqa: PTH116
    except OSError:
        return None


def process_named(root: int, word: str) -> int | None:
    """The pid of a process below `root` whose command line contains the word."""
    for process in descendants([root], read_processes()):
        if word in command_of(process.pid):
            return process.pid
    return None


@dataclass
class Scene:
    """One attempt with its saboteurs; each hears of the attempt's course and may do harm."""

    watch: Watch
    cancellation: Cancellation
    launched: Callable[[ProcessIdentity, ProcessIdentity, int], None] = lambda *_: None
    measuring: Callable[[Scene], None] = lambda _scene: None
    guard: ProcessIdentity | None = None
    engine: ProcessIdentity | None = None
    done: bool = False

    @classmethod
    def quiet(cls) -> Scene:
        """One in which nothing happens and nobody watches."""
        return cls(Watch(), Cancellation())

    def engine_started(self, guard: ProcessIdentity, engine: ProcessIdentity, port: int) -> None:
        self.guard, self.engine = guard, engine
        self.watch.follow([guard, engine], port)
        self.launched(guard, engine, port)

    def entered(self, state: TrialState) -> None:
        """Nothing to do."""

    def read_back(self, facts: EngineFacts) -> None:
        """Nothing to do."""

    def calibrated(self, calibration: LoadCalibration) -> None:
        """Nothing to do."""

    def load_progress(self, status: LoadStatus) -> None:
        if status.measuring and not self.done:
            self.done = True
            self.measuring(self)

    def core_pid(self) -> int:
        """The engine core: the only process below the API server that calls itself so."""
        assert self.engine is not None
        found = process_named(self.engine.pid, "VLLM::EngineCore")
        assert found is not None
        return found


def equipment() -> Equipment:
    """The real one, but for the host-wide lock of GPUs, of which there are none here."""
    clock = SystemClock()
    return Equipment(
        launcher=ProcessLauncher(clock),
        load=LoadSession(clock),
        clock=clock,
        wait_until_ready=wait_until_ready,
        diagnose=lambda engine: diagnose(
            engine.log_tail(LOG_BYTES), exit_status=engine.exit_status(), ready=True
        ),
        exclusive=at_once,
        checkpoint=no_checkpoint,
        free_port=free_port,
    )


def attempt(request: AttemptRequest, scene: Scene) -> AttemptResult:
    return run_attempt(request, equipment(), scene, scene.cancellation)


@contextmanager
def watched() -> Iterator[Watch]:
    with Watch() as watch:
        yield watch


def with_flags(spec: StudySpec, **flags: Any) -> StudySpec:
    """The document with other flags of its baseline, underscores for dashes."""
    named = {name.replace("_", "-"): value for name, value in flags.items()}
    baseline = EngineConfig.of({**spec.baseline.flags, **named}).as_dict()
    return spec.model_copy(
        update={"baseline": spec.baseline.model_copy(update={"flags": baseline})}
    )
