"""What running an open-loop and a closed-loop segment have in common."""

from __future__ import annotations

import asyncio
import functools
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tuner.loadgen.closing import Closing
from tuner.loadgen.load_result import GeneratorHealth
from tuner.loadgen.pacing import Pacer, pacer
from tuner.loadgen.plan import Segment
from tuner.loadgen.prompts import RequestBodies
from tuner.loadgen.records import Outcome
from tuner.loadgen.rendezvous import Alone, Rendezvous
from tuner.loadgen.request_log import RequestLog
from tuner.loadgen.response_stream import ResponseStream
from tuner.loadgen.stream_fault import StreamFault
from tuner.loadgen.transport import Transport
from tuner.loadgen.watch import LoopMonitor, watch_stalls

FAILURES_IN_A_ROW = 32
"""After that many the engine is not serving: going on would only fill the records with errors."""


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What every segment of a plan shares; `stall_s` is engine time."""

    transport: Transport
    bodies: RequestBodies
    time_scale: float
    stall_s: float
    rendezvous: Rendezvous = field(default_factory=Alone)


@dataclass(frozen=True, slots=True)
class SegmentEnd:
    """How a segment ended. `start_s` is its first moment on the monotonic clock."""

    start_s: float
    health: GeneratorHealth | None
    """Over the window; None when the segment was given up before the window's end."""

    list_exhausted: bool
    given_up: str | None
    closing: Closing | None = None
    """Of a window that closed before its time."""


class SegmentRun(ABC):
    """Runs a segment once. Whatever it starts has ended when `run` returns or raises."""

    def __init__(self, segment: Segment, settings: RunSettings) -> None:
        self.settings = settings
        self.log = RequestLog(segment.requests)
        self.start_s = float("inf")
        self._window = (segment.warmup_s, segment.window_end_s)
        self._monitor = LoopMonitor()
        self._health: GeneratorHealth | None = None
        self._given_up: str | None = None
        self._bug: Exception | None = None
        self._running: set[asyncio.Future[None]] = set()
        self._ending = False
        self._stop = asyncio.Event()
        self._closing: Closing | None = None
        self._close_told = asyncio.Event()
        self.begun = asyncio.Event()

    async def run(self) -> SegmentEnd:
        """Send, measure, cancel what is left."""
        settings = self.settings
        watch = watch_stalls(self.log, settings.stall_s, settings.time_scale)
        with pacer() as timer:
            async with asyncio.TaskGroup() as group:
                watchers = [group.create_task(self._monitor.run()), group.create_task(watch)]
                try:
                    await self._load(timer)
                finally:
                    await self._cancel_running()
                if self._bug is not None:
                    raise self._bug
                await end_tasks(watchers)
        said = (self.list_exhausted, self._given_up, self._closing)
        return SegmentEnd(self.start_s, self._health, *said)

    @property
    def window_end_s(self) -> float:
        """When the window closes, engine seconds from the segment's start."""
        return self._window[1]

    def close(self, closing: Closing) -> None:
        """See `tuner.loadgen.running_window.Closable`."""
        if not self._ending and self._window[0] < closing.at_s < self._window[1]:
            self._window = (self._window[0], closing.at_s)
            self._closing = closing
            self._close_told.set()

    @property
    def list_exhausted(self) -> bool:
        """Whether there was nothing left to send before the window closed."""
        return False

    @abstractmethod
    async def _load(self, timer: Pacer) -> None:
        """Begin and send requests. Those still running afterwards are cancelled."""

    @abstractmethod
    def _ended(self, row: int, outcome: Outcome) -> None:
        """A request is over; not called any more once the segment ends."""

    async def _begin(self) -> None:
        """Agree with the load's other processes on the segment's first moment."""
        self.start_s = await self.settings.rendezvous.meet()
        self.begun.set()

    def _send(self, row: int, body: bytes) -> None:
        """Send a request at once; `_ended` follows."""
        stream = self.log.begin(row)
        exchange = asyncio.ensure_future(self.settings.transport.exchange(body, stream))
        self._running.add(exchange)
        exchange.add_done_callback(functools.partial(self._conclude, row, stream))

    def _conclude(self, row: int, stream: ResponseStream, exchange: asyncio.Future[None]) -> None:
        outcome, detail = Outcome.UNFINISHED, ""
        try:
            if not exchange.cancelled():
                exchange.result()
                stream.conclude()
                outcome = Outcome.COMPLETED
        except StreamFault as fault:
            outcome, detail = fault.outcome, fault.detail
        except Exception as error:  # noqa: BLE001  # a bug of ours: `run` raises it
            self._bug = self._bug or error
            self._stop.set()
        self.log.end(row, outcome, time.monotonic(), detail)
        self._running.discard(exchange)
        if self.log.failed_in_a_row >= FAILURES_IN_A_ROW and self._given_up is None:
            last = f"the last with {outcome.name.lower()}: {detail}"
            self._given_up = f"{self.log.failed_in_a_row} requests in a row failed, {last}"
            self._stop.set()
        if not self._ending:
            self._ended(row, outcome)

    async def _cancel_running(self) -> None:
        self._ending = True
        while self._running:
            for exchange in self._running:
                exchange.cancel()
            await asyncio.wait(self._running)

    async def _watch_window(self) -> None:
        """Return at the end of the window, or as soon as the segment is given up."""
        await self.until(self._window[0])
        self._monitor.begin(self.settings.transport.reads)
        await self.until(self._window[1], self._close_told)
        if not self._stop.is_set():
            self._health = self._monitor.health(self.settings.transport.reads)

    async def until(self, engine_s: float, event: asyncio.Event | None = None) -> None:
        """Wait for a moment of the segment, for `event`, or for the segment to be given up."""
        events = [self._stop] if event is None else [self._stop, event]
        waits = [asyncio.ensure_future(each.wait()) for each in events]
        try:
            # The loop's timers are rounded to milliseconds and may fire early.
            while (left_s := self._wall_s(engine_s) - time.monotonic()) > 0:
                done, _ = await asyncio.wait(
                    waits, timeout=left_s, return_when=asyncio.FIRST_COMPLETED
                )
                if done:
                    return
        finally:
            await end_tasks(waits)

    def _wall_s(self, engine_s: float) -> float:
        """The monotonic clock's reading at a moment of the segment."""
        return self.start_s + engine_s / self.settings.time_scale


async def end_tasks(tasks: Iterable[asyncio.Future[Any]]) -> None:
    """Cancel tasks and wait for their end. Raises what one of them raised."""
    ending = list(tasks)
    for task in ending:
        task.cancel()
    for result in await asyncio.gather(*ending, return_exceptions=True):
        if isinstance(result, BaseException) and not isinstance(result, asyncio.CancelledError):
            raise result
