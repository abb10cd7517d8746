"""Reads the engine's metrics at a steady pace while a load runs."""

from __future__ import annotations

import http.client
import threading
import time
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from tuner.domain.clock import Clock
from tuner.domain.proxy import Proxy, Route
from tuner.domain.time_limit import time_limit
from tuner.telemetry.exposition import EngineSnapshot, parse_exposition
from tuner.telemetry.series import MetricSeries, Scrape

TIMEOUT_S = 5.0
LAST_TRIES = 4
"""Readings tried at the end of a load: on the last one hangs whether its window can be read."""
LAST_PAUSE_S = 0.25
LARGEST_BODY_BYTES = 16 * 2**20


class MetricsEndpoint:
    """A kept-alive HTTP connection to one `/metrics`; not for several threads."""

    def __init__(
        self, url: str, *, timeout_s: float = TIMEOUT_S, proxy: Proxy | None = None
    ) -> None:
        route = Route(url, proxy)
        self._connection = route.connection(timeout_s)
        self._target = route.target(urlsplit(url).path or "/metrics")
        self._headers = route.headers()
        self._timeout_s = timeout_s

    def read(self) -> EngineSnapshot:
        """One reading. Raises OSError, HTTPException or ValueError; the next call reconnects."""
        try:
            self._connection.request("GET", self._target, headers=self._headers)
            with time_limit(self._connection.sock, self._timeout_s):
                response = self._connection.getresponse()
                body = response.read(LARGEST_BODY_BYTES)
        except (OSError, http.client.HTTPException):
            self._connection.close()
            raise
        if response.status != http.client.OK:
            raise ValueError(f"HTTP {response.status}")
        return parse_exposition(body.decode("utf-8", errors="replace"))

    def close(self) -> None:
        self._connection.close()


class MetricsScraper:
    """Scrapes in a thread of its own between `__enter__` and `__exit__`.

    A reading that fails becomes a gap in the series. `period_s` is wall time; scrapes keep to a
    fixed grid, and one that took longer than the period lets the missed ones go.
    """

    def __init__(self, url: str, period_s: float, clock: Clock, proxy: Proxy | None = None) -> None:
        if period_s <= 0:
            raise ValueError("the period must be positive")
        self._endpoint = MetricsEndpoint(url, proxy=proxy)
        self._period_s = period_s
        self._clock = clock
        self._stop = threading.Event()
        self._last_tries = 1
        self._lock = threading.Lock()
        self._scrapes: list[Scrape] = []
        self._thread = threading.Thread(target=self._run, name="metrics-scraper", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Take a last scrape, so that the series reaches over the end of the load, and stop.

        After a load that came to its end, one that fails is tried again.
        """
        self._last_tries = LAST_TRIES if kind is None else 1
        self._stop.set()
        self._thread.join()

    def series(self) -> MetricSeries:
        """Everything scraped so far."""
        with self._lock:
            return MetricSeries(tuple(self._scrapes))

    def latest(self) -> Scrape | None:
        """The last scrape that succeeded; None before the first."""
        with self._lock:
            scrapes = reversed(self._scrapes)
            return next((scrape for scrape in scrapes if scrape.error is None), None)

    def _run(self) -> None:
        due_s = self._clock.monotonic()
        while not self._stop.is_set():
            self._scrape()
            missed = int((self._clock.monotonic() - due_s) / self._period_s)
            due_s += (missed + 1) * self._period_s
            self._stop.wait(max(0.0, due_s - self._clock.monotonic()))
        for left in reversed(range(self._last_tries)):
            if self._scrape() or not left:
                break
            time.sleep(LAST_PAUSE_S)
        self._endpoint.close()

    def _scrape(self) -> bool:
        """Whether the engine answered."""
        before_s = self._clock.monotonic()
        try:
            values = self._endpoint.read().values
            error = None
        except (OSError, http.client.HTTPException, ValueError) as problem:
            values = {}
            error = f"{type(problem).__name__}: {problem}"
        # The engine took the values somewhere between question and answer.
        middle_s = (before_s + self._clock.monotonic()) / 2
        scrape = Scrape(middle_s, self._clock.now().timestamp(), values, error)
        with self._lock:
            self._scrapes.append(scrape)
        return error is None
