"""What carries requests to the engine; one contract suite holds for every way of doing it."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from tuner.loadgen.response_stream import ResponseStream

KERNEL_CLOCK = "kernel"
USER_SPACE_CLOCK = "user space"


class Transport(Protocol):
    """Carries one request to the engine and its answer back, with stamps."""

    @property
    def clock(self) -> str:
        """Where arrivals were stamped so far: `kernel` or `user space`."""

    @property
    def reads(self) -> int:
        """Reads from sockets so far."""

    def exchange(self, body: bytes, stream: ResponseStream) -> Awaitable[None]:
        """Send, at once if possible, and feed the answer to `stream` until it ends.

        Raises StreamFault with the class of failure; a fault that the stream already carries (a
        stall, bytes that are no events) goes before what the closed connection looks like.
        Cancelling closes the connection.
        """
