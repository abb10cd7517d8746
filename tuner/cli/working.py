"""`servetune worker`: a process that drives studies until it is told to stop."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from tuner.settings import Settings
from tuner.worker.composition import open_worker, resolve_locations
from tuner.worker.daemon import Worker


def work(settings: Settings, *, once: bool) -> int:
    """Drive studies until told to stop, or until none waits; returns the exit code."""
    level = "info" if settings.log_level == "warning" else settings.log_level
    logging.basicConfig(level=level.upper(), format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("alembic").setLevel(logging.WARNING)
    with open_worker(resolve_locations(settings), once=once) as worker, _drained(worker):
        worker.run()
    return 0


@contextmanager
def _drained(worker: Worker) -> Iterator[None]:
    """The first SIGTERM or SIGINT drains the worker, the second ends it at once.

    At once means without waiting for the engine: its guard ends that when this process is gone.
    """
    stopped = False

    def request(number: int, frame: FrameType | None) -> None:
        nonlocal stopped
        if stopped:
            os._exit(128 + number)
        stopped = True
        sys.stderr.write("stopping the running attempt; its study stays claimable\n")
        worker.stop(f"the worker got {signal.Signals(number).name}")

    previous = {n: signal.signal(n, request) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
