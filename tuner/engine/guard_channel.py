"""The worker's end of a guard: starting one, and the JSON lines that go to and fro."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Protocol

from tuner.domain.clock import Clock
from tuner.engine.launcher import ProcessIdentity
from tuner.engine.process_tree import read_process
from tuner.errors import InfrastructureError

START_TIMEOUT_S = 60.0
POLL_S = 0.02
_LOADER_VARIABLES = ("LD_LIBRARY_PATH",)
"""A Python built with a shared library may not start without."""
_IMPORT_ROOT = str(Path(__file__).resolve().parents[2])
_BOOTSTRAP = (
    "import importlib, sys; sys.path.append(sys.argv[1]); "
    "sys.exit(importlib.import_module(sys.argv[2]).main())"
)


@dataclass(frozen=True, slots=True)
class GuardProgram:
    """A module that guards one kind of engine: it reads a request and speaks JSON lines.

    Without site-packages nothing there may shadow the standard library or slow the start.
    `variables` are those of the worker's environment that it gets.
    """

    module: str
    site_packages: bool = False
    variables: tuple[str, ...] = ()


PROCESS_GUARD = GuardProgram("tuner.engine.guard")


class GuardRequest(Protocol):
    """What a guard is told to start; goes through its standard input, never its arguments."""

    def document(self) -> Mapping[str, object]:
        """As JSON; the guard is told its worker's pid beside it."""


@dataclass(frozen=True, slots=True)
class ProcessRequest:
    """A process to start. `executable` is a path, `env` the whole environment.

    `secrets` are values that must not get into the log, which lies at `log_path`.
    """

    executable: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    grace_s: float
    log_path: Path
    secrets: tuple[str, ...] = ()

    def document(self) -> Mapping[str, object]:
        return {
            "executable": self.executable,
            "argv": self.argv,
            "env": dict(self.env),
            "grace_s": self.grace_s,
            "log_path": str(self.log_path.absolute()),
            "secrets": self.secrets,
        }


@dataclass(slots=True)
class GuardState:
    """What the guard has told so far."""

    engine: ProcessIdentity | None = None
    failure: str | None = None
    failure_errno: int | None = None
    restarted: bool = False
    """Only of an attached endpoint: its restart command ended well."""
    exited: bool = False
    returncode: int | None = None
    exit_was_requested: bool = False
    done: bool = False
    killed: bool = False
    survivors: tuple[int, ...] = ()
    at_end: bool = False
    """The guard closed its end: it has finished, or it died."""


class GuardChannel:
    """A guard process and the pipes to it. Safe to use from several threads."""

    def __init__(self, process: subprocess.Popen[bytes], identity: ProcessIdentity) -> None:
        assert process.stdin is not None  # noqa: S101 - both are pipes, by construction
        assert process.stdout is not None  # noqa: S101
        self._process = process
        self._commands: IO[bytes] = process.stdin
        self._events: IO[bytes] = process.stdout
        self._lock = threading.Lock()
        self._buffer = b""
        self._state = GuardState()
        self.identity = identity
        os.set_blocking(self._events.fileno(), False)

    @classmethod
    def start(
        cls, request: GuardRequest, log: IO[bytes], program: GuardProgram = PROCESS_GUARD
    ) -> GuardChannel:
        """Start a guard whose engine writes to `log`; raises InfrastructureError."""
        options = ["-P"] if program.site_packages else ["-I", "-S"]
        names = (*_LOADER_VARIABLES, *program.variables)
        try:
            process = subprocess.Popen(  # noqa: S603 - our own module, a list, an environment of ours
                [sys.executable, *options, "-c", _BOOTSTRAP, _IMPORT_ROOT, program.module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={name: os.environ[name] for name in names if name in os.environ},
                start_new_session=True,
            )
        except OSError as error:
            raise InfrastructureError(f"cannot start a guard process: {error}") from error
        stat = read_process(process.pid)
        channel = cls(process, ProcessIdentity(process.pid, stat.start_ticks if stat else 0))
        channel._send(_encode(request))
        return channel

    def state(self) -> GuardState:
        """Everything the guard has told until now."""
        with self._lock:
            if not self._state.at_end:
                self._drain()
            return replace(self._state)

    def await_engine(self, clock: Clock) -> GuardState:
        """Wait until the engine was started or could not be; raises InfrastructureError."""
        deadline = clock.monotonic() + START_TIMEOUT_S
        while True:
            state = self.state()
            if state.engine is not None or state.failure is not None:
                return state
            if state.at_end or clock.monotonic() >= deadline:
                self.kill()
                reason = "ended at once" if state.at_end else f"was silent for {START_TIMEOUT_S} s"
                raise InfrastructureError(f"the guard process {reason}")
            clock.sleep(POLL_S)

    def ask_to_stop(self) -> None:
        """TERM, grace, KILL; the guard reports `done` and ends. Nothing happens twice."""
        self._send(b"stop\n")

    def kill(self) -> None:
        """SIGKILL to the guard, when it does not answer; the engine is then the reaper's."""
        self._process.kill()
        self.close()

    def close(self) -> None:
        """Bury the guard; it must have ended, or been killed."""
        self._process.wait()
        with self._lock:
            if not self._events.closed:
                self._drain()
                self._events.close()
            self._state.at_end = True
        with contextlib.suppress(BrokenPipeError):
            self._commands.close()

    def _send(self, data: bytes) -> None:
        try:
            self._commands.write(data)
            self._commands.flush()
        except (BrokenPipeError, ValueError):
            pass  # the guard is gone: `state` says so

    def _drain(self) -> None:
        while True:
            try:
                chunk = os.read(self._events.fileno(), 65536)
            except BlockingIOError:
                return
            if not chunk:
                self._state.at_end = True
                return
            *lines, self._buffer = (self._buffer + chunk).split(b"\n")
            for line in lines:
                _apply(json.loads(line), self._state)


def _encode(request: GuardRequest) -> bytes:
    document = {"worker_pid": os.getpid(), **request.document()}
    return json.dumps(document).encode() + b"\n"


def _apply(event: Mapping[str, object], state: GuardState) -> None:
    match event:
        case {"event": "started", "pid": int(pid), "start_ticks": int(ticks)}:
            state.engine = ProcessIdentity(pid, ticks)
        case {"event": "failed", "errno": int() | None as number, "message": str(message)}:
            state.failure, state.failure_errno = message, number
        case {
            "event": "exited",
            "returncode": int() | None as code,
            "stop_requested": bool(requested),
        }:
            state.exited, state.returncode, state.exit_was_requested = True, code, requested
        case {"event": "restarted"}:
            state.restarted = True
        case {"event": "done", "killed": bool(killed), "survivors": list(survivors)}:
            state.done, state.killed, state.survivors = True, killed, tuple(survivors)
        case _:
            raise InfrastructureError(f"the guard process said something unknown: {event}")
