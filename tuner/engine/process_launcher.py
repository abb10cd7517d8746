"""Engines as processes of this host, each owned by a guard process."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import IO

from tuner.domain.clock import Clock, SystemClock
from tuner.engine.environment import secret_forms
from tuner.engine.executable import cannot_run, find_executable
from tuner.engine.guard_channel import GuardChannel, GuardState, ProcessRequest
from tuner.engine.launcher import ExitStatus, LaunchRequest, ProcessIdentity
from tuner.engine.listening import holds_any, listeners
from tuner.engine.log_tail import read_ends
from tuner.engine.port import is_free
from tuner.engine.process_tree import descendants, group_members, is_running, read_processes
from tuner.engine.reaper import Reaped, reap
from tuner.errors import InfrastructureError, PortUnavailableError

POLL_S = 0.02
STOP_MARGIN_S = 45.0
"""What a guard may need beyond the grace: orphans, SIGKILL, and a crowded machine."""
PORT_WAIT_S = 5.0
_WILDCARDS = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - reached, not bound


class ProcessLauncher:
    """Starts engines as processes of this host."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()

    def launch(self, request: LaunchRequest) -> GuardedEngine:
        """Start an engine without waiting for it to be ready.

        Raises ExecutableNotFoundError, PortUnavailableError (before anything was started) or
        InfrastructureError (no log file, or no guard could be started).
        """
        executable = find_executable(request.argv[0], request.env)
        if not is_free(request.host, request.port):
            raise PortUnavailableError(f"port {request.port} of {request.host} is taken")
        with open_log(request.log_path) as log:
            guard_request = ProcessRequest(
                executable=executable,
                argv=(executable, *request.argv[1:]),
                env=request.env,
                grace_s=request.stop_grace_s,
                log_path=request.log_path,
                secrets=secret_forms(request.env),
            )
            channel = GuardChannel.start(guard_request, log)
        state = channel.await_engine(self._clock)
        if state.engine is None:
            channel.close()
            message = state.failure or "no reason given"
            refusal = cannot_run(executable, state.failure_errno, message)
            raise refusal or InfrastructureError(f"cannot start {executable}: {message}")
        return GuardedEngine(request, channel, state.engine, self._clock)


class GuardedEngine:
    """A running engine and its guard. Safe to use from several threads."""

    def __init__(
        self,
        request: LaunchRequest,
        channel: GuardChannel,
        engine: ProcessIdentity,
        clock: Clock,
    ) -> None:
        self._request = request
        self._channel = channel
        self._engine = engine
        self._clock = clock
        self._stop_lock = threading.Lock()
        self._final: ExitStatus | None = None

    @property
    def request(self) -> LaunchRequest:
        return self._request

    @property
    def base_url(self) -> str:
        host = _WILDCARDS.get(self._request.host, self._request.host)
        return f"http://{f'[{host}]' if ':' in host else host}:{self._request.port}"

    @property
    def guard(self) -> ProcessIdentity:
        return self._channel.identity

    @property
    def engine(self) -> ProcessIdentity:
        return self._engine

    def exit_status(self) -> ExitStatus | None:
        """None while the engine's main process lives. Without a guard the return code is None."""
        if self._final is not None:
            return self._final
        state = self._channel.state()
        if state.exited:
            return ExitStatus(state.returncode, state.exit_was_requested, state.killed)
        if state.at_end and not is_running(self._engine.pid, self._engine.start_ticks):
            return ExitStatus(None, stop_requested=False, killed=False)
        return None

    def owns_port(self) -> bool:
        """Whether every socket that a client could reach there is held by a process of ours."""
        inodes = {listener.inode for listener in listeners(self._request.host, self._request.port)}
        table = read_processes()
        roots = [self.guard.pid, self._engine.pid]
        ours = {process.pid for process in descendants(roots, table)}
        ours |= {process.pid for process in group_members(self._engine.pid, table)}
        return bool(inodes) and holds_any(ours, inodes) == inodes

    def log_tail(self, max_bytes: int = 65536) -> str:
        return read_ends(self._request.log_path, max_bytes)

    def stop(self) -> ExitStatus:
        """TERM, grace, KILL of the group; returns when no process of it and no listener is left.

        Raises InfrastructureError when a process survives SIGKILL (uninterruptible sleep).
        """
        with self._stop_lock:
            if self._final is None:
                self._final = self._end()
            return self._final

    def _end(self) -> ExitStatus:
        self._channel.ask_to_stop()
        state = self._await_done()
        survivors = state.survivors
        if state.done:
            self._channel.close()
            status = ExitStatus(state.returncode, state.exit_was_requested, state.killed)
        else:
            status, survivors = self._end_without_guard(state)
        if survivors:
            raise InfrastructureError(
                f"processes {', '.join(map(str, survivors))} of the engine survived SIGKILL",
                hint="they wait in the kernel, often for a GPU driver; look at dmesg",
            )
        self._await_port()
        return status

    def _await_done(self) -> GuardState:
        deadline = self._clock.monotonic() + self._request.stop_grace_s + STOP_MARGIN_S
        while True:
            state = self._channel.state()
            if state.done or state.at_end or self._clock.monotonic() >= deadline:
                return state
            self._clock.sleep(POLL_S)

    def _end_without_guard(self, state: GuardState) -> tuple[ExitStatus, tuple[int, ...]]:
        """The guard died or hangs: do its work by what was recorded."""
        before = self.exit_status()
        reaped = self._reap_by_record()
        if before is not None:
            status = replace(before, killed=reaped.killed)
        else:
            status = ExitStatus(state.returncode, stop_requested=True, killed=reaped.killed)
        return status, reaped.survivors

    def _reap_by_record(self) -> Reaped:
        recorded = (self.guard, self._engine)
        reaped = reap(recorded, grace_s=self._request.stop_grace_s, clock=self._clock)
        self._channel.kill()
        return reaped

    def _await_port(self) -> None:
        """Nobody of ours is left: a listener is a stranger's, the rest the kernel clears away."""
        host, port = self._request.host, self._request.port
        deadline = self._clock.monotonic() + PORT_WAIT_S
        while not is_free(host, port) and not listeners(host, port):
            if self._clock.monotonic() >= deadline:
                return
            self._clock.sleep(POLL_S)


def open_log(path: Path) -> IO[bytes]:
    """Append, readable by the owner only: engines print their arguments."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600, exist_ok=True)
        return path.open("ab")
    except OSError as error:
        raise InfrastructureError(f"cannot write the engine's log {path}: {error}") from error
