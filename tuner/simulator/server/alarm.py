"""Waiting for a point of the monotonic clock more finely than an event loop's timers can."""

from __future__ import annotations

import asyncio
import ctypes
import os
import time

_CLOCK_MONOTONIC = 1
_TFD_TIMER_ABSTIME = 1
_TFD_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _TimerSpec(ctypes.Structure):
    _fields_ = (("interval", _Timespec), ("value", _Timespec))


class Alarm:
    """One absolute timer of the running event loop; one waiter at a time.

    Event loop timers have a resolution of a millisecond, which at ten engine seconds per wall
    second is half a decoding step. Linux timer descriptors wake within a tenth of that; where they
    do not exist the loop's timers are used.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = _create_timer(self._libc)
        if self._descriptor is not None:
            self._loop.add_reader(self._descriptor, self._fired)

    async def wait_until(self, deadline_s: float) -> None:
        """Return at `deadline_s` of `time.monotonic()`; a past deadline only lets others run."""
        remaining_s = deadline_s - time.monotonic()
        if remaining_s <= 0:
            await asyncio.sleep(0)
        elif self._descriptor is None:
            await asyncio.sleep(remaining_s)
        else:
            self._arm(self._descriptor, deadline_s)
            self._waiter = self._loop.create_future()
            await self._waiter

    def close(self) -> None:
        if self._descriptor is not None:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = None

    def _arm(self, descriptor: int, deadline_s: float) -> None:
        seconds = int(deadline_s)
        nanoseconds = max(1, int((deadline_s - seconds) * 1e9))
        spec = _TimerSpec(_Timespec(0, 0), _Timespec(seconds, nanoseconds))
        result = self._libc.timerfd_settime(
            descriptor, _TFD_TIMER_ABSTIME, ctypes.byref(spec), None
        )
        if result != 0:
            raise OSError(ctypes.get_errno(), "timerfd_settime")

    def _fired(self) -> None:
        assert self._descriptor is not None  # noqa: S101 -- the reader is removed with it
        try:
            os.read(self._descriptor, 8)
        except BlockingIOError:
            return
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def _create_timer(libc: ctypes.CDLL) -> int | None:
    create = getattr(libc, "timerfd_create", None)
    descriptor = -1 if create is None else int(create(_CLOCK_MONOTONIC, _TFD_FLAGS))
    return None if descriptor < 0 else descriptor
