"""Processor time and memory of a client that is several processes, sampled while it runs."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Self

import numpy as np

PERIOD_S = 0.2
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 2**20


class SessionUsage:
    """Of all processes of one session, as a context manager."""

    def __init__(self, session: int) -> None:
        self._session = session
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._unix_s: list[float] = []
        self._cpu_s: list[float] = []
        self._ended: dict[int, float] = {}
        self.memory_mb = 0.0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def cpu_s(self, begin_unix_s: float, end_unix_s: float) -> float:
        """Processor seconds between two moments, interpolated between samples; 0 without any."""
        if not self._unix_s:
            return 0.0
        at_s = np.interp([begin_unix_s, end_unix_s], self._unix_s, self._cpu_s)
        return float(at_s[1] - at_s[0])

    def _run(self) -> None:
        while not self._stop.wait(PERIOD_S):
            memory_mb = 0.0
            for pid, cpu_s, resident_mb in _members(self._session):
                # What a process used stays counted when it has ended.
                self._ended[pid] = cpu_s
                memory_mb += resident_mb
            self._unix_s.append(time.time())
            self._cpu_s.append(sum(self._ended.values()))
            self.memory_mb = max(self.memory_mb, memory_mb)


def _members(session: int) -> list[tuple[int, float, float]]:
    """Process id, own processor seconds and resident memory of each process of the session."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        if int(fields[3]) == session:
            cpu_s = (int(fields[11]) + int(fields[12])) / TICKS_PER_S
            found.append((int(entry.name), cpu_s, int(fields[21]) * PAGE_MB))
    return found
