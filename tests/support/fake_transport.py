"""A transport without an engine, for segments that are run a hundred times as fast."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from tests.support.scripted_server import DONE_EVENT, token_event, usage_event
from tuner.loadgen.prompts import RequestBodies
from tuner.loadgen.records import Outcome
from tuner.loadgen.response_stream import ResponseStream
from tuner.loadgen.segment_run import RunSettings
from tuner.loadgen.stream_fault import StreamFault

SCALE = 100.0
Behaviour = Callable[[int, ResponseStream], Awaitable[None]]


class FakeTransport:
    """Behaves as told with the request of each number, counted in order of sending."""

    clock = "fake"
    clock_step_s = 0.0
    reads = 0

    def __init__(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour
        self.sent = 0
        self.in_flight = 0
        self.most_in_flight = 0
        self.prepared: list[tuple[int, int]] = []

    async def prepare(self, connections: int, *, keep: int = 0) -> None:
        self.prepared.append((connections, keep))

    async def exchange(self, body: bytes, stream: ResponseStream) -> None:
        number, self.sent = self.sent, self.sent + 1
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            stream.sent_s = time.monotonic()
            await self._behaviour(number, stream)
        finally:
            self.in_flight -= 1


def answer(stream: ResponseStream) -> None:
    """A whole good answer at once."""
    now_s, asked = time.monotonic(), stream.asked_tokens
    stream.feed(now_s, token_event(total=asked, finish_reason="length"))
    stream.feed(now_s, usage_event(asked) + DONE_EVENT)


async def good(_: int, stream: ResponseStream) -> None:
    await asyncio.sleep(0.001)
    answer(stream)


async def hang(_: int, stream: ResponseStream) -> None:
    await asyncio.Event().wait()


async def refuse(_: int, stream: ResponseStream) -> None:
    raise StreamFault("refused", Outcome.CONNECT_FAILED)


def settings(transport: FakeTransport, *, scale: float = SCALE) -> RunSettings:
    bodies = RequestBodies("m", 1000, 1, cache_salt=False)
    return RunSettings(transport, bodies, scale, stall_s=1e6)
