"""`python -m tuner.engine.guard`: a small process that owns an engine and outlives the worker.

It speaks JSON lines: a request and `stop` on standard input; `started` or `failed`, `exited` and
`done` on standard output. The engine's own output comes through a pipe and goes, without secrets
and bounded, to the log that is the guard's standard error. Standard library only, single-threaded,
no imports that are not needed to start.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import select
import signal
import sys
import time
from pathlib import Path
from typing import Any

from tuner.engine.log_writer import LogWriter
from tuner.engine.process_tree import (
    ProcessStat,
    descendants,
    read_process,
    read_processes,
    send_signal,
)
from tuner.engine.shared_memory import (
    TRACKER_WAIT_S,
    mapped_segments,
    remove_segments,
    without_trackers,
)

PR_SET_CHILD_SUBREAPER = 36
POLL_S = 0.05
TERM_ROUNDS = 3
"""A SIGTERM can be lost while an engine starts, so it is repeated within the grace."""
ORPHAN_GRACE_S = 2.0
"""What the engine's main process left behind gets this long to end by itself."""
KILL_WAIT_S = 20.0
"""After SIGKILL: only a process in uninterruptible sleep needs longer."""
CHUNK_BYTES = 65536
PIPE_BYTES = 1024 * 1024
"""What an engine may write before it has to wait for this process."""
_IN, _OUT, _LOG = 0, 1, 2


class Guard:
    """One engine from spawn to the last of its descendants."""

    def __init__(self, request: dict[str, Any]) -> None:
        self._request = request
        self._grace_s = float(request["grace_s"])
        self._engine_pid = 0
        self._exit_code: int | None = None
        self._exited_after_stop = False
        self._stopping = False
        self._buffer = b""
        self._output, self._engine_output = _output_pipe()
        self._log = LogWriter(_LOG, Path(request["log_path"]), request["secrets"])
        self._wakeup = install_signal_handlers()
        self._worker = pidfd(int(request["worker_pid"]))

    def run(self) -> int:
        if not self._spawn():
            return 1
        self._watch()
        killed = self._terminate()
        self._copy_output()
        self._log.flush()
        survivors = [process.pid for process in self._remaining()]
        emit(event="done", killed=killed, survivors=survivors)
        return 0

    def _spawn(self) -> bool:
        try:
            pid = os.posix_spawn(
                self._request["executable"],
                self._request["argv"],
                self._request["env"],
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, _IN, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, self._engine_output, _OUT),
                    (os.POSIX_SPAWN_DUP2, self._engine_output, _LOG),
                ],
                setsid=True,
                setsigmask=[],
                setsigdef=_catchable_signals(),
            )
        except (OSError, ValueError) as error:
            emit(event="failed", errno=getattr(error, "errno", None), message=str(error))
            return False
        finally:
            os.close(self._engine_output)
        self._engine_pid = pid
        stat = read_process(pid)
        emit(event="started", pid=pid, start_ticks=stat.start_ticks if stat else 0)
        return True

    def _watch(self) -> None:
        """Until the worker asks for a stop, dies, or this process is asked to end."""
        poll = select.poll()
        for descriptor in (_IN, self._wakeup, self._worker, self._output):
            if descriptor is not None:
                poll.register(descriptor, select.POLLIN)
        while not self._stopping:
            ready = {descriptor for descriptor, _ in poll.poll()}
            if self._output in ready and not self._copy_output():
                poll.unregister(self._output)
            if self._wakeup in ready:
                self._stopping = signal.SIGTERM in os.read(self._wakeup, 4096)
                self._reap()
            if _IN in ready:
                self._read_command()
            if self._worker in ready:
                self._stopping = True

    def _read_command(self) -> None:
        chunk = os.read(_IN, 4096)
        self._buffer += chunk
        self._stopping = self._stopping or not chunk or b"stop\n" in self._buffer

    def _copy_output(self) -> bool:
        """Pass on what the engine has written until now; False once nobody can write any more."""
        while True:
            try:
                chunk = os.read(self._output, CHUNK_BYTES)
            except BlockingIOError:
                return True
            if not chunk:
                return False
            self._log.write(chunk)

    def _reap(self) -> None:
        """Note the engine's exit, and bury whoever was re-parented to us.

        The engine's own zombie stays until the end: it keeps its pid, hence its group's name, from
        being reused, so that `killpg` can never hit a stranger.
        """
        if self._exit_code is None:
            flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
            status = os.waitid(os.P_PID, self._engine_pid, flags)
            if status is not None:
                killed = status.si_code in (os.CLD_KILLED, os.CLD_DUMPED)
                self._exit_code = -status.si_status if killed else status.si_status
                self._exited_after_stop = self._stopping
                # Its last words are in the log before anybody hears that it has ended.
                self._copy_output()
                self._log.flush()
                emit(event="exited", returncode=self._exit_code, stop_requested=self._stopping)
        me = os.getpid()
        for process in read_processes().values():
            zombie = process.ppid == me and not process.running
            if zombie and process.pid != self._engine_pid:
                _bury(process.pid)

    def _terminate(self) -> bool:
        """TERM, grace, KILL of the group and of every descendant; whether KILL was needed."""
        deadline = time.monotonic() + self._grace_s
        next_term = time.monotonic()
        while self._exit_code is None and time.monotonic() < deadline:
            if time.monotonic() >= next_term:
                _signal_child(self._engine_pid, signal.SIGTERM)
                next_term += max(self._grace_s / TERM_ROUNDS, 0.5)
            self._pause()
        if self._exit_code is not None:
            self._dismiss_orphans()
        killed = bool(self._remaining())
        self._kill_remaining()
        return killed

    def _dismiss_orphans(self) -> None:
        for process in self._remaining():
            send_signal(process, signal.SIGTERM)
        deadline = time.monotonic() + min(ORPHAN_GRACE_S, self._grace_s)
        while self._remaining() and time.monotonic() < deadline:
            self._pause()

    def _kill_remaining(self) -> None:
        """SIGKILL to all: first those whose shared memory somebody has to remove, then him."""
        segments = mapped_segments(process.pid for process in self._remaining())
        deadline = time.monotonic() + KILL_WAIT_S
        while (rest := without_trackers(self._remaining())) and time.monotonic() < deadline:
            for process in rest:
                send_signal(process, signal.SIGKILL)
            self._pause()
        patience = time.monotonic() + TRACKER_WAIT_S
        while self._remaining() and time.monotonic() < patience:
            self._pause()
        while self._remaining() and time.monotonic() < deadline:
            _signal_child(-self._engine_pid, signal.SIGKILL)
            for process in self._remaining():
                send_signal(process, signal.SIGKILL)
            self._pause()
        self._reap()
        remove_segments(segments)

    def _remaining(self) -> list[ProcessStat]:
        """Everybody below us that runs: as subreaper we are an ancestor of all, whatever group."""
        everybody = descendants([os.getpid()], read_processes())
        return [process for process in everybody if process.running]

    def _pause(self) -> None:
        """A moment, cut short by a child's end."""
        woken, _, _ = select.select([self._wakeup], [], [], POLL_S)
        self._copy_output()
        if woken and signal.SIGCHLD in os.read(self._wakeup, 4096):
            self._reap()


def emit(**event: object) -> None:
    """Tell the worker; when it is gone there is nobody to tell."""
    with contextlib.suppress(OSError):
        os.write(_OUT, json.dumps(event).encode() + b"\n")


def install_signal_handlers() -> int:
    """Handlers, not SIG_IGN (which an engine would inherit). Returns the wake-up descriptor.

    A terminal's Ctrl-C or hang-up ends nothing here: the worker decides. SIGTERM asks for a stop.
    """
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in (
        signal.SIGCHLD,
        signal.SIGHUP,
        signal.SIGINT,
        signal.SIGQUIT,
        signal.SIGTERM,
        signal.SIGUSR1,
        signal.SIGUSR2,
        signal.SIGALRM,
    ):
        signal.signal(number, _only_wake_up)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    return reader


def _output_pipe() -> tuple[int, int]:
    """The end we read, which never makes us wait, and the end the engine writes to."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    with contextlib.suppress(OSError):  # beyond an unprivileged user's share
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    return reader, writer


def _only_wake_up(_number: int, _frame: object) -> None:
    """The wake-up descriptor carries the number."""


def _catchable_signals() -> set[int]:
    return {int(number) for number in signal.valid_signals()} - {signal.SIGKILL, signal.SIGSTOP}


def pidfd(pid: int) -> int | None:
    """A descriptor that becomes readable when the worker dies, even if a child of the worker keeps
    our pipe open; None when the worker is gone already (then the pipe is at its end)."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def _signal_child(pid_or_group: int, number: int) -> None:
    """A negative number is a process group, as in kill(2).

    When nobody is left in it, or it changed its user: who survives is reported at the end.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid_or_group, number)


def _bury(pid: int) -> None:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def _become_subreaper() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl(PR_SET_CHILD_SUBREAPER): {os.strerror(number)}")


def read_request() -> dict[str, Any]:
    """The first line; OSError when the worker died before it was written."""
    data = b""
    while not data.endswith(b"\n"):
        chunk = os.read(_IN, 65536)
        if not chunk:
            raise OSError(errno.EPIPE, "the worker ended before it sent a request")
        data += chunk
    request: dict[str, Any] = json.loads(data)
    return request


def main() -> int:
    try:
        request = read_request()
        _become_subreaper()
        guard = Guard(request)
    except (OSError, ValueError, KeyError) as error:
        emit(event="failed", errno=None, message=f"guard: {error}")
        return 1
    return guard.run()


if __name__ == "__main__":
    sys.exit(main())
