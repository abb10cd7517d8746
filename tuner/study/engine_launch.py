"""From an attempt's request to the process that a launcher starts."""

from __future__ import annotations

import os
from pathlib import Path

from tuner.domain.argv import to_argv
from tuner.domain.engine_config import LaunchCommand
from tuner.domain.study_spec import EngineSpec, SimulatedEngineSpec
from tuner.engine.environment import engine_environment
from tuner.engine.launcher import LaunchRequest
from tuner.simulator.command import simulator_argv
from tuner.study.executor import AttemptRequest

HOST = "127.0.0.1"
LOG_NAME = "engine.log"

SHORTEST_DEADLINE_S = 30.0
"""Wall seconds below which no deadline falls: no time scale makes a process start faster."""


def time_scale(engine: EngineSpec) -> float:
    """Engine seconds per wall second."""
    return engine.time_scale if isinstance(engine, SimulatedEngineSpec) else 1.0


def wall_seconds(engine: EngineSpec, engine_s: float) -> float:
    """A deadline of the document (engine time) in wall seconds."""
    scale = time_scale(engine)
    return engine_s if scale == 1.0 else max(SHORTEST_DEADLINE_S, engine_s / scale)


def executable_path(name: str, base_dir: Path) -> str:
    """A name for the PATH as it is; a path as any path of a study: relative to its file."""
    if os.sep not in name:
        return name
    return os.path.normpath(base_dir / Path(name).expanduser())


def engine_argv(
    engine: EngineSpec, command: LaunchCommand, port: int, base_dir: Path
) -> tuple[str, ...]:
    """The exact command line of the engine on this port."""
    if isinstance(engine, SimulatedEngineSpec):
        return simulator_argv(
            command,
            engine.gpu,
            engine.count,
            engine.time_scale,
            engine.hardware_seed,
            HOST,
            port,
            *(("--sim-truth",) if engine.time_scale > 1 else ()),
        )
    address = ("--host", HOST, "--port", str(port))
    flags = to_argv(command.config.without("host", "port"))
    executable = executable_path(engine.launcher.executable, base_dir)
    return (executable, "serve", command.model, *flags, *address)


def launch_request(request: AttemptRequest, port: int) -> LaunchRequest:
    """What the launcher gets: argv, an allow-listed environment, where to log and listen."""
    served = request.command.config.get("served-model-name")
    return LaunchRequest(
        argv=engine_argv(request.engine, request.command, port, request.base_dir),
        env=engine_environment(dict(request.command.env)),
        host=HOST,
        port=port,
        served_model=str(served) if served is not None else request.command.model,
        log_path=request.directory / LOG_NAME,
        stop_grace_s=wall_seconds(request.engine, request.deadlines.stop_grace_s),
    )
