"""How an engine is started and stopped: the seam between attempts and processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tuner.engine.places import HOST_PROCESS, Place


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process that can be told from a later one with the same pid (Linux start time in ticks)."""

    pid: int
    start_ticks: int


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """Everything a launcher needs. `argv` never meets a shell; `env` is the whole environment.

    `host` and `port` are where clients of this host reach the engine.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    host: str
    port: int
    served_model: str
    log_path: Path
    stop_grace_s: float
    place: Place = HOST_PROCESS


@dataclass(frozen=True, slots=True)
class ExitStatus:
    """How the engine ended. A return code of 0 that nobody asked for is a crash all the same."""

    returncode: int | None
    stop_requested: bool
    killed: bool


class RunningEngine(Protocol):
    """One started engine; `stop` may be called any number of times."""

    @property
    def request(self) -> LaunchRequest: ...

    @property
    def base_url(self) -> str: ...

    @property
    def guard(self) -> ProcessIdentity:
        """The process which owns the engine's group; recorded, so that a later worker can reap."""

    @property
    def engine(self) -> ProcessIdentity: ...

    def exit_status(self) -> ExitStatus | None:
        """None while the engine's main process lives."""

    def owns_port(self) -> bool:
        """Whether the process listening on the port belongs to this engine."""

    def log_tail(self, max_bytes: int = 65536) -> str:
        """The log, decoded with replacement; of a long one the beginning and the end."""

    def stop(self) -> ExitStatus:
        """TERM, grace, KILL of the group; returns when no process of it and no listener is left."""


class Launcher(Protocol):
    """Starts engines."""

    def launch(self, request: LaunchRequest) -> RunningEngine:
        """Start an engine without waiting for it to be ready.

        Raises ExecutableNotFoundError, ContainerUnavailableError (no Docker API, no image),
        PortUnavailableError (before anything was started) or InfrastructureError (no guard could
        be started).
        """
