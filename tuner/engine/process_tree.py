"""Processes as /proc shows them. Standard library only: the guard starts with this module."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Mapping
from typing import NamedTuple


class ProcessStat(NamedTuple):
    """One line of /proc/PID/stat; `start_ticks` tells a process from a later one with its pid."""

    pid: int
    state: str
    ppid: int
    pgid: int
    sid: int
    start_ticks: int

    @property
    def running(self) -> bool:
        """False for a zombie: it holds nothing but its pid."""
        return self.state not in "ZXx"


ProcessTable = Mapping[int, ProcessStat]


def parse_stat(text: str) -> ProcessStat:
    """The command name may contain spaces and parentheses: fields count from the last `)`."""
    head, _, tail = text.rpartition(")")
    fields = tail.split()
    return ProcessStat(
        pid=int(head.split("(", 1)[0]),
        state=fields[0],
        ppid=int(fields[1]),
        pgid=int(fields[2]),
        sid=int(fields[3]),
        start_ticks=int(fields[19]),
    )


def read_process(pid: int) -> ProcessStat | None:
    """None when there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stat:  # noqa: PTH123
            return parse_stat(stat.read())
    except (FileNotFoundError, ProcessLookupError):
        return None


def read_processes() -> dict[int, ProcessStat]:
    """Every process of this pid namespace, zombies included."""
    found = (read_process(int(name)) for name in os.listdir("/proc") if name.isdigit())  # noqa: PTH208
    return {process.pid: process for process in found if process is not None}


def is_running(pid: int, start_ticks: int) -> bool:
    """Whether this very process still runs (a zombie does not)."""
    process = read_process(pid)
    return process is not None and process.start_ticks == start_ticks and process.running


def descendants(roots: Iterable[int], table: ProcessTable) -> list[ProcessStat]:
    """Children of `roots` and theirs, without the roots, parents first."""
    children: dict[int, list[ProcessStat]] = {}
    for process in table.values():
        children.setdefault(process.ppid, []).append(process)
    found: dict[int, ProcessStat] = {}
    pending = list(roots)
    while pending:
        for child in children.get(pending.pop(0), ()):
            if child.pid not in found:
                found[child.pid] = child
                pending.append(child.pid)
    return list(found.values())


def group_members(leader_pid: int, table: ProcessTable) -> list[ProcessStat]:
    """Processes whose process group or session is called `leader_pid`."""
    return [process for process in table.values() if leader_pid in (process.pgid, process.sid)]


def send_signal(process: ProcessStat, number: int) -> bool:
    """Signal this very process: through a pidfd, so that a reused pid is never hit.

    False when it is gone or may not be signalled.
    """
    try:
        pidfd = os.pidfd_open(process.pid)
    except OSError:
        return False
    try:
        current = read_process(process.pid)
        if current is None or current.start_ticks != process.start_ticks:
            return False
        signal.pidfd_send_signal(pidfd, number)
    except OSError:
        return False
    else:
        return True
    finally:
        os.close(pidfd)
