"""`tuner.engine.attached_guard`: runs the commands of an endpoint's owner and outlives the worker.

It speaks the JSON lines of `tuner.engine.guard`, and `restarted` once the restart command ended
well. The commands' output, and what the endpoint's own log file gains, go to its standard error.
The worker's death runs the stop command, where there is one. Standard library only.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tuner.engine.guard import emit, read_request
from tuner.engine.process_tree import read_process
from tuner.engine.stop_signals import StopSignals

POLL_S = 0.1
STATUS_PERIOD_S = 1.0
STATUS_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 60.0
"""Beyond the grace: what a stop command may need to wait for the engine's end."""
_LOG = 2
_CHUNK = 1 << 20


class LogFollower:
    """Copies what a file gains from now on; a file that was replaced is read from its beginning."""

    def __init__(self, path: str | None) -> None:
        self._path = Path(path) if path else None
        self._inode, self._offset = self._place()

    def copy(self) -> None:
        """Everything new, into the log."""
        if self._path is None:
            return
        inode, size = self._place()
        if inode != self._inode or size < self._offset:
            self._inode, self._offset = inode, 0
        if size <= self._offset:
            return
        try:
            with self._path.open("rb") as log:
                log.seek(self._offset)
                while chunk := log.read(_CHUNK):
                    self._offset += len(chunk)
                    _write(chunk)
        except OSError as error:
            _write(f"servetune: {self._path} cannot be read: {error}\n".encode())

    def _place(self) -> tuple[int, int]:
        try:
            stat = self._path.stat() if self._path else None
        except OSError:
            return 0, 0
        return (stat.st_ino, stat.st_size) if stat else (0, 0)


class AttachedGuard:
    """One run of the restart command, and the endpoint from then on until it is to be stopped."""

    def __init__(self, request: Mapping[str, Any], stop: StopSignals) -> None:
        self._request = request
        self._stop = stop
        self._grace_s = float(request["grace_s"])
        self._followed = LogFollower(request["log_file"])
        self._next_status = 0.0

    def run(self) -> int:
        try:
            restart = self._spawn(self._request["restart"])
        except OSError as error:
            emit(event="failed", errno=error.errno, message=str(error))
            return 1
        me = read_process(os.getpid())
        emit(event="started", pid=os.getpid(), start_ticks=me.start_ticks if me else 0)
        ended = self._await_restart(restart)
        while not self._stop.stopping:
            if not ended and time.monotonic() >= self._next_status and not self._is_up():
                self._tell_end(None)
                ended = True
            self._pause()
        killed = self._end_command(restart)
        self._run_stop()
        if not ended:
            self._tell_end(None)
        emit(event="done", killed=killed, survivors=[])
        return 0

    def _await_restart(self, restart: subprocess.Popen[bytes]) -> bool:
        """Whether the endpoint has ended by now: its restart command failed."""
        while restart.poll() is None and not self._stop.stopping:
            self._pause()
        if restart.returncode is None:
            return False
        if restart.returncode == 0:
            emit(event="restarted")
            return False
        _say(f"the restart command ended with {restart.returncode}")
        self._tell_end(restart.returncode)
        return True

    def _is_up(self) -> bool:
        """What the status command says; without one the endpoint counts as running."""
        self._next_status = time.monotonic() + STATUS_PERIOD_S
        command = self._request["status"]
        if not command:
            self._next_status = float("inf")
            return True
        try:
            status = self._spawn(command)
            status.wait(STATUS_TIMEOUT_S)
        except (OSError, subprocess.TimeoutExpired) as error:
            _say(f"the status command: {error}")
            return True
        return status.returncode == 0

    def _tell_end(self, returncode: int | None) -> None:
        self._followed.copy()
        emit(event="exited", returncode=returncode, stop_requested=self._stop.stopping)

    def _end_command(self, command: subprocess.Popen[bytes]) -> bool:
        """A restart command that still runs is ended with its group; whether KILL was needed."""
        if command.poll() is not None:
            return False
        for number, patience_s in ((signal.SIGTERM, self._grace_s), (signal.SIGKILL, 20.0)):
            _signal_group(command.pid, number)
            try:
                command.wait(patience_s)
            except subprocess.TimeoutExpired:
                continue
            return number == signal.SIGKILL
        return True

    def _run_stop(self) -> None:
        command = self._request["stop"]
        if not command:
            return
        try:
            stop = self._spawn(command)
        except OSError as error:
            _say(f"the stop command: {error}")
            return
        deadline = time.monotonic() + self._grace_s + STOP_TIMEOUT_S
        while stop.poll() is None and time.monotonic() < deadline:
            self._pause()
        self._end_command(stop)
        if stop.returncode != 0:
            _say(f"the stop command ended with {stop.returncode}")

    def _pause(self) -> None:
        self._followed.copy()
        if self._stop.stopping:
            time.sleep(POLL_S)
        else:
            self._stop.wait(POLL_S)

    def _spawn(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(  # noqa: S603 - a list, allow-listed by the operator
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=_LOG,
            stderr=_LOG,
            env=self._request["env"],
            start_new_session=True,
        )


def _signal_group(pid: int, number: int) -> None:
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        return


def _write(data: bytes) -> None:
    while data:
        data = data[os.write(_LOG, data) :]


def _say(text: str) -> None:
    _write(f"servetune: {text}\n".encode())


def main() -> int:
    reader, _writer = os.pipe()
    try:
        request = read_request()
        guard = AttachedGuard(request, StopSignals(int(request["worker_pid"]), reader))
    except (OSError, ValueError, KeyError) as error:
        emit(event="failed", errno=None, message=f"guard: {error}")
        return 1
    return guard.run()


if __name__ == "__main__":
    sys.exit(main())
