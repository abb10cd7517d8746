from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import uvloop

from tuner.loadgen.readiness import GatheredReadiness, LoopReadiness, readiness

PATIENCE_S = 30.0


@contextmanager
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        yield ours, theirs


@pytest.mark.parametrize("kind", [LoopReadiness, GatheredReadiness])
def test_everything_that_arrives_is_read_and_nothing_else(
    kind: type[LoopReadiness] | type[GatheredReadiness],
) -> None:
    async def scenario() -> None:
        watched, got, whole = kind(), bytearray(), asyncio.Event()

        def on_readable() -> None:
            got.extend(ours.recv(3))
            if len(got) == 8:
                whole.set()

        with pair() as (ours, theirs):
            watched.watch(ours.fileno(), on_readable)
            await asyncio.sleep(0.01)
            assert not got
            theirs.send(b"abcd")
            await asyncio.sleep(0.01)
            theirs.send(b"efgh")
            async with asyncio.timeout(PATIENCE_S):
                await whole.wait()
            assert got == b"abcdefgh"
            watched.forget(ours.fileno())
            theirs.send(b"i")
            await asyncio.sleep(0.01)
            assert len(got) == 8
            watched.close()

    uvloop.run(scenario())


def test_while_there_is_something_to_read_all_are_read_together() -> None:
    async def scenario() -> None:
        watched = GatheredReadiness(gather_s=0.05)
        order: list[str] = []
        both = asyncio.Event()

        def reading(name: str, sock: socket.socket) -> None:
            sock.recv(1)
            order.append(name)
            if len(order) == 3:
                both.set()

        with pair() as (one, to_one), pair() as (two, to_two):
            watched.watch(one.fileno(), lambda: reading("one", one))
            watched.watch(two.fileno(), lambda: reading("two", two))
            to_one.send(b"a")
            async with asyncio.timeout(PATIENCE_S):
                while not order:  # noqa: ASYNC110  # turns of the loop until the first wakes it
                    await asyncio.sleep(0)
                # Now it pauses: these two wait for its end, and come in one turn.
                to_two.send(b"b")
                to_one.send(b"c")
                await both.wait()
            assert order[0] == "one"
            assert sorted(order[1:]) == ["one", "two"]
            watched.forget(one.fileno())
            watched.forget(two.fileno())
            watched.close()

    uvloop.run(scenario())


def test_one_that_closes_another_meanwhile_is_no_harm() -> None:
    async def scenario() -> None:
        watched = GatheredReadiness()
        reads = 0
        done = asyncio.Event()

        def first_come(mine: socket.socket, other: socket.socket) -> None:
            nonlocal reads
            mine.recv(1)
            reads += 1
            watched.forget(other.fileno())
            done.set()

        with pair() as (one, to_one), pair() as (two, to_two):
            to_one.send(b"a")
            to_two.send(b"b")
            watched.watch(one.fileno(), lambda: first_come(one, two))
            watched.watch(two.fileno(), lambda: first_come(two, one))
            async with asyncio.timeout(PATIENCE_S):
                await done.wait()
            await asyncio.sleep(0.01)
            assert reads == 1
            watched.close()

    asyncio.run(scenario())


def test_without_epoll_the_loop_says_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def kinds() -> list[type]:
        found = []
        for gather in (True, False):
            made = readiness(gather)
            found.append(type(made))
            made.close()
        monkeypatch.delattr(select, "epoll")
        found.append(type(readiness(True)))
        return found

    assert asyncio.run(kinds()) == [GatheredReadiness, LoopReadiness, LoopReadiness]
