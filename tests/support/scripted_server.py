"""An HTTP server that answers each request with bytes and pauses written down beforehand."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)
LAST_CHUNK = b"0\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait at least this long."""

    duration_s: float


class Abort:
    """Reset the connection."""


class Close:
    """Close the connection in order."""


class Hang:
    """Say nothing more until the client goes away."""


Step = bytes | Pause | type[Abort] | type[Close] | type[Hang]
Script = Callable[[dict[str, Any]], list[Step]]


def chunked(data: bytes) -> bytes:
    """One chunk of a chunked body."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def event(document: object) -> bytes:
    """One server-sent event."""
    return b"data: " + json.dumps(document, separators=(",", ":")).encode() + b"\n\n"


def token_event(
    text: str = " word",
    *,
    total: int | None = None,
    finish_reason: str | None = None,
    model: str = "scripted",
) -> bytes:
    """A completion chunk as vLLM writes it; with a running count when `total` is given."""
    document: dict[str, object] = {
        "id": "cmpl-0",
        "object": "text_completion",
        "created": 1,
        "model": model,
        "choices": [
            {
                "index": 0,
                "text": text,
                "logprobs": None,
                "finish_reason": finish_reason,
                "stop_reason": None,
            }
        ],
    }
    if total is not None:
        document["usage"] = {"prompt_tokens": 4, "total_tokens": 4 + total}
        document["usage"] |= {"completion_tokens": total}  # type: ignore[operator]
    return event(document)


def usage_event(total: int) -> bytes:
    """The last chunk of vLLM: usage and no choice."""
    usage = {"prompt_tokens": 4, "total_tokens": 4 + total, "completion_tokens": total}
    return event({"id": "cmpl-0", "model": "scripted", "choices": [], "usage": usage})


DONE_EVENT = b"data: [DONE]\n\n"


def plain_answer(tokens: int, *, counted: bool = True) -> list[Step]:
    """A whole, correct answer, one token an event."""
    events: list[Step] = [HEAD]
    for number in range(1, tokens + 1):
        total = number if counted else None
        reason = "length" if number == tokens else None
        events.append(chunked(token_event(total=total, finish_reason=reason)))
    return [*events, chunked(usage_event(tokens)), chunked(DONE_EVENT), LAST_CHUNK]


@dataclass
class ScriptedServer:
    """Serves on the loop it was started on; keeps what it was asked."""

    script: Script
    port: int = 0
    scheme: str = "http"
    requests: list[dict[str, Any]] = field(default_factory=list)
    heads: list[bytes] = field(default_factory=list)
    connections: int = 0
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a request has come."""

    closed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a client has gone away from a connection on which the server hung."""

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while (request := await _read_request(reader)) is not None:
                head, body = request
                self.heads.append(head)
                self.requests.append(body)
                self.asked.set()
                for step in self.script(body):
                    if not await self._perform(step, reader, writer):
                        return
        except (ConnectionError, asyncio.CancelledError):
            pass  # the client went away, or the server is being stopped
        finally:
            writer.close()

    async def _perform(
        self, step: Step, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Do one step; False when the connection is over."""
        if isinstance(step, bytes):
            writer.write(step)
            await writer.drain()
            return True
        if isinstance(step, Pause):
            await _wait_at_least(step.duration_s)
            return True
        if step is Hang:
            await reader.read()
            self.closed.set()
        elif step is Abort:
            writer.transport.abort()
        return False


async def _wait_at_least(duration_s: float) -> None:
    """The loop's own timers may fire a little early."""
    end_s = time.monotonic() + duration_s
    while (left_s := end_s - time.monotonic()) > 0:  # noqa: ASYNC110  # time is no event
        await asyncio.sleep(left_s)


async def _read_request(reader: asyncio.StreamReader) -> tuple[bytes, dict[str, Any]] | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    lengths = [
        int(line.partition(b":")[2])
        for line in head.split(b"\r\n")
        if line.lower().startswith(b"content-length:")
    ]
    body = await reader.readexactly(lengths[0]) if lengths else b"{}"
    document: dict[str, Any] = json.loads(body)
    return head, document


@asynccontextmanager
async def scripted_server(
    script: Script, tls: ssl.SSLContext | None = None
) -> AsyncIterator[ScriptedServer]:
    """A server on the running loop."""
    scripted = ScriptedServer(script, scheme="http" if tls is None else "https")
    server = await asyncio.start_server(scripted.handle, "127.0.0.1", 0, ssl=tls)
    scripted.port = server.sockets[0].getsockname()[1]
    try:
        yield scripted
    finally:
        server.close()


@contextmanager
def threaded_server(script: Script, tls: ssl.SSLContext | None = None) -> Iterator[ScriptedServer]:
    """A server on a loop of its own thread, for clients in other processes."""
    started: list[ScriptedServer] = []
    ready, stop = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        async with scripted_server(script, tls) as server:
            started.append(server)
            ready.set()
            await stop.wait()
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    if not ready.wait(30):
        raise RuntimeError("the scripted server did not start")
    try:
        yield started[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(30)
        loop.close()
