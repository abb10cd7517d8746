"""A server that answers on a fixed schedule and keeps account of when it really wrote.

    python -m tuner.loadgen.selftest.known_schedule TTFT_MS ITL_MS PORT

Prints its port. A line with a file's name on standard input makes it write its account since the
last one there and print `written`. It ends when its standard input closes.

It is in Python and often late; that does not matter: what a client saw is compared with the stamps
of the writes, not with the schedule.
"""

from __future__ import annotations

import asyncio
import gc
import os
import re
import socket
import sys
import time
from array import array
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import uvloop

from tuner.domain.precedence import ask_for_precedence
from tuner.loadgen.realtime_clock import RealtimeClock
from tuner.loadgen.stamped_reader import StampedReader

TICK_S = 0.001
BACKLOG = 4096
HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)
END = b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"
_CONTENT_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_MAX_TOKENS = re.compile(rb'"max_tokens": *(\d+)')
_TOKEN = (
    b'data: {"id":"cmpl-6b1f0c9d2e7a45338f10","object":"text_completion","created":1790000000,'
    b'"model":"selftest","choices":[{"index":0,"text":" word","logprobs":null,"finish_reason":%b,'
    b'"stop_reason":null}],"usage":{"prompt_tokens":16,"total_tokens":%d,"completion_tokens":%d}}'
    b"\n\n"
)


class Client:
    """One connection with, at most, one answer under way."""

    __slots__ = ("arrived_s", "due_s", "received", "sent", "socket", "unsent", "wanted", "wrote_s")

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self.received = b""
        self.unsent = b""
        self.wanted = self.sent = 0
        self.arrived_s = self.due_s = self.wrote_s = 0.0


class KnownScheduleServer:
    """Serves on the running loop."""

    def __init__(self, ttft_s: float, itl_s: float) -> None:
        self._ttft_s, self._itl_s = ttft_s, itl_s
        self._loop = asyncio.get_running_loop()
        self._reader = StampedReader(RealtimeClock())
        # Both in the order of their due times, as each wait is the same for every answer.
        self._first: deque[Client] = deque()
        self._next: deque[Client] = deque()
        self._forget()

    def _forget(self) -> None:
        self._ttft_ms, self._itl_ms, self._late_ms = array("d"), array("d"), array("d")
        self._since_s, self._cpu_s = time.monotonic(), time.process_time()

    def listen(self, port: int) -> int:
        """Accept connections on loopback, on a port shared with others of its kind."""
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setblocking(False)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(BACKLOG)
        self._loop.add_reader(listener.fileno(), self._welcome, listener)
        self._loop.call_later(TICK_S, self._tick)
        return int(listener.getsockname()[1])

    def write_account(self, path: Path) -> None:
        """What was done since the last account, as columns in milliseconds."""
        elapsed_s = time.monotonic() - self._since_s
        cpu_share = (time.process_time() - self._cpu_s) / elapsed_s
        with path.open("wb") as stream:
            np.savez(
                stream,
                cpu_share=np.float64(cpu_share),
                ttft_ms=np.frombuffer(self._ttft_ms),
                itl_ms=np.frombuffer(self._itl_ms),
                late_ms=np.frombuffer(self._late_ms),
            )
        self._forget()

    def _welcome(self, listener: socket.socket) -> None:
        try:
            sock, _ = listener.accept()
        except (BlockingIOError, ConnectionError):
            return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader.adopt(sock)
        self._loop.add_reader(sock.fileno(), self._readable, Client(sock))

    def _readable(self, client: Client) -> None:
        try:
            stamp_s, data = self._reader.read(client.socket)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self._drop(client)
            return
        if not data:
            self._drop(client)
            return
        client.received += bytes(data)
        wanted = asked_tokens(client.received)
        if wanted is None:
            return
        client.received, client.wanted, client.sent = b"", wanted, 0
        client.arrived_s, client.due_s = stamp_s, stamp_s + self._ttft_s
        self._first.append(client)
        self._send(client, HEAD)

    def _drop(self, client: Client) -> None:
        self._loop.remove_reader(client.socket.fileno())
        client.socket.close()
        client.wanted = 0

    def _tick(self) -> None:
        started_s = time.monotonic()
        while (waiting := self._earlier()) and waiting[0].due_s <= started_s:
            client = waiting.popleft()
            if client.sent < client.wanted:
                self._emit(client)
        self._loop.call_later(max(0.0, TICK_S - (time.monotonic() - started_s)), self._tick)

    def _earlier(self) -> deque[Client]:
        """The queue whose head is due first; an empty one when both are."""
        first, later = self._first, self._next
        if not first or not later:
            return first or later
        return first if first[0].due_s < later[0].due_s else later

    def _emit(self, client: Client) -> None:
        client.sent += 1
        number, last = client.sent, client.sent == client.wanted
        event = _TOKEN % (b'"length"' if last else b"null", 16 + number, number)
        data = b"%x\r\n%b\r\n%b" % (len(event), event, END if last else b"")
        now_s = time.monotonic()
        self._late_ms.append((now_s - client.due_s) * 1000)
        if number == 1:
            self._ttft_ms.append((now_s - client.arrived_s) * 1000)
        else:
            self._itl_ms.append((now_s - client.wrote_s) * 1000)
        client.wrote_s = now_s
        if not last:
            client.due_s += self._itl_s
            self._next.append(client)
        self._send(client, data)

    def _send(self, client: Client, data: bytes) -> None:
        """What the socket does not take now goes with the next token."""
        data = client.unsent + data
        try:
            client.unsent = data[client.socket.send(data) :]
        except BlockingIOError:
            client.unsent = data
        except OSError:
            self._drop(client)


def asked_tokens(request: bytes) -> int | None:
    """How many tokens a whole request asks for; None while some of it is missing."""
    head, separator, body = request.partition(b"\r\n\r\n")
    length = _CONTENT_LENGTH.search(head)
    if not separator or length is None or len(body) < int(length[1]):
        return None
    wanted = _MAX_TOKENS.search(body)
    return int(wanted[1]) if wanted else 1


async def serve(ttft_s: float, itl_s: float, port: int) -> None:
    """Serve until standard input closes."""
    server = KnownScheduleServer(ttft_s, itl_s)
    sys.stdout.write(f"{server.listen(port)}\n")
    sys.stdout.flush()
    gc.disable()
    ended = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().add_reader(0, _heed, server, ended)
    await ended


def _heed(server: KnownScheduleServer, ended: asyncio.Future[None]) -> None:
    line = os.read(0, 4096)
    if not line:
        if not ended.done():
            ended.set_result(None)
        return
    server.write_account(Path(line.decode().rstrip("\n")))
    sys.stdout.write("written\n")
    sys.stdout.flush()


def main(arguments: Sequence[str]) -> int:
    """Run as a process of its own."""
    ttft_ms, itl_ms, port = arguments
    ask_for_precedence()
    uvloop.run(serve(float(ttft_ms) / 1000, float(itl_ms) / 1000, int(port)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
