"""What only the transport over plain sockets promises; the rest is in the contract suite."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvloop

from tests.support.scripted_server import (
    Hang,
    Script,
    ScriptedServer,
    plain_answer,
    scripted_server,
)
from tuner.loadgen import socket_transport
from tuner.loadgen.response_stream import ResponseStream
from tuner.loadgen.socket_transport import SocketTransport
from tuner.loadgen.stream_fault import StreamFault

Scenario = Callable[[SocketTransport, ScriptedServer], Coroutine[Any, Any, None]]


def good(_: dict[str, Any]) -> list[Any]:
    return list(plain_answer(3))


def run(scenario: Scenario, script: Script = good) -> None:
    @asynccontextmanager
    async def opened() -> AsyncIterator[tuple[SocketTransport, ScriptedServer]]:
        async with scripted_server(script) as server, SocketTransport(server.url) as transport:
            yield transport, server

    async def whole() -> None:
        async with asyncio.timeout(60), opened() as (transport, server):
            await scenario(transport, server)

    uvloop.run(whole())


async def connections_reach(server: ScriptedServer, count: int) -> None:
    while server.connections < count:  # noqa: ASYNC110  # the server has no event for it
        await asyncio.sleep(0.001)


def test_a_request_leaves_within_the_call_when_a_connection_is_free() -> None:
    async def scenario(transport: SocketTransport, server: ScriptedServer) -> None:
        await transport.prepare(1)
        stream = ResponseStream(3)
        before_s = time.monotonic()
        answer = transport.exchange(b"{}", stream)
        assert stream.sent_s is not None
        assert before_s <= stream.sent_s <= time.monotonic()
        await answer
        stream.conclude()

    run(scenario)


def test_prepared_connections_are_open_before_they_are_needed() -> None:
    async def scenario(transport: SocketTransport, server: ScriptedServer) -> None:
        await transport.prepare(40)
        await connections_reach(server, 40)
        await asyncio.gather(*(transport.exchange(b"{}", ResponseStream(3)) for _ in range(40)))
        assert server.connections == 40
        assert len(server.requests) == 40

    run(scenario)


def test_connections_that_are_in_use_are_replaced_by_free_ones() -> None:
    async def scenario(transport: SocketTransport, server: ScriptedServer) -> None:
        await transport.prepare(2, keep=2)
        answers = [transport.exchange(b"{}", ResponseStream(3)) for _ in range(2)]
        await connections_reach(server, 4)
        for answer in answers:
            answer.cancel()
        await asyncio.wait(answers)

    run(scenario, lambda _: [Hang])


def test_free_connections_are_renewed_before_the_engine_would_close_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(socket_transport, "KEEP_ALIVE_S", 0.05)
    monkeypatch.setattr(socket_transport, "UPKEEP_PERIOD_S", 0.01)

    async def scenario(transport: SocketTransport, server: ScriptedServer) -> None:
        await transport.prepare(2, keep=2)
        await connections_reach(server, 6)

    run(scenario)


def test_an_old_connection_is_not_used_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(transport: SocketTransport, server: ScriptedServer) -> None:
        await transport.prepare(1)
        monkeypatch.setattr(socket_transport, "KEEP_ALIVE_S", 0.0)
        await transport.exchange(b"{}", ResponseStream(3))
        assert server.connections == 2

    run(scenario)


def test_a_stream_that_failed_before_it_was_sent_is_not_sent() -> None:
    fault = StreamFault("too late")

    async def scenario(transport: SocketTransport, server: ScriptedServer) -> None:
        stream = ResponseStream(3)
        answer = transport.exchange(b"{}", stream)
        stream.fail(fault)
        with pytest.raises(StreamFault) as caught:
            await answer
        assert caught.value is fault
        assert not server.requests

    run(scenario)


def test_a_request_names_host_and_length() -> None:
    async def scenario() -> None:
        heads: list[bytes] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            heads.append(await reader.readuntil(b"\r\n\r\n"))
            writer.close()
            await writer.wait_closed()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        url = f"http://name:secret@127.0.0.1:{port}/v1/completions?x=1"
        async with server, SocketTransport(url) as transport:
            with pytest.raises(StreamFault):
                await transport.exchange(b"12345", ResponseStream(1))
        lines = heads[0].split(b"\r\n")
        assert lines[0] == b"POST /v1/completions?x=1 HTTP/1.1"
        assert b"Host: 127.0.0.1:%d" % port in lines
        assert b"Content-Length: 5" in lines
        assert b"secret" not in heads[0]

    uvloop.run(scenario())
