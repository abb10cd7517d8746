"""Locks between the processes of one host, kept by the kernel and freed when the holder dies."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_POLL_S = 0.05


class LockHeldError(Exception):
    """Another process has the lock; `holder_pid` is what it wrote into the file."""

    def __init__(self, path: Path, holder_pid: int | None) -> None:
        super().__init__(f"{path} is locked by pid {holder_pid}")
        self.holder_pid = holder_pid


@contextmanager
def file_lock(path: Path, *, wait_s: float) -> Iterator[None]:
    """Hold an exclusive lock on the file for the block.

    Raises LockHeldError after `wait_s` seconds, OSError where the file cannot be made. The file
    stays behind: removing it would let two processes lock two files of one name.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _acquire(descriptor, path, time.monotonic() + wait_s)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _acquire(descriptor: int, path: Path, deadline: float) -> None:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise LockHeldError(path, _holder(descriptor)) from None
            time.sleep(_POLL_S)
        else:
            return


def _holder(descriptor: int) -> int | None:
    text = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
    return int(text) if text.isdigit() else None
