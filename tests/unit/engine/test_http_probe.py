from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tuner.engine.http_probe import Probe
from tuner.errors import CancelledError


class Handler(BaseHTTPRequestHandler):
    release = threading.Event()

    def do_GET(self) -> None:
        self._answer(404 if self.path == "/missing" else 200, self._said())

    def do_POST(self) -> None:
        sent = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/slow":
            self.release.wait(30)
        self._answer(200, sent)

    def _said(self) -> bytes:
        return self.headers.get("Authorization", "nothing").encode()

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


class Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """A client that gave up is what some tests are about."""


@pytest.fixture
def url() -> Iterator[str]:
    Handler.release.clear()
    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        Handler.release.set()
        server.shutdown()
        thread.join()


def test_any_status_is_an_answer(url: str) -> None:
    found, missing = Probe(url).get("/health"), Probe(url).get("/missing")

    assert found is not None
    assert missing is not None
    assert (found.status, missing.status) == (200, 404)


def test_the_engines_own_key_is_presented(url: str) -> None:
    answer = Probe(url, api_key="k").get("/v1/models")

    assert answer is not None
    assert answer.body == b"Bearer k"


def test_proxies_of_the_environment_are_not_asked(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")

    assert Probe(url).get("/health") is not None


def test_json_goes_out_and_comes_back(url: str) -> None:
    answer = Probe(url).post("/echo", {"a": [1]}, lambda: 10.0)

    assert answer is not None
    assert answer.json() == {"a": [1]}


def test_what_is_no_json_is_none(url: str) -> None:
    answer = Probe(url).get("/health")

    assert answer is not None
    assert answer.json() is None


def test_nobody_there_is_no_answer() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        assert Probe(f"http://127.0.0.1:{bound.getsockname()[1]}").get("/health") is None


def test_somebody_who_does_not_speak_http_is_no_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def babble() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"\x16\x03\x01 hello\r\n\r\n")

        thread = threading.Thread(target=babble)
        thread.start()
        assert Probe(f"http://127.0.0.1:{server.getsockname()[1]}").get("/health") is None
        thread.join()


def test_silence_ends_with_the_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"

        assert Probe(url, timeout_s=0.05).get("/health") is None


def test_waiting_for_a_slow_answer_can_be_given_up(url: str) -> None:
    patience = iter([0.01, 0.01, None])

    assert Probe(url).post("/slow", {}, lambda: next(patience)) is None
    assert list(patience) == []


def test_waiting_for_a_slow_answer_can_be_cancelled(url: str) -> None:
    def cancel() -> float:
        raise CancelledError("stop")

    with pytest.raises(CancelledError):
        Probe(url).post("/slow", {}, cancel)
