"""Turns Ctrl-C and SIGTERM into a request to stop."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from tuner.domain.cancellation import Cancellation


@contextmanager
def interruptible() -> Iterator[Cancellation]:
    """A cancellation that SIGINT and SIGTERM request; previous handlers come back at the end.

    The engine is stopped before the process exits, which takes some seconds: more signals change
    nothing, so that an impatient second Ctrl-C cannot leave an engine behind.
    """
    cancellation = Cancellation()

    def request(number: int, frame: FrameType | None) -> None:
        if not cancellation.requested:
            sys.stderr.write("\nstopping the engine; the study is kept\n")
        cancellation.request(signal.Signals(number).name)

    previous = {number: signal.signal(number, request) for number in _SIGNALS}
    try:
        yield cancellation
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


_SIGNALS = (signal.SIGINT, signal.SIGTERM)
