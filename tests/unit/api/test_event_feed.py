from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import pytest

from api.event_feed import EventFeed, TooManyStreamsError
from tuner.domain.events import Event, EventKind
from tuner.errors import DatabaseError, UnknownStudyError

AT = datetime(2026, 11, 30, tzinfo=UTC)
SUBSCRIBERS = 200


class Ledger:
    """Events of studies in memory, as the store would answer."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: dict[int, list[Event]] = {1: [], 2: []}
        self.reads = 0
        self.broken = False

    def add(self, count: int, study_id: int = 1) -> None:
        with self._lock:
            events = self._events[study_id]
            for _ in range(count):
                events.append(Event(study_id, len(events) + 1, AT, EventKind.NOTICE))

    def delete(self, study_id: int) -> None:
        with self._lock:
            del self._events[study_id]

    def last_seq(self, study_id: int) -> int:
        with self._lock:
            if study_id not in self._events:
                raise UnknownStudyError("gone")
            return len(self._events[study_id])

    def after(self, study_id: int, seq: int, limit: int) -> Sequence[Event]:
        with self._lock:
            self.reads += 1
            if self.broken:
                raise DatabaseError("away")
            return tuple(self._events.get(study_id, [])[seq : seq + limit])


async def take(feed: EventFeed, count: int, after: int = 0, study_id: int = 1) -> list[int]:
    """Numbers of the next events, `count` of them unless the stream ends before."""
    seen: list[int] = []
    stream = feed.subscribe(study_id, after)
    try:
        while len(seen) < count:
            event = await anext(stream, None)
            if event is None:
                break
            seen.append(event.seq)
    finally:
        await stream.aclose()  # type: ignore[attr-defined]  # it is a generator
    return seen


def feed_of(ledger: Ledger, *, queued: int = 1000, most_streams: int = 500) -> EventFeed:
    return EventFeed(ledger, poll_s=0.001, queued=queued, most_streams=most_streams)


async def until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110  # what is waited for is inside the feed
        await asyncio.sleep(0)


async def until_streams(feed: EventFeed, count: int) -> None:
    await until(lambda: feed.streams == count)


def test_what_is_there_comes_first_and_then_what_happens() -> None:
    async def scenario() -> list[int]:
        ledger = Ledger()
        ledger.add(3)
        feed = feed_of(ledger)
        reading = asyncio.create_task(take(feed, 5))
        await until_streams(feed, 1)
        ledger.add(2)
        return await reading

    assert asyncio.run(scenario()) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(("after", "expected"), [(0, [1, 2, 3]), (2, [3, 4]), (3, [4])])
def test_a_stream_goes_on_after_the_last_event_seen(after: int, expected: list[int]) -> None:
    async def scenario() -> list[int]:
        ledger = Ledger()
        ledger.add(4)
        return await take(feed_of(ledger), len(expected), after)

    assert asyncio.run(scenario()) == expected


def test_everybody_gets_every_event_once_and_in_order_from_one_poller() -> None:
    events, ledger = 300, Ledger()

    async def scenario() -> list[list[int]]:
        feed = feed_of(ledger)
        readers = [asyncio.create_task(take(feed, events, after=0)) for _ in range(SUBSCRIBERS)]
        for _ in range(events // 10):
            ledger.add(10)
            await asyncio.sleep(0)
        assert feed.pollers <= 1
        return await asyncio.gather(*readers)

    for seen in asyncio.run(scenario()):
        assert seen == list(range(1, events + 1))


def test_subscribers_that_come_while_events_flow_miss_none() -> None:
    ledger = Ledger()

    async def scenario() -> list[list[int]]:
        feed = feed_of(ledger)
        readers = []
        for number in range(50):
            ledger.add(4)
            readers.append(asyncio.create_task(take(feed, 200 - number, after=number)))
            await asyncio.sleep(0.001)
        return await asyncio.gather(*readers)

    for number, seen in enumerate(asyncio.run(scenario())):
        assert seen == list(range(number + 1, 201))


def test_a_long_history_is_read_page_by_page() -> None:
    async def scenario() -> list[int]:
        ledger = Ledger()
        ledger.add(1700)
        return await take(feed_of(ledger), 1700)

    assert asyncio.run(scenario()) == list(range(1, 1701))


def test_a_slow_reader_ends_where_it_is_and_misses_nothing_when_it_comes_again() -> None:
    async def scenario() -> list[int]:
        ledger = Ledger()
        feed = feed_of(ledger, queued=5)
        stream = feed.subscribe(1, 0)
        ledger.add(1)
        first = await anext(stream)
        before = ledger.reads
        ledger.add(30)
        await until(lambda: ledger.reads >= before + 2)  # all of them have been handed out
        seen = [first.seq] + [event.seq async for event in stream]
        assert len(seen) < 31
        return seen + await take(feed, 31 - len(seen), after=seen[-1])

    assert asyncio.run(scenario()) == list(range(1, 32))


def test_studies_do_not_mix() -> None:
    async def scenario() -> tuple[list[int], int]:
        ledger = Ledger()
        ledger.add(2, study_id=1)
        ledger.add(3, study_id=2)
        feed = feed_of(ledger)
        one, two = await asyncio.gather(take(feed, 2, study_id=1), take(feed, 3, study_id=2))
        return one + two, feed.pollers

    assert asyncio.run(scenario()) == ([1, 2, 1, 2, 3], 0)


def test_nobody_is_polled_for_when_nobody_watches() -> None:
    async def scenario() -> None:
        ledger = Ledger()
        ledger.add(1)
        feed = feed_of(ledger)
        await take(feed, 1)
        assert (feed.streams, feed.pollers) == (0, 0)
        before = ledger.reads
        await asyncio.sleep(0.02)
        assert ledger.reads == before

    asyncio.run(scenario())


def test_a_database_that_is_away_for_a_while_ends_no_stream() -> None:
    async def scenario() -> list[int]:
        ledger = Ledger()
        feed = feed_of(ledger)
        reading = asyncio.create_task(take(feed, 1))
        await until_streams(feed, 1)
        ledger.broken = True
        before = ledger.reads
        await until(lambda: ledger.reads >= before + 3)
        ledger.broken = False
        ledger.add(1)
        return await reading

    assert asyncio.run(scenario()) == [1]


def test_a_deleted_study_ends_its_streams() -> None:
    async def scenario() -> list[int]:
        ledger = Ledger()
        feed = feed_of(ledger)
        reading = asyncio.create_task(take(feed, 1))
        await until_streams(feed, 1)
        ledger.delete(1)
        return await reading

    assert asyncio.run(scenario()) == []


def test_closing_ends_every_stream_and_lets_nobody_in() -> None:
    async def scenario() -> list[list[int]]:
        feed = feed_of(Ledger())
        readers = [asyncio.create_task(take(feed, 1)) for _ in range(3)]
        await until_streams(feed, 3)
        feed.close()
        with pytest.raises(TooManyStreamsError):
            feed.require_room()
        return [*await asyncio.gather(*readers), await take(feed, 1)]

    assert asyncio.run(scenario()) == [[], [], [], []]


def test_there_are_only_so_many_streams() -> None:
    async def scenario() -> None:
        ledger = Ledger()
        feed = feed_of(ledger, most_streams=1)
        feed.require_room()
        reading = asyncio.create_task(take(feed, 1))
        await until_streams(feed, 1)
        with pytest.raises(TooManyStreamsError):
            feed.require_room()
        ledger.add(1)
        await reading
        feed.require_room()

    asyncio.run(scenario())
