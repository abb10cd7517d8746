"""A forward proxy on a thread of its own: tunnels for CONNECT, and plain requests by address."""

from __future__ import annotations

import asyncio
import base64
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tuner.domain.proxy import Proxy

END_OF_HEAD = b"\r\n\r\n"
REFUSAL = (
    b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
)


@dataclass
class ForwardProxy:
    """`asked` holds the method and target of every request that it was sent, refused ones too."""

    credentials: str | None
    port: int = 0
    asked: list[tuple[str, str]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def named(self, credentials_env: str | None = None) -> Proxy:
        """As an operator would name it."""
        return Proxy(self.url, credentials_env)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection: a tunnel, or plain requests to one endpoint, one after another."""
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            head = await reader.readuntil(END_OF_HEAD)
            method, target = self._note(head)
            if not self._admits(head):
                writer.write(REFUSAL)
            elif method == "CONNECT":
                await self._tunnel(target, reader, writer)
            else:
                await self._plain(head, reader, writer)
        writer.close()

    def _note(self, head: bytes) -> tuple[str, str]:
        method, target, _ = head.split(b"\r\n", 1)[0].decode().split(" ")
        self.asked.append((method, target))
        return method, target

    def _admits(self, head: bytes) -> bool:
        if self.credentials is None:
            return True
        words = base64.b64encode(self.credentials.encode())
        return b"proxy-authorization: basic " + words.lower() in head.lower()

    async def _tunnel(
        self, target: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        host, _, port = target.rpartition(":")
        there = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await _both_ways((reader, writer), there)

    async def _plain(
        self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        parts = urlsplit(head.split(b" ", 2)[1].decode())
        there = await asyncio.open_connection(parts.hostname, parts.port)
        answers = asyncio.ensure_future(_pump(there[0], writer))
        try:
            while True:
                there[1].write(_for_the_endpoint(head) + await reader.readexactly(_length(head)))
                head = await reader.readuntil(END_OF_HEAD)
                self._note(head)
        finally:
            answers.cancel()
            there[1].close()


def _for_the_endpoint(head: bytes) -> bytes:
    """The request as its endpoint is asked: by path, and without what is the proxy's business."""
    first, *lines = head.removesuffix(END_OF_HEAD).split(b"\r\n")
    method, target, version = first.split(b" ")
    kept = [line for line in lines if not line.lower().startswith(b"proxy-")]
    path = urlsplit(target).path or b"/"
    return b"\r\n".join([b" ".join((method, path, version)), *kept]) + END_OF_HEAD


def _length(head: bytes) -> int:
    lines = (line.lower().partition(b":") for line in head.split(b"\r\n"))
    return next((int(value) for name, _, value in lines if name == b"content-length"), 0)


Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _both_ways(here: Ends, there: Ends) -> None:
    pumps = [
        asyncio.ensure_future(_pump(here[0], there[1])),
        asyncio.ensure_future(_pump(there[0], here[1])),
    ]
    # Whoever closes first ends both: half-closed streams of HTTP are of no use.
    await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
    for pump in pumps:
        pump.cancel()
    await asyncio.gather(*pumps, return_exceptions=True)
    there[1].close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()


@contextmanager
def forward_proxy(credentials: str | None = None) -> Iterator[ForwardProxy]:
    """A running proxy; with `credentials` (USER:PASSWORD) it admits nobody else."""
    proxy = ForwardProxy(credentials)
    ready, stop = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
        proxy.port = server.sockets[0].getsockname()[1]
        ready.set()
        await stop.wait()
        server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    if not ready.wait(30):
        raise RuntimeError("the proxy did not start")
    try:
        yield proxy
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(30)
        loop.close()
