"""What carries requests to the engine; one contract suite holds for every way of doing it."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from tuner.loadgen.response_stream import ResponseStream

KERNEL_CLOCK = "kernel"
USER_SPACE_CLOCK = "user space"

CONNECT_TIMEOUT_S = 10.0
KEEP_ALIVE_S = 2.0
"""Well below the 5 s after which vLLM's server closes idle connections: a request written to a
connection that is just being closed would count as failed."""


class Transport(Protocol):
    """Carries one request to the engine and its answer back, with stamps."""

    @property
    def clock(self) -> str:
        """Where arrivals were stamped so far: `kernel` or `user space`."""

    @property
    def clock_step_s(self) -> float:
        """By how much the clock behind the stamps was set meanwhile, at the most."""

    @property
    def reads(self) -> int:
        """Reads from sockets so far."""

    async def prepare(self, connections: int, *, keep: int = 0) -> None:
        """Have this many connections open and free, and from now on `keep` of them at any time.

        A hint; nothing is raised when they cannot be opened.
        """

    def exchange(self, body: bytes, stream: ResponseStream) -> Awaitable[None]:
        """Send, at once if possible, and feed the answer to `stream` until it ends.

        Raises StreamFault with the class of failure; a fault that the stream already carries (a
        stall, bytes that are no events) goes before what the closed connection looks like.
        Cancelling closes the connection.
        """
