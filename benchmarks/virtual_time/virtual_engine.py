"""Engines that start, serve and die in virtual time, with the log the embedded engine writes."""

from __future__ import annotations

import io
import math
import random
from dataclasses import dataclass, replace

from benchmarks.virtual_time.segment_run import at_speed
from tuner.domain.cancellation import Cancellation
from tuner.domain.clock import Clock
from tuner.engine.diagnosis import diagnose
from tuner.engine.launcher import ExitStatus, LaunchRequest, ProcessIdentity, RunningEngine
from tuner.engine.read_back import engine_facts
from tuner.engine.readiness import NotReady, Ready
from tuner.errors import InvalidCommandError, ServeTuneError
from tuner.simulator.server import startup_log, tracebacks
from tuner.simulator.server.arguments import USAGE, read_arguments
from tuner.simulator.server.config_check import first_fault
from tuner.simulator.server.engine_log import API_SERVER, ENGINE_CORE, EngineLog
from tuner.simulator.server.launch import Launch, effective_config, plan_launch, resolve_model

NOBODY = ProcessIdentity(pid=2**22 + 1, start_ticks=1)
"""Beyond Linux's largest pid: no process is ever taken for a virtual engine."""

EXIT_FAILED = 1


@dataclass(frozen=True, slots=True)
class StartNoise:
    """How much faster or slower one start of the same machine is than another.

    The factor is lognormal with standard deviation `sigma`, drawn from `seed` and the start's name:
    clocks, placement and temperature differ from start to start, and then last for all of it.
    """

    sigma: float
    seed: int

    def speed(self, start: str) -> float:
        if self.sigma == 0.0:
            return 1.0
        return math.exp(random.Random(f"{self.seed}/{start}").gauss(0.0, self.sigma))


class VirtualEngine:
    """A `RunningEngine` without a process. `launch` is None where the start failed."""

    def __init__(self, request: LaunchRequest, speed: float) -> None:
        self.request = request
        self.base_url = f"http://{request.host}:{request.port}"
        self.guard = NOBODY
        self.engine = NOBODY
        self._log = io.StringIO()
        self._status: ExitStatus | None = None
        started = start_of(request.argv, self._log)
        self.launch = None if started is None else _at_speed(started, speed)
        if self.launch is None:
            self._status = ExitStatus(EXIT_FAILED, stop_requested=False, killed=False)

    def exit_status(self) -> ExitStatus | None:
        return self._status

    def owns_port(self) -> bool:
        return self._status is None

    def log_tail(self, max_bytes: int = 65536) -> str:
        return self._log.getvalue()[-max_bytes:]

    def stop(self) -> ExitStatus:
        if self._status is None:
            self._status = ExitStatus(0, stop_requested=True, killed=False)
        return self._status

    def run_out_of_memory(self) -> None:
        """Die under load, as PyTorch words it."""
        if self.launch is None:
            raise ValueError("an engine that did not start cannot die under load")
        total = self.launch.account.total_bytes
        error = startup_log.out_of_memory_text(0.01 * total, 0.002 * total, total)
        trace = tracebacks.traceback_text(tracebacks.STEP, error)
        log = _engine_log(self._log)
        log.error(ENGINE_CORE, "core.py:1586", f"EngineCore encountered a fatal error.\n{trace}")
        log.error(API_SERVER, "async_llm.py:425", "AsyncLLM output_handler failed.")
        self._status = ExitStatus(EXIT_FAILED, stop_requested=False, killed=False)


def _at_speed(launch: Launch, speed: float) -> Launch:
    return replace(launch, hardware=at_speed(launch.hardware, speed))


def _engine_log(stream: io.StringIO) -> EngineLog:
    return EngineLog(NOBODY.pid, stream, unix_time=lambda: 0.0)


def start_of(argv: tuple[str, ...], stream: io.StringIO) -> Launch | None:
    """What comes of a command line of the embedded engine; its log goes to `stream`."""
    try:
        arguments = read_arguments(argv[argv.index("serve") + 1 :])
        dtype = arguments.config.get("dtype")
        model, architecture = resolve_model(arguments.model, dtype)
    except (InvalidCommandError, ServeTuneError) as error:
        stream.write(f"{USAGE}vllm: error: {error.message}\n")
        return None
    log = _engine_log(stream)
    startup_log.write_banner(log, arguments)
    config = effective_config(arguments, model)
    fault = first_fault(config, arguments.options.gpu_count, model)
    if fault is not None:
        startup_log.write_config_fault(log, fault, config, architecture)
        return None
    launch = plan_launch(arguments, model, architecture)
    startup_log.write_config(log, launch)
    startup_log.EngineStart(log, launch).write()
    return None if launch.failure is not None else launch


@dataclass(frozen=True, slots=True)
class VirtualLauncher:
    """A `Launcher` whose starts take no time; the attempt's directory names the start."""

    noise: StartNoise

    def launch(self, request: LaunchRequest) -> VirtualEngine:
        name = "/".join(request.log_path.parts[-4:-1])
        return VirtualEngine(request, self.noise.speed(name))


def ready_or_not(
    engine: RunningEngine,
    *,
    deadline_s: float,
    poll_s: float,
    clock: Clock,
    cancellation: Cancellation,
) -> Ready | NotReady:
    """The real reading of the log, without the waiting."""
    log = engine.log_tail(2**20)
    status = engine.exit_status()
    if status is not None:
        return NotReady(diagnose(log, exit_status=status, ready=False))
    if not isinstance(engine, VirtualEngine) or engine.launch is None:
        raise TypeError("only a virtual engine is ready at once")
    startup_s = engine.launch.durations.total_s
    return Ready(engine_facts(log, startup_s=startup_s), startup_s)
