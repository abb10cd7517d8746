"""Starts servers of known schedule and collects their accounts."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from tuner.errors import LoadGeneratorError
from tuner.loadgen.records import FloatArray

MODULE = "tuner.loadgen.selftest.known_schedule"


@dataclass(frozen=True, slots=True, eq=False)
class Account:
    """What the servers did: times of what they wrote, and how busy the busiest was."""

    ttft_ms: FloatArray
    itl_ms: FloatArray
    late_ms: FloatArray
    cpu_share: float


class KnownScheduleServers:
    """Several processes behind one port."""

    def __init__(self, processes: list[subprocess.Popen[bytes]], port: int) -> None:
        self._processes = processes
        self.url = f"http://127.0.0.1:{port}"

    def account(self) -> Account:
        """Since the last one."""
        with tempfile.TemporaryDirectory() as name:
            paths = [Path(name) / f"{number}.npz" for number in range(len(self._processes))]
            for process, path in zip(self._processes, paths, strict=True):
                _pipe(process.stdin).write(f"{path}\n".encode())
                _pipe(process.stdin).flush()
            for process in self._processes:
                _read_line(process)
            return _joined(paths)


def _joined(paths: list[Path]) -> Account:
    stored = [np.load(path, allow_pickle=False) for path in paths]

    def column(name: str) -> FloatArray:
        return np.concatenate([each[name] for each in stored])

    return Account(
        ttft_ms=column("ttft_ms"),
        itl_ms=column("itl_ms"),
        late_ms=column("late_ms"),
        cpu_share=max(float(each["cpu_share"]) for each in stored),
    )


@contextmanager
def known_schedule_servers(
    count: int, ttft_ms: float, itl_ms: float
) -> Iterator[KnownScheduleServers]:
    """Servers that share one port; they have ended on leaving, and end when this process does."""
    with ExitStack() as stack:
        processes: list[subprocess.Popen[bytes]] = []
        port = 0
        for _ in range(count):
            process = subprocess.Popen(  # noqa: S603  # our own interpreter and module
                [sys.executable, "-P", "-m", MODULE, str(ttft_ms), str(itl_ms), str(port)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,
            )
            stack.callback(_end, process)
            port = int(_read_line(process))
            processes.append(process)
        yield KnownScheduleServers(processes, port)


def _read_line(process: subprocess.Popen[bytes]) -> bytes:
    line = _pipe(process.stdout).readline()
    if not line:
        raise LoadGeneratorError("the selftest's server ended by itself")
    return line


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    if stream is None:
        raise ValueError("the process was started without pipes")
    return stream


def _end(process: subprocess.Popen[bytes]) -> None:
    _pipe(process.stdin).close()
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    _pipe(process.stdout).close()
