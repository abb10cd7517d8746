"""Requests over aiohttp, stamped when their bytes leave and when bytes have been read.

aiohttp resumes a waiting task only after it has parsed what it read, and after every other
connection that was readable in the same turn of the loop. With hundreds of streams that is
milliseconds, so the stamps are taken in the protocol, and parsing waits for the turn's last read.
"""

from __future__ import annotations

import asyncio
import functools
import io
import time
from contextvars import ContextVar
from http import HTTPStatus
from typing import Any

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection

from tuner.domain.proxy import Proxy
from tuner.loadgen.records import Outcome
from tuner.loadgen.response_stream import ResponseStream
from tuner.loadgen.stream_fault import LONGEST_DETAIL, StreamFault
from tuner.loadgen.transport import CONNECT_TIMEOUT_S, KEEP_ALIVE_S, USER_SPACE_CLOCK

READ_BUFFER_BYTES = 2**18
LARGE_BODY_BYTES = 2**20

_current_stream: ContextVar[ResponseStream] = ContextVar("current_stream")


class AiohttpTransport:
    """Sends request bodies to one URL. An asynchronous context manager."""

    clock = USER_SPACE_CLOCK
    clock_step_s = 0.0

    def __init__(self, url: str, api_key: str | None = None, proxy: Proxy | None = None) -> None:
        """Raises StartupError for a proxy whose credentials are not there."""
        self._url = url
        known = None if proxy is None else proxy.credentials()
        self._reads = _ReadBacklog(asyncio.get_running_loop())
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_S)
        # The one private name used here; the contract suite fails when it loses its meaning.
        connector._factory = functools.partial(  # type: ignore[assignment]  # a subclass will do
            _StampingHandler, self._reads
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            request_class=_StampingRequest,
            headers={
                "Content-Type": "application/json",
                "Accept": "text/event-stream",
                **({"Authorization": f"Bearer {api_key}"} if api_key else {}),
            },
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S),
            read_bufsize=READ_BUFFER_BYTES,
            auto_decompress=False,
            proxy=None if proxy is None else proxy.url,
            # As Proxy.headers says them; the default is Latin-1.
            proxy_auth=None if known is None else aiohttp.BasicAuth(*known, encoding="utf-8"),
            # Proxies of the environment are nobody's choice for this endpoint.
            trust_env=False,
        )

    async def __aenter__(self) -> AiohttpTransport:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    @property
    def reads(self) -> int:
        """Reads from sockets so far."""
        return self._reads.count

    async def prepare(self, connections: int, *, keep: int = 0) -> None:
        """aiohttp opens connections only with requests."""

    async def exchange(self, body: bytes, stream: ResponseStream) -> None:
        """See `Transport.exchange`."""
        _current_stream.set(stream)
        try:
            async with self._session.post(self._url, data=_as_data(body)) as response:
                stream.http_status = response.status
                if response.status != HTTPStatus.OK:
                    text = await response.content.read(LONGEST_DETAIL)
                    detail = text.decode("utf-8", errors="replace").strip()
                    raise StreamFault(f"HTTP {response.status}: {detail}", Outcome.HTTP_ERROR)
                await _until_end(response.content)
        except (aiohttp.ClientError, OSError) as error:
            raise stream.fault or _fault(error) from error
        if stream.fault is not None:
            raise stream.fault


def _as_data(body: bytes) -> bytes | io.BytesIO:
    """aiohttp warns of large bodies as bytes, which it writes in one piece."""
    return body if len(body) < LARGE_BODY_BYTES else io.BytesIO(body)


async def _until_end(content: aiohttp.StreamReader) -> None:
    error = content.exception()
    if error is not None:
        raise error
    await content.wait_eof()


def _fault(error: aiohttp.ClientError | OSError) -> StreamFault:
    text = f"{type(error).__name__}: {error}"
    refused = aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError
    if isinstance(error, refused | aiohttp.ClientHttpProxyError):
        return StreamFault(text, Outcome.CONNECT_FAILED)
    # aiohttp reports a close inside the body as a payload error.
    if isinstance(error, aiohttp.ClientPayloadError | aiohttp.ClientConnectionError | OSError):
        return StreamFault(text, Outcome.DISCONNECTED)
    return StreamFault(text, Outcome.PROTOCOL_ERROR)


class _ReadBacklog:
    """What one turn of the loop read, stamped, to be parsed when the turn's reads are done."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: list[tuple[_StampingHandler, float, bytes]] = []
        self.count = 0

    def add(self, handler: _StampingHandler, data: bytes) -> None:
        self._waiting.append((handler, time.monotonic(), data))
        self.count += 1
        if len(self._waiting) == 1:
            self._loop.call_soon(self.deliver)

    def deliver(self) -> None:
        waiting, self._waiting = self._waiting, []
        for handler, stamp_s, data in waiting:
            handler.deliver(stamp_s, data)


class _StampingHandler(ResponseHandler):
    """aiohttp's client protocol, feeding each answer to its stream in the reading turn."""

    def __init__(self, reads: _ReadBacklog) -> None:
        super().__init__(asyncio.get_running_loop())
        self._reads = reads
        self._stream: ResponseStream | None = None
        self._content: aiohttp.StreamReader | None = None

    def begin(self, stream: ResponseStream) -> None:
        """The next answer on this connection is for `stream`."""
        self._stream = stream
        self._content = None
        stream.close_connection = self.give_up

    def data_received(self, data: bytes) -> None:
        if data:
            self._reads.add(self, data)
        else:  # aiohttp resumes its own parser this way
            super().data_received(data)

    def deliver(self, stamp_s: float, data: bytes) -> None:
        super().data_received(data)
        stream, content = self._stream, self._content
        if stream is None or content is None or stream.fault or content.exception():
            return
        try:
            while chunk := content.read_nowait():
                stream.feed(stamp_s, chunk)
        except StreamFault as fault:
            stream.fail(fault)

    def give_up(self) -> None:
        """Close the connection at once; whoever waits for the answer is woken."""
        if self.transport is not None:
            self.transport.abort()

    def feed_data(self, data: Any, size: int = 0) -> None:
        message, content = data
        if message.code == HTTPStatus.OK:
            self._content = content
        super().feed_data(data, size)

    def eof_received(self) -> None:
        self._reads.deliver()
        super().eof_received()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._reads.deliver()
        super().connection_lost(exc)


class _StampingRequest(aiohttp.ClientRequest):
    """Ties the connection to the current stream and stamps the moment of writing."""

    async def send(self, conn: Connection) -> aiohttp.ClientResponse:
        if isinstance(conn.protocol, _StampingHandler):
            conn.protocol.begin(_current_stream.get())
        return await super().send(conn)

    async def write_bytes(
        self,
        writer: AbstractStreamWriter,
        conn: Connection,
        content_length: int | None = None,
    ) -> None:
        _current_stream.get().sent_s = time.monotonic()
        await super().write_bytes(writer, conn, content_length)
