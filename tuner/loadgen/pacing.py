"""Doing things at moments fixed beforehand, more exactly than the loop's own timers of 1 ms."""

from __future__ import annotations

import asyncio
import ctypes
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

CLOCK_MONOTONIC = 1
TFD_TIMER_ABSTIME = 1
TFD_NONBLOCK = os.O_NONBLOCK
TFD_CLOEXEC = getattr(os, "O_CLOEXEC", 0)


class Pacer(ABC):
    """Calls a function at given moments of `time.monotonic`, one schedule at a time."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._moments_s: Sequence[float] = ()
        self._act: Callable[[int], None] = _nothing
        self._next = 0
        self._finished: asyncio.Future[None] | None = None

    async def pace(self, moments_s: Sequence[float], act: Callable[[int], None]) -> None:
        """Call `act(number)` at each moment, in order; return after the last. Never early.

        `act` runs in the turn of the loop in which its moment is noticed, without a task: waking
        one would take another turn, with the reads of every stream in between. Moments that have
        passed are made up for at once. Raises what `act` raises; cancelling ends the schedule.
        """
        self._moments_s, self._act, self._next = moments_s, act, 0
        self._finished = finished = self._loop.create_future()
        self._catch_up()
        try:
            await finished
        finally:
            self._finished = None
            self._disarm()

    @abstractmethod
    def close(self) -> None:
        """Free what the pacer holds."""

    @abstractmethod
    def _arm(self, at_s: float) -> None:
        """See to it that `_catch_up` is called at `at_s`; a little early is allowed."""

    @abstractmethod
    def _disarm(self) -> None:
        """Take the last `_arm` back."""

    def _catch_up(self) -> None:
        finished = self._finished
        if finished is None or finished.done():
            return
        try:
            while self._next < len(self._moments_s):
                at_s = self._moments_s[self._next]
                if at_s > time.monotonic():
                    self._arm(at_s)
                    return
                self._next += 1
                self._act(self._next - 1)
            finished.set_result(None)
        except Exception as error:  # noqa: BLE001  # handed to whoever awaits the schedule
            finished.set_exception(error)


def _nothing(_: int) -> None:
    """What an idle pacer does."""


class TimerDescriptor:
    """A Linux timer descriptor on the running loop, set to absolute times with nanoseconds."""

    def __init__(self, on_expiry: Callable[[], None]) -> None:
        """Raises OSError where the system has no timer descriptors."""
        self._loop = asyncio.get_running_loop()
        self._on_expiry = on_expiry
        self._libc = ctypes.CDLL(None, use_errno=True)
        if not hasattr(self._libc, "timerfd_create"):
            raise OSError("the C library has no timer descriptors")
        self._descriptor = self._libc.timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)
        if self._descriptor < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create failed")
        self._loop.add_reader(self._descriptor, self._expired)

    def close(self) -> None:
        """Free it; it does not expire any more."""
        self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)

    def arm(self, at_s: float) -> None:
        """Expire at this moment of `time.monotonic`, instead of what was set before."""
        seconds, fraction = divmod(at_s, 1.0)
        # A time of zero would disarm it.
        self._set(int(seconds), int(fraction * 1e9) or 1)

    def disarm(self) -> None:
        """Do not expire."""
        self._set(0, 0)

    def _set(self, seconds: int, nanoseconds: int) -> None:
        setting = (ctypes.c_long * 4)(0, 0, seconds, nanoseconds)
        if self._libc.timerfd_settime(self._descriptor, TFD_TIMER_ABSTIME, setting, None) != 0:
            raise OSError(ctypes.get_errno(), "timerfd_settime failed")

    def _expired(self) -> None:
        try:
            os.read(self._descriptor, 8)
        except BlockingIOError:  # set anew since it was seen to have expired
            return
        self._on_expiry()


class TimerDescriptorPacer(Pacer):
    """Waits on a timer descriptor."""

    def __init__(self) -> None:
        """Raises OSError where the system has no timer descriptors."""
        super().__init__()
        self._timer = TimerDescriptor(self._catch_up)

    def close(self) -> None:
        self._timer.close()

    def _arm(self, at_s: float) -> None:
        self._timer.arm(at_s)

    def _disarm(self) -> None:
        self._timer.disarm()


class LoopTimerPacer(Pacer):
    """Waits on the loop's timers, where there is nothing better."""

    def __init__(self) -> None:
        super().__init__()
        self._timer: asyncio.TimerHandle | None = None

    def close(self) -> None:
        self._disarm()

    def _arm(self, at_s: float) -> None:
        self._timer = self._loop.call_later(at_s - time.monotonic(), self._catch_up)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


@contextmanager
def pacer() -> Iterator[Pacer]:
    """The most exact pacer that the system has, on the running loop."""
    try:
        timer: Pacer = TimerDescriptorPacer()
    except OSError:
        timer = LoopTimerPacer()
    try:
        yield timer
    finally:
        timer.close()
