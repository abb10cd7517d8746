from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest
from prometheus_client import Counter

from tuner.errors import DatabaseError, StartupError
from tuner.worker.metrics import worker_registry
from tuner.worker.probes import ProbeServer


def usable() -> None:
    """A database that serves."""


def unusable() -> None:
    raise DatabaseError("postgresql://db/studies is away")


@contextmanager
def serving(ready: Callable[[], None] = usable) -> Iterator[Callable[[str], tuple[int, str]]]:
    registry = worker_registry()
    Counter("things", "Things.", registry=registry).inc()
    with ProbeServer(registry, ready, "127.0.0.1", 0) as server:
        place = urlsplit(server.address)

        def get(path: str) -> tuple[int, str]:
            connection = HTTPConnection(str(place.hostname), place.port, timeout=10)
            try:
                connection.request("GET", path)
                answer = connection.getresponse()
                return answer.status, answer.read().decode()
            finally:
                connection.close()

        yield get


def test_a_scrape_shows_what_was_counted_and_what_runs() -> None:
    with serving() as get:
        status, text = get("/metrics")
    assert status == 200
    assert "things_total 1.0" in text
    assert "servetune_build_info{" in text


def test_readiness_is_that_of_the_database_and_tells_nothing_of_it() -> None:
    with serving() as get:
        assert get("/readyz") == (200, '{"ready": true}')
    with serving(unusable) as get:
        assert get("/readyz") == (503, '{"ready": false}')
        assert get("/healthz")[0] == 200


def test_there_is_nothing_else() -> None:
    with serving() as get:
        assert get("/api/v1/studies")[0] == 404


def test_a_client_that_says_nothing_holds_nobody_up() -> None:
    registry = worker_registry()
    with ProbeServer(registry, usable, "127.0.0.1", 0) as server:
        place = urlsplit(server.address)
        silent = socket.create_connection((str(place.hostname), place.port or 0))
        connection = HTTPConnection(str(place.hostname), place.port, timeout=10)
        connection.request("GET", "/healthz")
        assert connection.getresponse().status == 200
        connection.close()
        silent.close()


def test_a_port_that_is_taken_is_a_startup_error() -> None:
    with ProbeServer(worker_registry(), usable, "127.0.0.1", 0) as server:
        port = urlsplit(server.address).port or 0
        with pytest.raises(StartupError, match="cannot listen") as caught:
            ProbeServer(worker_registry(), usable, "127.0.0.1", port)
    assert caught.value.hint is not None
