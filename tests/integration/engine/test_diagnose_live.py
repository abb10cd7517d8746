"""`servetune diagnose --metrics URL` on a server that answers while it is asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tuner.cli.entry import run

Scrape = Callable[[int], str]


@contextmanager
def serving(scrape: Scrape) -> Iterator[str]:
    """The address of an endpoint whose n-th answer is `scrape(n)`."""
    asked = iter(range(1_000_000))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = scrape(next(asked)).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/metrics"
        finally:
            server.shutdown()
            thread.join()


def preempting(n: int) -> str:
    return (
        "vllm:num_requests_running 40\nvllm:num_requests_waiting 9\n"
        f"vllm:kv_cache_usage_perc 0.99\nvllm:num_preemptions_total {100 + 30 * n}\n"
        f"vllm:request_success_total {50 + 10 * n}\nvllm:generation_tokens_total {1000 * n}\n"
        f"vllm:num_preemptions_created 1.7e9\n"
    )


def hanging(n: int) -> str:
    return (
        "vllm:num_requests_running 8\nvllm:num_requests_waiting 0\nvllm:kv_cache_usage_perc 0.2\n"
        "vllm:num_preemptions_total 0\nvllm:request_success_total 12\n"
        "vllm:generation_tokens_total 900\nvllm:iteration_tokens_total_sum 5000\n"
        "vllm:iteration_tokens_total_count 300\n"
    )


def serving_well(n: int) -> str:
    return (
        "vllm:num_requests_running 8\nvllm:num_requests_waiting 0\nvllm:kv_cache_usage_perc 0.2\n"
        f"vllm:num_preemptions_total 0\nvllm:request_success_total {12 + n}\n"
        f"vllm:generation_tokens_total {900 + 100 * n}\n"
        f"vllm:iteration_tokens_total_sum {5000 + 100 * n}\n"
        f"vllm:iteration_tokens_total_count {300 + 12 * n}\n"
    )


@pytest.mark.parametrize(
    ("scrape", "failure_class"),
    [(preempting, "preemption"), (hanging, "hang"), (serving_well, "ok")],
)
def test_an_engine_is_diagnosed_by_what_its_metrics_do(
    scrape: Scrape, failure_class: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(scrape) as url:
        code = run(["diagnose", "--metrics", url, "--window", "0.2", "--output", "json"])

    assert code == 0
    assert json.loads(capsys.readouterr().out)["class"] == failure_class


def test_an_endpoint_that_is_gone_is_the_users_to_start(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with serving(serving_well) as url:
        pass

    code = run(["diagnose", "--metrics", url, "--window", "0.2"])

    assert code == 2
    assert "is the engine up?" in capsys.readouterr().err
