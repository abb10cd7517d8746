"""What is asked of an endpoint beside its load goes the same way: through the proxy, with TLS."""

from __future__ import annotations

import http.server
import shutil
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.certificates import self_signed, server_side
from tests.support.forward_proxy import forward_proxy
from tuner.engine.attached_launcher import start_time
from tuner.engine.http_probe import Probe
from tuner.telemetry.scraper import MetricsEndpoint

METRICS = b"process_start_time_seconds 12.5\nvllm:num_requests_running 3\n"
VARIABLE = "SERVETUNE_TEST_PROXY"
SECRET = "tuner:s3cret-word"


class _Endpoint(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    seen: list[tuple[str, str | None, str | None]]

    def do_GET(self) -> None:
        headers = self.headers
        told = (self.path, headers.get("Authorization"), headers.get("Proxy-Authorization"))
        self.seen.append(told)
        self.send_response(200)
        self.send_header("Content-Length", str(len(METRICS)))
        self.end_headers()
        self.wfile.write(METRICS)

    def log_message(self, *_: object) -> None:
        """Tests have their own."""


@contextmanager
def endpoint(tls: ssl.SSLContext | None = None) -> Iterator[tuple[str, type[_Endpoint]]]:
    handler = type("Handler", (_Endpoint,), {"seen": []})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        scheme = "http" if tls is None else "https"
        yield f"{scheme}://127.0.0.1:{server.server_address[1]}", handler
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("secure", [False, True])
def test_probes_and_metrics_go_through_the_proxy(
    secure: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls = None
    if secure:
        if shutil.which("openssl") is None:
            pytest.skip("a certificate is made with the openssl command")
        certificate = self_signed(tmp_path)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
        tls = server_side(certificate)
    monkeypatch.setenv(VARIABLE, SECRET)
    with forward_proxy(SECRET) as gate, endpoint(tls) as (url, handler):
        proxy = gate.named(VARIABLE)
        answer = Probe(url, api_key="key", proxy=proxy, timeout_s=30.0).get("/health")
        assert answer is not None
        assert (answer.status, answer.body) == (200, METRICS)
        scraper = MetricsEndpoint(f"{url}/metrics", proxy=proxy)
        assert [scraper.read().values for _ in range(2)][1]
        scraper.close()
        assert start_time(url, None, proxy) == 12.5
        asked = set(gate.asked)
    paths = [path for path, _, _ in handler.seen]
    assert paths == ["/health", "/metrics", "/metrics", "/metrics"]
    assert handler.seen[0][1] == "Bearer key"
    assert {told for _, _, told in handler.seen} == {None}, "the endpoint is told no secret of ours"
    if secure:
        assert asked == {("CONNECT", url.removeprefix("https://"))}
    else:
        assert asked == {("GET", f"{url}/health"), ("GET", f"{url}/metrics")}


def test_a_proxy_that_refuses_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "tuner:wrong-word")
    with forward_proxy(SECRET) as gate, endpoint() as (url, handler):
        assert start_time(url, None, gate.named(VARIABLE)) is None
        with pytest.raises(ValueError, match="HTTP 407"):
            MetricsEndpoint(f"{url}/metrics", proxy=gate.named(VARIABLE)).read()
        assert handler.seen == []


def test_the_environments_proxy_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with forward_proxy() as gate, endpoint() as (url, _):
        monkeypatch.setenv("HTTP_PROXY", gate.url)
        monkeypatch.setenv("http_proxy", gate.url)
        assert start_time(url, None) == 12.5
        assert gate.asked == []
