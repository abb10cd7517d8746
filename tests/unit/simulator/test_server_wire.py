"""What goes over the connection, byte by byte."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from tests.support.simulated_server import Served, run_served


async def exchange(served: Served, *requests: bytes) -> bytes:
    """Send raw requests over one connection, one after the other, and read to its end."""
    server = served.client.server
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    for request in requests:
        writer.write(request)
        await writer.drain()
    answer = await reader.read()
    writer.close()
    return answer


def post(body: dict[str, Any], *, version: str = "1.1", close: bool = True) -> bytes:
    data = json.dumps(body).encode()
    connection = "close" if close else "keep-alive"
    head = (
        f"POST /v1/completions HTTP/{version}\r\nHost: x\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(data)}\r\nConnection: {connection}\r\n\r\n"
    )
    return head.encode() + data


def chunks_of(raw: bytes) -> list[bytes]:
    """The chunks of a chunked body; checks the framing."""
    chunks = []
    while raw:
        size, _, raw = raw.partition(b"\r\n")
        length = int(size, 16)
        chunks.append(raw[:length])
        assert raw[length : length + 2] == b"\r\n"
        raw = raw[length + 2 :]
    assert chunks.pop() == b"", "the last chunk is empty"
    return chunks


STREAM = {"prompt": [1, 2], "max_tokens": 6, "ignore_eos": True, "stream": True}


def test_a_stream_is_chunked_and_each_chunk_holds_whole_events() -> None:
    async def check(served: Served) -> None:
        head, _, body = (await exchange(served, post(STREAM))).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK\r\n")
        assert b"Transfer-Encoding: chunked" in head
        assert b"Content-Type: text/event-stream; charset=utf-8" in head
        assert b"Server: uvicorn" in head
        chunks = chunks_of(body)
        assert all(chunk.startswith(b"data: ") for chunk in chunks)
        assert all(chunk.endswith(b"\n\n") for chunk in chunks)
        assert chunks[-1].endswith(b"data: [DONE]\n\n")
        assert b"".join(chunks).count(b'"text":"') <= 6

    run_served(check)


def test_an_old_client_gets_the_events_bare() -> None:
    async def check(served: Served) -> None:
        raw = await exchange(served, post(STREAM, version="1.0"))
        head, _, body = raw.partition(b"\r\n\r\n")
        assert b"chunked" not in head
        assert body.startswith(b"data: {")
        assert body.endswith(b"data: [DONE]\n\n")

    run_served(check)


def test_a_connection_serves_one_request_after_the_other() -> None:
    async def check(served: Served) -> None:
        raw = await exchange(served, post(STREAM, close=False), post(STREAM, close=True))
        first, second = raw.split(b"HTTP/1.1 200 OK\r\n")[1:]
        for answer in (first, second):
            assert answer.count(b"data: [DONE]") == 1
            assert answer.endswith(b"0\r\n\r\n")

    run_served(check)


def test_a_whole_answer_has_a_length() -> None:
    async def check(served: Served) -> None:
        raw = await exchange(served, post({**STREAM, "stream": False}))
        head, _, body = raw.partition(b"\r\n\r\n")
        assert f"Content-Length: {len(body)}".encode() in head
        assert json.loads(body)["usage"]["completion_tokens"] == 6

    run_served(check)


def test_many_streams_at_once_are_exact() -> None:
    async def check(served: Served) -> None:
        bodies = [{**STREAM, "prompt": [7] * (1 + i), "max_tokens": 20 + i} for i in range(40)]
        for body in bodies:
            body["stream_options"] = {"include_usage": True}
        raws = await asyncio.gather(*(exchange(served, post(body)) for body in bodies))
        for body, raw in zip(bodies, raws, strict=True):
            events = b"".join(chunks_of(raw.partition(b"\r\n\r\n")[2])).split(b"\n\n")
            usage = json.loads(events[-3].removeprefix(b"data: "))["usage"]
            prompt = body["prompt"]
            assert isinstance(prompt, list)
            assert usage["prompt_tokens"] == len(prompt)
            assert usage["completion_tokens"] == body["max_tokens"]
        assert served.engine.in_flight == 0
        assert served.engine.metrics.finished["length"] == 40

    run_served(check, "--max-num-seqs", "16")


def test_a_prompt_of_the_whole_context_is_served() -> None:
    async def check(served: Served) -> None:
        body = {"prompt": [5] * 32_767, "max_tokens": 100, "ignore_eos": True}
        document = await served.complete(**body)
        assert document["usage"]["prompt_tokens"] == 32_767
        assert document["usage"]["completion_tokens"] == 1

    run_served(check)
