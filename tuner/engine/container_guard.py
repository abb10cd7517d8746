"""`tuner.engine.container_guard`: a process that owns one container and outlives the worker.

It speaks the JSON lines of `tuner.engine.guard`; the container's output goes to its standard
error. The worker's death ends the container in order: TERM, grace, KILL, removal.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tuner.engine.container_api import ApiRefusalError, ContainerApi, connect
from tuner.engine.guard import emit, read_request
from tuner.engine.log_writer import LogWriter
from tuner.engine.orphan_containers import GUARD_LABEL, identity_text
from tuner.engine.process_tree import read_process
from tuner.engine.stop_signals import StopSignals
from tuner.errors import ServeTuneError

TERM_ROUNDS = 3
"""PID 1 ignores a SIGTERM until it has a handler for it, so it is repeated within the grace."""
KILL_WAIT_S = 20.0
REMOVE_TRIES = 5
RETRY_S = 1.0
LOOK_S = 2.0
"""Between looks at a container whose output has not ended."""
LOG_WAIT_S = 5.0
_LOG = 2
_SHELL_SIGNALS = range(129, 193)
"""Exit codes that stand for a signal: 128 and its number."""


class ContainerGuard:
    """One container from its creation to its removal."""

    def __init__(self, api: ContainerApi, request: Mapping[str, Any], stop: StopSignals) -> None:
        self._api = api
        self._request = request
        self._stop = stop
        self._grace_s = float(request["grace_s"])
        self._container = ""
        self._pid = os.getpid()

    def run(self, ended: int) -> int:
        """`ended` is the descriptor that is closed when the container has ended."""
        try:
            self._start()
        except ApiRefusalError as error:
            emit(event="failed", errno=None, message=error.message)
            if self._container:
                self._remove()
            os.close(ended)
            return 1
        threading.Thread(target=self._await_end, args=(ended,), daemon=True).start()
        while not (self._stop.stopping or self._stop.ended):
            self._stop.wait()
        told = self._stop.ended
        if told:
            self._tell_end(requested=False)
            while not self._stop.stopping:
                self._stop.wait()
        killed = False if told else self._terminate()
        if not told:
            self._tell_end(requested=True)
        emit(event="done", killed=killed, survivors=[] if self._remove() else [self._pid])
        return 0

    def _start(self) -> None:
        me = read_process(os.getpid())
        options = dict(self._request["create"])
        identity = identity_text(os.getpid(), me.start_ticks if me else 0)
        options["labels"] = {**options["labels"], GUARD_LABEL: identity}
        self._container = self._api.create(**options)
        for path, content in self._request["secret_files"].items():
            self._api.put_file(self._container, path, str(content).encode())
        chunks = self._api.output(self._container)
        writer = LogWriter(_LOG, Path(self._request["log_path"]), self._request["secrets"])
        self._log = threading.Thread(target=_copy, args=(chunks, writer), daemon=True)
        self._log.start()
        self._api.start(self._container)
        self._tell_start()

    def _tell_start(self) -> None:
        """The container's first process as this host sees it; of a host that does not, our own."""
        found = self._api.inspect(self._container) or {}
        pid = int(found.get("State", {}).get("Pid") or 0)
        stat = read_process(pid) if pid else None
        if stat is None:
            pid, stat = os.getpid(), read_process(os.getpid())
        self._pid = pid
        emit(event="started", pid=pid, start_ticks=stat.start_ticks if stat else 0)

    def _await_end(self, ended: int) -> None:
        """The output ends with the container, or the API says so; one that does not answer for a
        while (the daemon restarts) is asked again.

        `wait` comes last because podman (4.3) looks into its database some hundred times a second
        for as long as it is asked, which takes most of a core from the engine.
        """
        while self._log.is_alive() and self._state() is None:
            self._log.join(LOOK_S)
        while True:
            try:
                self._api.wait(self._container)
                break
            except ApiRefusalError as error:
                if error.status == 404:
                    break
                time.sleep(RETRY_S)
        self._log.join(LOG_WAIT_S)
        os.close(ended)

    def _tell_end(self, *, requested: bool) -> None:
        state = self._state()
        if state is None:
            return
        if state.get("OOMKilled"):
            _say("the container was OOMKilled: it reached its memory limit, or the host's end")
        code = int(state.get("ExitCode") or 0)
        emit(event="exited", returncode=as_returncode(code), stop_requested=requested)

    def _state(self) -> Mapping[str, Any] | None:
        """None while it runs, is gone or nobody tells."""
        try:
            found = self._api.inspect(self._container)
        except ApiRefusalError:
            return None
        state: Mapping[str, Any] = (found or {}).get("State") or {"Running": True}
        return None if state.get("Running") else state

    def _terminate(self) -> bool:
        """TERM, grace, KILL; whether KILL was needed."""
        deadline = time.monotonic() + self._grace_s
        pause_s = max(self._grace_s / TERM_ROUNDS, 0.5)
        while not self._stop.ended and (left_s := deadline - time.monotonic()) > 0:
            self._signal("SIGTERM")
            self._stop.wait_for_end(min(pause_s, left_s))
        if self._stop.ended:
            return False
        self._signal("SIGKILL")
        self._stop.wait_for_end(KILL_WAIT_S)
        return True

    def _signal(self, name: str) -> None:
        try:
            self._api.signal(self._container, name)
        except ApiRefusalError as error:
            _say(f"{name} could not be sent to the container: {error.message}")

    def _remove(self) -> bool:
        for _ in range(REMOVE_TRIES):
            try:
                self._api.remove(self._container)
            except ApiRefusalError as error:
                _say(f"the container could not be removed: {error.message}")
                time.sleep(RETRY_S)
            else:
                return True
        return False


def as_returncode(exit_code: int) -> int:
    """A container's exit code as a process has it: negative where a signal ended it."""
    return 128 - exit_code if exit_code in _SHELL_SIGNALS else exit_code


def _copy(chunks: Any, log: LogWriter) -> None:
    """The container's output into the log, as it comes; ends with it or with the connection."""
    try:
        for chunk in chunks:
            log.write(bytes(chunk))
    except (ApiRefusalError, OSError) as error:
        _say(f"the container's output broke off: {error}")
    finally:
        log.flush()


def _say(text: str) -> None:
    os.write(_LOG, f"servetune: {text}\n".encode())


def main() -> int:
    reader, writer = os.pipe()
    try:
        request = read_request()
        stop = StopSignals(int(request["worker_pid"]), reader)
        api = connect()
        guard = ContainerGuard(api, request, stop)
    except (OSError, ValueError, KeyError, ServeTuneError) as error:
        emit(event="failed", errno=None, message=f"guard: {error}")
        return 1
    return guard.run(writer)


if __name__ == "__main__":
    sys.exit(main())
