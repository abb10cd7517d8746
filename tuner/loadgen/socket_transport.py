"""Requests over plain sockets, stamped by the kernel: exact, and cheap in processor time."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from urllib.parse import urlsplit

from tuner.loadgen.connection import Connection
from tuner.loadgen.readiness import Readiness, readiness
from tuner.loadgen.realtime_clock import RealtimeClock
from tuner.loadgen.records import Outcome
from tuner.loadgen.response_stream import ResponseStream
from tuner.loadgen.stamped_reader import StampedReader
from tuner.loadgen.stream_fault import StreamFault
from tuner.loadgen.transport import CONNECT_TIMEOUT_S, KEEP_ALIVE_S

UPKEEP_PERIOD_S = 0.25
CONNECTS_AT_ONCE = 32


class SocketTransport:
    """Sends request bodies to one http:// URL. An asynchronous context manager.

    Keeps connections open beforehand, so that a request is one system call away when it is due.
    """

    def __init__(self, url: str, api_key: str | None = None, *, gather: bool = False) -> None:
        """With `gather`, sockets are read a little later and together; see `readiness`.

        Raises ValueError for a URL that is not plain http.
        """
        parts = urlsplit(url)
        if parts.scheme != "http" or parts.hostname is None:
            raise ValueError(f"not a plain http URL: {url}")
        self._host, self._port = parts.hostname, parts.port or 80
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._head = (
            f"POST {target} HTTP/1.1\r\nHost: {parts.netloc.rpartition('@')[2]}\r\n"
            "Content-Type: application/json\r\nAccept: text/event-stream\r\n"
            f"User-Agent: servetune\r\n{_authorization(api_key)}Content-Length: "
        ).encode("ascii")
        self._clock = RealtimeClock()
        self._reader = StampedReader(self._clock)
        self._gather = gather
        self._readiness: Readiness | None = None
        self._connections: set[Connection] = set()
        self._free: list[Connection] = []
        self._keep = 0
        self._wanted = asyncio.Event()
        self._upkeep: asyncio.Task[None] | None = None

    async def __aenter__(self) -> SocketTransport:
        self._readiness = readiness(self._gather)
        self._upkeep = asyncio.create_task(self._keep_up())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._upkeep is not None:
            self._upkeep.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._upkeep
        for connection in self._connections:
            connection.close()
        if self._readiness is not None:
            self._readiness.close()

    @property
    def clock(self) -> str:
        """See `Transport.clock`."""
        return self._reader.clock

    @property
    def clock_step_s(self) -> float:
        """See `Transport.clock_step_s`."""
        self._clock.check()
        return self._clock.largest_step_s

    @property
    def reads(self) -> int:
        """Reads from sockets so far."""
        return self._reader.reads

    async def prepare(self, connections: int, *, keep: int = 0) -> None:
        """See `Transport.prepare`."""
        self._keep = keep
        await self._open(connections - len(self._free))

    def exchange(self, body: bytes, stream: ResponseStream) -> asyncio.Future[None]:
        """See `Transport.exchange`."""
        connection = self._take()
        if len(self._free) < self._keep:
            self._wanted.set()
        if connection is None:
            return asyncio.ensure_future(self._connect_and_exchange(body, stream))
        return connection.exchange(b"%b%d\r\n\r\n" % (self._head, len(body)), body, stream)

    async def _connect_and_exchange(self, body: bytes, stream: ResponseStream) -> None:
        connection = await self._connect()
        if stream.fault is not None:
            connection.close()
            raise stream.fault
        await connection.exchange(b"%b%d\r\n\r\n" % (self._head, len(body)), body, stream)

    def _take(self) -> Connection | None:
        """The connection that was used last, unless the engine may be about to close it."""
        while self._free:
            connection = self._free.pop()
            if not connection.closed and _is_fresh(connection):
                return connection
            self._drop(connection)
        return None

    def _release(self, connection: Connection) -> None:
        self._free.append(connection)

    def _drop(self, connection: Connection) -> None:
        connection.close()
        self._connections.discard(connection)

    async def _connect(self) -> Connection:
        """A new connection. Raises StreamFault."""
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                sock = await self._connected_socket()
        except TimeoutError as error:
            detail = f"no connection within {CONNECT_TIMEOUT_S:g} s"
            raise StreamFault(detail, Outcome.CONNECT_FAILED) from error
        except OSError as error:
            detail = f"{type(error).__name__}: {error}"
            raise StreamFault(detail, Outcome.CONNECT_FAILED) from error
        if self._readiness is None:
            raise RuntimeError("the transport was not entered")
        connection = Connection(sock, self._reader, self._release, self._readiness)
        self._connections.add(connection)
        return connection

    async def _connected_socket(self) -> socket.socket:
        loop = asyncio.get_running_loop()
        addresses = await loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        refusal: OSError = OSError(f"{self._host} has no address")
        for family, kind, protocol, _, address in addresses:
            sock = socket.socket(family, kind, protocol)
            try:
                sock.setblocking(False)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._reader.adopt(sock)
                await loop.sock_connect(sock, address)
            except OSError as error:
                sock.close()
                refusal = error
            except BaseException:
                sock.close()
                raise
            else:
                return sock
        raise refusal

    async def _open(self, count: int) -> None:
        """Open free connections; what fails now will fail, and be recorded, with a request."""
        while count > 0:
            batch = [self._connect() for _ in range(min(count, CONNECTS_AT_ONCE))]
            opened = await asyncio.gather(*batch, return_exceptions=True)
            self._free[:0] = [each for each in opened if isinstance(each, Connection)]
            for each in opened:
                if isinstance(each, BaseException) and not isinstance(each, StreamFault):
                    raise each
            if any(isinstance(each, StreamFault) for each in opened):
                return
            count -= len(batch)

    async def _keep_up(self) -> None:
        """Replace free connections that grow old, and watch the clock. Runs for ever."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(UPKEEP_PERIOD_S):
                    await self._wanted.wait()
            self._wanted.clear()
            self._clock.check()
            for connection in self._free:
                if not _is_fresh(connection):
                    connection.close()
            self._free = [each for each in self._free if not each.closed]
            self._connections = {each for each in self._connections if not each.closed}
            await self._open(self._keep - len(self._free))


def _is_fresh(connection: Connection) -> bool:
    return time.monotonic() - connection.free_since_s < KEEP_ALIVE_S


def _authorization(api_key: str | None) -> str:
    return f"Authorization: Bearer {api_key}\r\n" if api_key else ""
