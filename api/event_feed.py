"""Events of studies to any number of subscribers: one poller for each study that is watched."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from anyio import CapacityLimiter, to_thread

from tuner.domain.events import Event
from tuner.errors import ServeTuneError, UnknownStudyError

PAGE = 500
LONGEST_STREAM_S = 3600.0
"""After which a subscriber has to come again, and to show again that it may."""

GONE_CHECK_POLLS = 20

log = logging.getLogger(__name__)


class EventSource(Protocol):
    """Where events are read; called in threads."""

    def last_seq(self, study_id: int) -> int:
        """The number of the study's last event; UnknownStudyError when it is gone."""

    def after(self, study_id: int, seq: int, limit: int) -> Sequence[Event]:
        """The study's events after this number, in order."""


class TooManyStreamsError(Exception):
    """No more subscribers are taken."""


@dataclass(eq=False)
class _Subscriber:
    """A queue of what happened since `joined_at`; None wakes its reader up to look at `closed`."""

    joined_at: int
    queue: asyncio.Queue[Event | None]
    closed: bool = False

    def put(self, event: Event) -> None:
        """A reader that is too slow is not waited for: it ends, and comes again where it was."""
        if self.closed:
            return
        try:
            self.queue.put_nowait(event)
        except asyncio.QueueFull:
            self.closed = True

    def close(self) -> None:
        self.closed = True
        with suppress(asyncio.QueueFull):
            self.queue.put_nowait(None)


@dataclass(eq=False)
class _Channel:
    """A study that is watched; every event up to `position` was given to the subscribers."""

    study_id: int
    position: int
    subscribers: set[_Subscriber] = field(default_factory=set)
    task: asyncio.Task[None] | None = None


class EventFeed:
    """Gives each subscriber every event after its last one exactly once and in order."""

    def __init__(
        self,
        source: EventSource,
        *,
        poll_s: float = 0.5,
        queued: int = 1000,
        most_streams: int = 500,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source = source
        self._poll_s = poll_s
        self._queued = queued
        self._most = most_streams
        self._monotonic = monotonic
        self._channels: dict[int, _Channel] = {}
        self._joining = asyncio.Lock()
        self._threads = CapacityLimiter(4)
        self._closed = False

    @property
    def streams(self) -> int:
        """How many subscribers there are; may be asked from any thread."""
        return sum(len(channel.subscribers) for channel in tuple(self._channels.values()))

    @property
    def pollers(self) -> int:
        """How many studies are read for them."""
        return len(self._channels)

    def require_room(self) -> None:
        """Raise TooManyStreamsError when one more would be too many."""
        if self._closed or self.streams >= self._most:
            raise TooManyStreamsError

    async def subscribe(self, study_id: int, after: int) -> AsyncIterator[Event]:
        """The study's events after number `after`: those that are there, then each as it comes.

        Ends when the feed closes, the study is deleted, the reader falls too far behind or after
        LONGEST_STREAM_S; whoever comes again with the last number it saw misses nothing.
        """
        deadline = self._monotonic() + LONGEST_STREAM_S
        channel, subscriber = await self._join(study_id)
        try:
            last = after
            async for event in self._history(study_id, after, subscriber.joined_at):
                last = event.seq
                yield event
            async for event in self._live(subscriber, last, deadline):
                yield event
        finally:
            self._leave(channel, subscriber)

    async def _history(self, study_id: int, after: int, until: int) -> AsyncIterator[Event]:
        while after < until:
            page = await self._read(study_id, after)
            for event in page:
                if event.seq > until:
                    return
                after = event.seq
                yield event
            if not page:
                return

    async def _live(
        self, subscriber: _Subscriber, last: int, deadline: float
    ) -> AsyncIterator[Event]:
        while not (subscriber.closed and subscriber.queue.empty()):
            left = deadline - self._monotonic()
            try:
                event = await asyncio.wait_for(subscriber.queue.get(), max(left, 0.001))
            except TimeoutError:
                return
            if event is not None and event.seq > last:
                last = event.seq
                yield event

    async def _join(self, study_id: int) -> tuple[_Channel, _Subscriber]:
        async with self._joining:
            channel = self._channels.get(study_id)
            if channel is None:
                position = await to_thread.run_sync(
                    self._source.last_seq, study_id, limiter=self._threads
                )
                channel = _Channel(study_id, position)
                self._channels[study_id] = channel
            subscriber = _Subscriber(channel.position, asyncio.Queue(self._queued))
            channel.subscribers.add(subscriber)
            if self._closed:
                subscriber.close()
            elif channel.task is None:
                channel.task = asyncio.create_task(self._poll(channel))
        return channel, subscriber

    def _leave(self, channel: _Channel, subscriber: _Subscriber) -> None:
        channel.subscribers.discard(subscriber)
        if not channel.subscribers:
            self._drop(channel)

    def _drop(self, channel: _Channel) -> None:
        if self._channels.get(channel.study_id) is channel:
            del self._channels[channel.study_id]
        if channel.task is not None:
            channel.task.cancel()

    async def _poll(self, channel: _Channel) -> None:
        """Read on until nobody is left; whatever ends it otherwise ends its streams, too."""
        try:
            quiet = 0
            while True:
                page = await self._next_page(channel, quiet)
                quiet = 0 if page else quiet + 1
                for event in page:
                    channel.position = event.seq
                    for subscriber in channel.subscribers:
                        subscriber.put(event)
                if len(page) < PAGE:
                    await asyncio.sleep(self._poll_s)
        except UnknownStudyError:
            return
        finally:
            for subscriber in tuple(channel.subscribers):
                subscriber.close()

    async def _next_page(self, channel: _Channel, quiet: int) -> Sequence[Event]:
        """Nothing while the database is away; raises UnknownStudyError for a deleted study."""
        try:
            if quiet and quiet % GONE_CHECK_POLLS == 0:
                await to_thread.run_sync(
                    self._source.last_seq, channel.study_id, limiter=self._threads
                )
            return await self._read(channel.study_id, channel.position)
        except UnknownStudyError:
            raise
        except ServeTuneError as error:
            fields = {"study": channel.study_id, "error": error.message}
            log.warning("events cannot be read", extra=fields)
            return ()

    async def _read(self, study_id: int, after: int) -> Sequence[Event]:
        return await to_thread.run_sync(
            self._source.after, study_id, after, PAGE, limiter=self._threads
        )

    def close(self) -> None:
        """End every stream; called in the event loop when the service stops."""
        self._closed = True
        for channel in tuple(self._channels.values()):
            for subscriber in tuple(channel.subscribers):
                subscriber.close()
