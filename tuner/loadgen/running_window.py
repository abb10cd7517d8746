"""How a load generator's process hears that a window is to close before its time."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from typing import Protocol

from tuner.loadgen.closing import Closing, closing_from

CLOSE = "close"
"""Begins the line on standard input that says so."""


class Closable(Protocol):
    """A running segment."""

    def close(self, closing: Closing) -> None:
        """Measure only until then; nothing changes where that is no part of the window."""


class RunningWindow:
    """The segment that runs; `tell` may be called from any thread."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._number = -1
        self._run: Closable | None = None

    def attach(self, number: int, run: Closable) -> None:
        """From now on this segment runs."""
        self._loop = asyncio.get_running_loop()
        self._number, self._run = number, run

    def tell(self, number: int, closing: Closing) -> None:
        """Close the window of a segment; one that is over is left as it is."""
        loop = self._loop
        if loop is None or loop.is_closed():
            return
        loop.call_soon_threadsafe(self._close, number, closing)

    def _close(self, number: int, closing: Closing) -> None:
        if self._run is not None and number == self._number:
            self._run.close(closing)


def closing_line(number: int, closing: Closing) -> str:
    """The line that tells a process to close the window of a segment."""
    return f"{CLOSE} {json.dumps({'segment': number, 'closing': asdict(closing)})}\n"


def read_closing_line(line: str) -> tuple[int, Closing] | None:
    """What `closing_line` wrote; None for another line."""
    if not line.startswith(CLOSE):
        return None
    document = json.loads(line.removeprefix(CLOSE))
    return document["segment"], closing_from(document["closing"])
