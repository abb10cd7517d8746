"""`servetune worker`: a process that drives studies until it is told to stop."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType

from prometheus_client import CollectorRegistry

from tuner.logs import configure_logs
from tuner.settings import Settings
from tuner.store.schema import check
from tuner.worker.composition import Locations, open_worker, resolve_locations
from tuner.worker.daemon import Worker
from tuner.worker.metrics import WorkerMetrics, worker_registry
from tuner.worker.probes import ProbeServer

logger = logging.getLogger(__name__)


def work(settings: Settings, *, once: bool) -> int:
    """Drive studies until told to stop, or until none waits; returns the exit code."""
    level = "info" if settings.log_level == "warning" else settings.log_level
    configure_logs(level, settings.log_format)
    locations, registry = resolve_locations(settings), worker_registry()
    with (
        open_worker(locations, once=once, metrics=WorkerMetrics(registry)) as worker,
        _probed(settings, registry, locations),
        _drained(worker),
    ):
        worker.run()
    return 0


@contextmanager
def _probed(
    settings: Settings, registry: CollectorRegistry, locations: Locations
) -> Iterator[None]:
    """Answer probes and scrapes meanwhile where the settings say so."""
    if settings.metrics_port is None:
        yield
        return
    host, port = settings.metrics_host, settings.metrics_port
    with ProbeServer(registry, partial(check, locations.database), host, port) as server:
        logger.info("answering probes and scrapes on %s", server.address)
        yield


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
