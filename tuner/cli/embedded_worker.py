"""The worker of `servetune serve`: a process of its own, started again when it dies.

Its own, so that the front end's event loop is never held up by numpy or Optuna. It holds the other
end of a pipe: when the front end is gone, however it went, the worker drains and ends.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from tuner.worker.locations import Locations

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0
DRAIN_S = 90.0
"""For the worker to stop its engine; what is left after that, its guard stops."""

log = logging.getLogger(__name__)


def worker_command(locations: Locations) -> tuple[str, ...]:
    """The worker of this front end's studies; the database's URL stays out of the process list."""
    return (sys.executable, "-P", "-m", "tuner.cli.embedded_worker", str(locations.state_dir))


def worker_environment(locations: Locations) -> dict[str, str]:
    """The environment of the worker, with the place of its database."""
    return {**os.environ, "SERVETUNE_DATABASE_URL": locations.database.text}


class EmbeddedWorker:
    """Keeps one worker running while it is entered."""

    def __init__(
        self,
        command: Sequence[str],
        environment: dict[str, str] | None = None,
        *,
        first_pause_s: float = FIRST_PAUSE_S,
        drain_s: float = DRAIN_S,
    ) -> None:
        self._command = tuple(command)
        self._environment = environment
        self._first_pause_s = first_pause_s
        self._drain_s = drain_s
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._supervise, name="embedded-worker", daemon=True)

    @property
    def pid(self) -> int | None:
        """The worker's process, while there is one."""
        process = self._process
        return None if process is None else process.pid

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.ask_to_stop()
        self._thread.join(self._drain_s)
        if self._thread.is_alive():
            with self._lock:
                if self._process is not None and self._process.poll() is None:
                    self._process.kill()
            self._thread.join()

    def ask_to_stop(self) -> None:
        """Let the worker drain; again changes nothing."""
        with self._lock:
            first = not self._stopping.is_set()
            self._stopping.set()
            if first and self._process is not None and self._process.poll() is None:
                self._process.send_signal(signal.SIGTERM)

    def _supervise(self) -> None:
        pause_s = self._first_pause_s
        while not self._stopping.is_set():
            status = self._run_once()
            if self._stopping.is_set():
                return
            log.error("the worker ended and is started again", extra={"status": status})
            self._stopping.wait(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _run_once(self) -> int | None:
        with self._lock:
            if self._stopping.is_set():
                return None
            self._process = subprocess.Popen(  # noqa: S603  # our own interpreter and module
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                env=self._environment,
                start_new_session=True,
            )
        try:
            return self._process.wait()
        finally:
            if self._process.stdin is not None:
                self._process.stdin.close()


def main(arguments: Sequence[str]) -> int:
    """The worker's process: as `servetune worker`, until standard input ends or SIGTERM."""
    from tuner.cli.entry import run

    watcher = threading.Thread(target=_stop_with_parent, name="parent-watch", daemon=True)
    watcher.start()
    return run(("worker", "--state-dir", *arguments))


def _stop_with_parent() -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
