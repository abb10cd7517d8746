"""Event streams of one study: each event once and in order to everybody, in flat memory."""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import aiohttp

from benchmarks.api_load.seeding import LARGE, LiveStudy

PATH = f"/api/v1/studies/{LARGE}@1/events"
EVENTS_PER_HOUR = 720
"""Of a study whose trials take a minute: a dozen events each."""

EVENTS_PER_S = 6
"""Thirty times as fast as such a study."""

PARTS = 4
"""Memory is looked at after each part of the hour; one is enough to fill every buffer."""

MOST_GROWTH_MIB = 8.0
BREAKS_OFF_EVERY = 4
"""Of so many subscribers one leaves again and again, and comes back with the last id it saw."""

LONGEST_S = 150.0
_RESIDENT = re.compile(r"^process_resident_memory_bytes (\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Run:
    """How many watch, for how many events."""

    subscribers: int
    events: int = EVENTS_PER_HOUR


@dataclass
class Subscriber:
    """What one has seen, and how often it came again."""

    last: int
    seen: int = 0
    wrong: int = 0
    comings: int = 0
    chance: random.Random = field(default_factory=random.Random)
    came: asyncio.Event = field(default_factory=asyncio.Event)

    def receive(self, seq: int) -> None:
        self.wrong += seq != self.last + 1
        self.last, self.seen = seq, self.seen + 1
        self.came.set()

    async def reached(self, seq: int) -> None:
        """Wait until it has seen this one."""
        while self.last < seq:
            self.came.clear()
            await self.came.wait()


async def watch(
    address: str, headers: Mapping[str, str], live: LiveStudy, run: Run
) -> dict[str, object]:
    """Subscribe, let the study go on, and count."""
    begin = live.last_seq()
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(
        address, headers=headers, connector=connector, timeout=timeout
    ) as session:
        subscribers = [
            Subscriber(begin, chance=random.Random(number)) for number in range(run.subscribers)
        ]
        until = asyncio.get_running_loop().create_future()
        following = [
            asyncio.create_task(_follow(session, one, until, number % BREAKS_OFF_EVERY == 0))
            for number, one in enumerate(subscribers)
        ]
        memory, last = await _an_hour(session, live, subscribers, run)
        until.set_result(last)
        async with asyncio.timeout(LONGEST_S):
            await asyncio.gather(*following)
    return summary(subscribers, memory, begin, last, run)


async def _an_hour(
    session: aiohttp.ClientSession, live: LiveStudy, subscribers: list[Subscriber], run: Run
) -> tuple[list[float], int]:
    """Let events happen; the server's MiB after each part was delivered, and the last event."""
    last = live.last_seq()
    memory = []
    begun = time.perf_counter()
    for part in range(PARTS):
        until = last + run.events // PARTS
        while last < until:
            begun_s, before = time.perf_counter(), last
            last = await asyncio.to_thread(live.one_more_trial)
            rest_s = (last - before) / EVENTS_PER_S - (time.perf_counter() - begun_s)
            await asyncio.sleep(max(0.0, rest_s))
        async with asyncio.timeout(LONGEST_S):
            await asyncio.gather(*(one.reached(last) for one in subscribers))
        memory.append(await _resident_mib(session))
        print(f"part {part + 1}: {memory[-1]} MiB, {time.perf_counter() - begun:.0f} s", flush=True)
    return memory, last


async def _resident_mib(session: aiohttp.ClientSession) -> float:
    async with session.get("/metrics") as response:
        found = _RESIDENT.search(await response.text())
    assert found is not None
    return round(float(found[1]) / 2**20, 1)


async def _follow(
    session: aiohttp.ClientSession, one: Subscriber, until: asyncio.Future[int], breaks: bool
) -> None:
    """Read on until the last event is there, coming again wherever the stream ends."""
    while not (until.done() and one.last >= until.result()):
        one.comings += 1
        headers = {"Last-Event-ID": f"{await _study_id(session)}:{one.last}"}
        stay = one.chance.randint(20, 399) if breaks else None
        async with session.get(PATH, headers=headers) as response:
            assert response.status == 200, await response.text()
            await _read(response, one, until, stay)


async def _read(
    response: aiohttp.ClientResponse,
    one: Subscriber,
    until: asyncio.Future[int],
    stay: int | None,
) -> None:
    async for line in response.content:
        if line.startswith(b"id:"):
            one.receive(int(line.rpartition(b":")[2]))
            if stay is not None and one.seen % 400 == stay:
                return
        if until.done() and one.last >= until.result():
            return


async def _study_id(session: aiohttp.ClientSession) -> int:
    async with session.get(f"/api/v1/studies/{LARGE}@1") as response:
        return int((await response.json())["id"])


def summary(
    subscribers: list[Subscriber], memory: list[float], begin: int, last: int, run: Run
) -> dict[str, object]:
    """Everything once and in order means: as many as there are, each the successor of the last."""
    wrong = sum(one.wrong for one in subscribers)
    missing = sum(last - begin - one.seen for one in subscribers)
    growth = round(memory[-1] - memory[0], 1)
    return {
        "subscribers": run.subscribers,
        "events": last - begin,
        "events_of_an_hour": EVENTS_PER_HOUR,
        "streams_opened": sum(one.comings for one in subscribers),
        "delivered": sum(one.seen for one in subscribers),
        "out_of_order_or_twice": wrong,
        "missing": missing,
        "resident_mib_after_each_part": memory,
        "most_growth_mib": MOST_GROWTH_MIB,
        "holds": wrong == 0 and missing == 0 and growth < MOST_GROWTH_MIB,
    }
