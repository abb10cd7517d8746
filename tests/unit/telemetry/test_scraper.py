from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tuner.domain.clock import SystemClock
from tuner.telemetry.exposition import EngineMetric
from tuner.telemetry.scraper import LAST_TRIES, MetricsEndpoint, MetricsScraper

PATIENCE_S = 60.0


@dataclass
class Answer:
    status: int = 200
    body: bytes = b"vllm:num_requests_running 3\n"


@dataclass
class MetricsServer:
    """Answers scrape number n with `answer(n)` and lets a test wait for a number of scrapes."""

    answer: Callable[[int], Answer]
    url: str = ""
    count: int = 0
    connections: int = 0
    changed: threading.Condition = field(default_factory=threading.Condition)

    def scraped(self, times: int) -> bool:
        with self.changed:
            return self.changed.wait_for(lambda: self.count >= times, PATIENCE_S)


@contextmanager
def serving(answer: Callable[[int], Answer] = lambda _: Answer()) -> Iterator[MetricsServer]:
    state = MetricsServer(answer)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            state.connections += 1

        def do_GET(self) -> None:
            with state.changed:
                reply = state.answer(state.count)
                state.count += 1
                state.changed.notify_all()
            self.send_response(reply.status)
            self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            self.wfile.write(reply.body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state.url = f"http://127.0.0.1:{server.server_address[1]}/metrics"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_an_endpoint_reads_over_one_connection() -> None:
    with serving() as server:
        endpoint = MetricsEndpoint(server.url)
        readings = [endpoint.read().get(EngineMetric.RUNNING) for _ in range(3)]
        endpoint.close()
        assert readings == [3.0, 3.0, 3.0]
        assert server.connections == 1


def test_an_endpoint_reconnects_after_a_failure() -> None:
    with serving() as server:
        endpoint = MetricsEndpoint(server.url)
        url = server.url
    with pytest.raises(OSError, match="refused"):
        endpoint.read()
    with pytest.raises(OSError, match="refused"):
        MetricsEndpoint(url).read()


@pytest.mark.parametrize("url", ["ftp://x/metrics", "127.0.0.1:80/metrics", "http://"])
def test_a_url_that_cannot_be_scraped_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="not an http"):
        MetricsEndpoint(url)


def test_scrapes_follow_each_other_until_the_end() -> None:
    with serving() as server:
        with MetricsScraper(server.url, 0.01, SystemClock()) as scraper:
            assert server.scraped(3)
        series = scraper.series()
    assert len(series.scrapes) >= 3
    assert {scrape.values[EngineMetric.RUNNING] for scrape in series.scrapes} == {3.0}
    times = [scrape.monotonic_s for scrape in series.scrapes]
    assert times == sorted(times)
    assert not series.gaps


def test_the_last_scrape_is_taken_after_the_load() -> None:
    with serving() as server:
        with MetricsScraper(server.url, 3600.0, SystemClock()) as scraper:
            assert server.scraped(1)
            end_of_load_s = SystemClock().monotonic()
        series = scraper.series()
    assert len(series.scrapes) == 2
    assert series.scrapes[-1].monotonic_s >= end_of_load_s


def test_a_last_scrape_that_fails_is_taken_again() -> None:
    """An engine at its limit may refuse one; without it nobody knows what the window counted."""
    with serving(lambda number: Answer(status=503) if number in (1, 2) else Answer()) as server:
        with MetricsScraper(server.url, 3600.0, SystemClock()) as scraper:
            assert server.scraped(1)
        series = scraper.series()
    assert [scrape.error is None for scrape in series.scrapes] == [True, False, False, True]


def test_a_load_that_was_cut_short_does_not_wait_for_a_last_scrape() -> None:
    with serving(lambda _: Answer(status=503)) as server:
        scraper = MetricsScraper(server.url, 3600.0, SystemClock())
        with pytest.raises(RuntimeError, match="cancelled"), scraper:
            raise RuntimeError("cancelled")
    assert 1 <= len(scraper.series().gaps) <= 2


def test_stopping_does_not_wait_for_the_period() -> None:
    with serving() as server, MetricsScraper(server.url, 3600.0, SystemClock()):
        assert server.scraped(1)


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (Answer(status=503), "HTTP 503"),
        (Answer(body=b"vllm:num_requests_running{x=} three\n"), "ValueError"),
    ],
)
def test_a_scrape_that_fails_is_a_gap_and_the_next_one_goes_on(bad: Answer, error: str) -> None:
    with serving(lambda number: bad if number == 1 else Answer()) as server:
        with MetricsScraper(server.url, 0.01, SystemClock()) as scraper:
            assert server.scraped(4)
        series = scraper.series()
    (gap,) = series.gaps
    assert error in (gap.error or "")
    assert dict(gap.values) == {}
    assert len(series.scrapes) >= 4


def test_an_engine_that_is_gone_makes_gaps_only() -> None:
    with serving() as server:
        url = server.url
    with MetricsScraper(url, 3600.0, SystemClock()) as scraper:
        pass
    series = scraper.series()
    assert len(series.gaps) == len(series.scrapes) > LAST_TRIES
    assert "ConnectionRefusedError" in (series.gaps[0].error or "")


def test_the_thread_ends_even_when_the_load_raises() -> None:
    with serving() as server:
        scraper = MetricsScraper(server.url, 0.01, SystemClock())
        with pytest.raises(RuntimeError, match="load"), scraper:
            raise RuntimeError("load")
        names = {thread.name for thread in threading.enumerate()}
        assert "metrics-scraper" not in names


def test_a_period_must_be_positive() -> None:
    with pytest.raises(ValueError, match="positive"):
        MetricsScraper("http://127.0.0.1:1/metrics", 0.0, SystemClock())
