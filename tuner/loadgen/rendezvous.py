"""How the processes of one load agree on moments: the start of a segment, and its end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

LEAD_S = 0.02
"""Wall time between the last preparation and the moment agreed on."""

LEAD_OF_MANY_S = 0.05
"""The same where the moment has to be told to several processes."""


COMPANY = "company"
"""What a process is started with that is one of several."""

HERE = "here"
"""The line by which it says that it waits; a line with the moment is the answer."""


class Rendezvous(Protocol):
    """Where all processes of a load wait for each other; each meets equally often."""

    async def meet(self) -> float:
        """Return when every process is here, with one moment for all of them, shortly ahead.

        Seconds of the monotonic clock, which processes of one host share.
        """


class Alone:
    """The rendezvous of a load of one process."""

    async def meet(self) -> float:
        return time.monotonic() + LEAD_S


class InCompany:
    """Says that it is here by `announce`; `tell`, from any thread, passes on the moment."""

    def __init__(self, announce: Callable[[], None]) -> None:
        self._announce = announce
        self._loop: asyncio.AbstractEventLoop | None = None
        self._met: asyncio.Future[float] | None = None

    async def meet(self) -> float:
        self._loop = asyncio.get_running_loop()
        self._met = self._loop.create_future()
        self._announce()
        return await self._met

    def tell(self, moment_s: float) -> None:
        """Everybody is here. Raises RuntimeError when this process never said that it was."""
        if self._loop is None:
            raise RuntimeError("a moment was told to a process that is not waiting for one")
        self._loop.call_soon_threadsafe(self._take, moment_s)

    def _take(self, moment_s: float) -> None:
        if self._met is not None and not self._met.done():
            self._met.set_result(moment_s)
