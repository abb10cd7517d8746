"""Shared memory that killed engines leave in /dev/shm. Standard library only: the guard uses it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping

from tuner.engine.process_tree import ProcessStat, read_processes

DIRECTORY = "/dev/shm/"  # noqa: S108 - the kernel's own name for POSIX shared memory

TRACKER_WAIT_S = 3.0
"""A resource tracker removes what its dead clients registered within a moment."""

Segments = Mapping[str, int]
"""Path to inode: a name that was used again is another segment."""


def is_resource_tracker(pid: int) -> bool:
    """Whether this is the process in which Python's multiprocessing removes what the dead left.

    Killed last, or not at all: it ends when the last of its clients has.
    """
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:  # noqa: PTH123
            return b"multiprocessing.resource_tracker" in file.read()
    except OSError:
        return False


def without_trackers(processes: Iterable[ProcessStat]) -> list[ProcessStat]:
    """Those that may be killed at once."""
    return [process for process in processes if not is_resource_tracker(process.pid)]


def mapped_segments(pids: Iterable[int]) -> dict[str, int]:
    """The named segments and semaphores these processes have mapped, as far as we may see."""
    found: dict[str, int] = {}
    for pid in pids:
        with (
            contextlib.suppress(OSError),
            open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as maps,  # noqa: PTH123
        ):
            for line in maps:
                # Address, permissions, offset, device, inode, path.
                fields = line.split(maxsplit=5)
                if len(fields) == 6 and fields[5].startswith(DIRECTORY):
                    found[fields[5].rstrip("\n")] = int(fields[4])
    return found


def remove_segments(segments: Segments) -> None:
    """Remove those that are still there, are ours, and that no living process has mapped."""
    left = {path: inode for path, inode in segments.items() if _is_ours(path, inode)}
    if not left:
        return
    used = mapped_segments(process.pid for process in read_processes().values())
    for path in left.keys() - used.keys():
        with contextlib.suppress(OSError):
            os.unlink(path)  # noqa: PTH108


def _is_ours(path: str, inode: int) -> bool:
    try:
        stat = os.stat(path, follow_symlinks=False)  # noqa: PTH116
    except OSError:
        return False
    return stat.st_ino == inode and stat.st_uid == os.getuid()
