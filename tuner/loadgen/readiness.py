"""Who says that a socket can be read: the loop at once, or, under load, all of them together.

Waking up costs more than reading. Stamps are the kernel's, so nothing is lost by reading a little
later; only frames of one answer that arrive within the same pause get the stamp of the last.
"""

from __future__ import annotations

import asyncio
import select
import time
from collections.abc import Callable
from typing import Protocol

from tuner.loadgen.pacing import TimerDescriptor

GATHER_S = 0.001
"""Far below the time between two tokens of one answer of a real engine."""


class Readiness(Protocol):
    """Calls a function when a descriptor can be read, until told to stop."""

    def watch(self, descriptor: int, on_readable: Callable[[], None]) -> None:
        """From now on."""

    def forget(self, descriptor: int) -> None:
        """Before the descriptor is closed."""

    def close(self) -> None:
        """Free what this holds."""


class LoopReadiness:
    """The running loop's own: each descriptor wakes it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def watch(self, descriptor: int, on_readable: Callable[[], None]) -> None:
        self._loop.add_reader(descriptor, on_readable)

    def forget(self, descriptor: int) -> None:
        self._loop.remove_reader(descriptor)

    def close(self) -> None:
        """Nothing is held."""


class GatheredReadiness:
    """Wakes for the first descriptor, then looks at all of them every `gather_s` while any is read.

    Raises OSError or AttributeError where the system has no epoll or timer descriptors.
    """

    def __init__(self, gather_s: float = GATHER_S) -> None:
        self._loop = asyncio.get_running_loop()
        self._gather_s = gather_s
        self._poll = select.epoll()
        try:
            self._timer = TimerDescriptor(self._look_again)
        except OSError:
            self._poll.close()
            raise
        self._readers: dict[int, Callable[[], None]] = {}
        self._loop.add_reader(self._poll.fileno(), self._woken)

    def watch(self, descriptor: int, on_readable: Callable[[], None]) -> None:
        self._readers[descriptor] = on_readable
        self._poll.register(descriptor, select.EPOLLIN)

    def forget(self, descriptor: int) -> None:
        if self._readers.pop(descriptor, None) is not None:
            self._poll.unregister(descriptor)

    def close(self) -> None:
        self._loop.remove_reader(self._poll.fileno())
        self._timer.close()
        self._poll.close()

    def _woken(self) -> None:
        self._loop.remove_reader(self._poll.fileno())
        self._read_all()
        self._pause()

    def _look_again(self) -> None:
        if self._read_all():
            self._pause()
        else:
            self._loop.add_reader(self._poll.fileno(), self._woken)

    def _pause(self) -> None:
        self._timer.arm(time.monotonic() + self._gather_s)

    def _read_all(self) -> int:
        ready = self._poll.poll(0, len(self._readers) + 1)
        for descriptor, _ in ready:
            # An earlier one may have had this one closed.
            on_readable = self._readers.get(descriptor)
            if on_readable is not None:
                on_readable()
        return len(ready)


def readiness(gather: bool) -> Readiness:
    """Gathering where it is wanted and the system can, on the running loop."""
    if gather:
        try:
            return GatheredReadiness()
        except (OSError, AttributeError):
            pass
    return LoopReadiness()
