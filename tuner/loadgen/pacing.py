"""Waking up at an absolute time, more exactly than the loop's own timers of one millisecond."""

from __future__ import annotations

import asyncio
import ctypes
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

CLOCK_MONOTONIC = 1
TFD_TIMER_ABSTIME = 1
TFD_NONBLOCK = os.O_NONBLOCK
TFD_CLOEXEC = os.O_CLOEXEC


class Pacer:
    """Waits on a Linux timer descriptor. Times are seconds of `time.monotonic`.

    For one waiter at a time.
    """

    def __init__(self, descriptor: int, libc: ctypes.CDLL) -> None:
        self._descriptor = descriptor
        self._libc = libc
        self._expired = asyncio.Event()
        asyncio.get_running_loop().add_reader(descriptor, self._on_expiry)

    async def until(self, at_s: float) -> None:
        """Return at `at_s`; at once, but after a turn of the loop, when that has passed."""
        if at_s <= time.monotonic():
            await asyncio.sleep(0)
            return
        self._expired.clear()
        self._arm(at_s)
        await self._expired.wait()

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._descriptor)
        os.close(self._descriptor)

    def _arm(self, at_s: float) -> None:
        seconds, fraction = divmod(at_s, 1.0)
        setting = (ctypes.c_long * 4)(0, 0, int(seconds), int(fraction * 1e9))
        if self._libc.timerfd_settime(self._descriptor, TFD_TIMER_ABSTIME, setting, None) != 0:
            raise OSError(ctypes.get_errno(), "timerfd_settime failed")

    def _on_expiry(self) -> None:
        os.read(self._descriptor, 8)
        self._expired.set()


@contextmanager
def pacer() -> Iterator[Pacer]:
    """A pacer on the running loop. Raises OSError where the kernel has no timer descriptors."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), "timerfd_create failed")
    timer = Pacer(descriptor, libc)
    try:
        yield timer
    finally:
        timer.close()
