"""Whatever a server sends, every transport must leave the same records of it."""

from __future__ import annotations

import time
from contextlib import AbstractAsyncContextManager

import pytest
import uvloop

from tests.support.scripted_server import (
    DONE_EVENT,
    HEAD,
    LAST_CHUNK,
    Abort,
    Close,
    Pause,
    Step,
    chunked,
    event,
    plain_answer,
    scripted_server,
    token_event,
    usage_event,
)
from tuner.loadgen.aiohttp_transport import AiohttpTransport
from tuner.loadgen.plan import PlannedRequest
from tuner.loadgen.records import Outcome, Records
from tuner.loadgen.request_log import RequestLog
from tuner.loadgen.response_stream import ResponseStream
from tuner.loadgen.socket_transport import SocketTransport
from tuner.loadgen.stream_fault import StreamFault
from tuner.loadgen.transport import Transport

ASKED = 4
BODY = b'{"max_tokens":4}'


def delta(**content: object) -> bytes:
    return event({"choices": [{"index": 0, "delta": content, "finish_reason": None}]})


def counted(*totals: int) -> list[bytes]:
    return [
        token_event(
            f" t{total}", total=total, finish_reason="length" if total == totals[-1] else None
        )
        for total in totals
    ]


ENDING = [chunked(usage_event(ASKED)), chunked(DONE_EVENT), LAST_CHUNK]
FOUR = counted(1, 2, 3, 4)
WHOLE_BODY = b"".join(FOUR) + usage_event(ASKED) + DONE_EVENT
LENGTH_END = event(
    {"choices": [{"index": 0, "delta": {"content": "d"}, "finish_reason": "length"}]}
)

TRAPS: dict[str, list[Step]] = {
    "plain": plain_answer(ASKED),
    "role chunk before the prefill": [
        HEAD,
        chunked(delta(role="assistant", content="")),
        Pause(0.02),
        *map(chunked, FOUR),
        *ENDING,
    ],
    "reasoning deltas": [
        HEAD,
        chunked(delta(role="assistant", content="")),
        chunked(delta(reasoning="a")),
        chunked(delta(reasoning_content="b")),
        chunked(delta(tool_calls=[{"index": 0, "function": {"arguments": "c"}}])),
        chunked(LENGTH_END),
        *ENDING,
    ],
    "several tokens a frame": [HEAD, *map(chunked, counted(1, 4)), *ENDING],
    "frames without a count": plain_answer(ASKED, counted=False),
    "two frames a chunk": [HEAD, chunked(FOUR[0] + FOUR[1]), chunked(FOUR[2] + FOUR[3]), *ENDING],
    "frames cut at every byte": [
        HEAD,
        *(chunked(bytes([value])) for value in WHOLE_BODY),
        LAST_CHUNK,
    ],
    "everything cut at every byte": [
        bytes([value]) for value in HEAD + chunked(WHOLE_BODY) + LAST_CHUNK
    ],
    "text that looks like the protocol": [
        HEAD,
        chunked(token_event('data: {"usage":{"completion_tokens":9}}\n\n', total=1)),
        chunked(token_event("data: [DONE]\r\n\r\n0\r\n\r\n", total=2)),
        *map(chunked, FOUR[2:]),
        *ENDING,
    ],
    "comments and carriage returns": [
        HEAD,
        chunked(b": ping\r\n\r\n" + b"".join(FOUR).replace(b"\n", b"\r\n")),
        *ENDING,
    ],
    "a frame of a megabyte": [
        HEAD,
        chunked(token_event("x" * 2**20, total=1)),
        *map(chunked, FOUR[1:]),
        *ENDING,
    ],
    "chunk extensions and trailers": [
        HEAD,
        *(b"%x;a=b\r\n%b\r\n" % (len(frame), frame) for frame in FOUR),
        *ENDING[:2],
        b"0\r\nX-Trailer: 1\r\n\r\n",
    ],
    "known length": [
        b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(WHOLE_BODY),
        WHOLE_BODY,
    ],
    "until the connection closes": [b"HTTP/1.1 200 OK\r\n\r\n", WHOLE_BODY, Close],
    "an old protocol": [b"HTTP/1.0 200 OK\r\n\r\n", WHOLE_BODY, Close],
    "usage only": [HEAD, chunked(usage_event(0)), chunked(DONE_EVENT), LAST_CHUNK],
    "slow headers": [HEAD[:25], Pause(0.05), HEAD[25:], *map(chunked, FOUR), *ENDING],
    "an error in the stream": [
        HEAD,
        chunked(FOUR[0]),
        chunked(event({"error": {"message": "engine died", "code": 500}})),
        chunked(DONE_EVENT),
        LAST_CHUNK,
    ],
    "an aborted answer": [
        HEAD,
        chunked(FOUR[0]),
        chunked(token_event("", total=1, finish_reason="abort")),
        *ENDING[1:],
    ],
    "fewer tokens": plain_answer(2),
    "no events": [HEAD, chunked(b"data: <html>\n\n"), Close],
    "ends too early": [HEAD, chunked(FOUR[0]), LAST_CHUNK],
    "closed between chunks": [HEAD, chunked(FOUR[0]), Close],
    "closed inside a chunk": [HEAD, chunked(FOUR[0]), chunked(FOUR[1])[:-9], Close],
    "reset": [HEAD, chunked(FOUR[0]), Pause(0.02), Abort],
    "closed before the headers": [Close],
    "closed inside the headers": [HEAD[:25], Close],
    "HTTP 503": [b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nbusy"],
    "HTTP 404 without a body": [b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"],
    "HTTP 500 in chunks": [
        b"HTTP/1.1 500 Oh\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(b"no") + LAST_CHUNK
    ],
    "an interim answer first": [b"HTTP/1.1 103 Early Hints\r\n\r\n", *plain_answer(ASKED)],
}


def open_aiohttp(url: str) -> AbstractAsyncContextManager[Transport]:
    return AiohttpTransport(url)


def open_socket(url: str) -> AbstractAsyncContextManager[Transport]:
    return SocketTransport(url)


def open_gathering_socket(url: str) -> AbstractAsyncContextManager[Transport]:
    return SocketTransport(url, gather=True)


async def recorded(transport: AbstractAsyncContextManager[Transport]) -> Records:
    """Two requests, one after the other: the second shows what the first left behind."""
    log = RequestLog([PlannedRequest(row, 1, ASKED, row, 0.0) for row in range(2)])
    start_s = time.monotonic()
    async with transport as opened:
        for row in range(2):
            stream = log.begin(row)
            outcome, detail = await _outcome(opened, stream)
            log.end(row, outcome, time.monotonic(), detail)
    return log.records(start_s, 1.0, only_sent=False)


async def _outcome(transport: Transport, stream: ResponseStream) -> tuple[Outcome, str]:
    try:
        await transport.exchange(BODY, stream)
        stream.conclude()
    except StreamFault as fault:
        return fault.outcome, fault.detail
    return Outcome.COMPLETED, ""


@pytest.mark.parametrize("name", TRAPS)
def test_all_transports_leave_the_same_records(name: str) -> None:
    async def both() -> list[Records]:
        async with scripted_server(lambda _: TRAPS[name]) as server:
            ways = (open_aiohttp, open_socket, open_gathering_socket)
            return [await recorded(each(server.url)) for each in ways]

    one, other, third = uvloop.run(both())
    for column in (
        "outcome",
        "http_status",
        "received_tokens",
        "first_frame_tokens",
        "frame_start",
        "frame_tokens",
    ):
        assert getattr(one, column).tolist() == getattr(other, column).tolist(), column
        assert getattr(one, column).tolist() == getattr(third, column).tolist(), column
    for records in (one, other, third):
        assert records.sent.all()
        assert records.outcome[0] == records.outcome[1]
        assert (records.frame_s >= records.sent_s[records.frame_request]).all()


@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        ("reasoning deltas", Outcome.COMPLETED),
        ("frames cut at every byte", Outcome.COMPLETED),
        ("until the connection closes", Outcome.COMPLETED),
        ("an interim answer first", Outcome.COMPLETED),
        ("closed inside a chunk", Outcome.DISCONNECTED),
        ("closed inside the headers", Outcome.DISCONNECTED),
        ("HTTP 500 in chunks", Outcome.HTTP_ERROR),
    ],
)
def test_what_they_agree_on_is_right(name: str, outcome: Outcome) -> None:
    async def once() -> Records:
        async with scripted_server(lambda _: TRAPS[name]) as server:
            return await recorded(open_socket(server.url))

    records = uvloop.run(once())
    assert records.outcome.tolist() == [outcome] * 2
    if outcome is Outcome.COMPLETED:
        assert records.received_tokens.tolist() == [ASKED] * 2
        assert records.frame_tokens.tolist() == [1.0] * 8
