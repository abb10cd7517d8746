"""A Docker API that runs nothing: it writes down what it is asked and answers as it is told.

For what no container engine of the tests can do (GPUs) or say (the out-of-memory flag).
"""

from __future__ import annotations

import contextlib
import json
import re
import socketserver
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

CONTAINER = "c0ffee"


@dataclass
class Daemon:
    """What was asked (method, path, query, body), and how it answers."""

    entrypoint: list[str] = field(default_factory=lambda: ["vllm", "serve"])
    start_error: str | None = None
    exit_code: int = 0
    oom_killed: bool = False
    output: bytes = b"hello\n"
    asked: list[tuple[str, str, dict[str, list[str]], Any]] = field(default_factory=list)
    started: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)

    def bodies(self, method: str, path: str) -> list[Any]:
        """Bodies of the requests to this path, without the version in front."""
        return [body for m, p, _, body in self.asked if (m, p) == (method, path)]

    def state(self) -> dict[str, object]:
        ended = self.ended.is_set()
        return {
            "Running": not ended,
            "Pid": 0,
            "ExitCode": self.exit_code if ended else 0,
            "OOMKilled": self.oom_killed and ended,
        }


class _Handler(BaseHTTPRequestHandler):
    daemon: Daemon

    def do_GET(self) -> None:
        path = self._record(None)
        if path == "/version":
            self._answer(200, {"ApiVersion": "1.43", "MinAPIVersion": "1.24"})
        elif path.startswith("/images/"):
            self._answer(200, {"Config": {"Entrypoint": self.daemon.entrypoint}})
        elif path == "/containers/json":
            self._answer(200, [])
        else:
            document = {"Config": {"Tty": False}, "State": self.daemon.state()}
            self._answer(200, document)

    def do_PUT(self) -> None:
        self._record(self._body())
        self._answer(200, {})

    def do_DELETE(self) -> None:
        self._record(None)
        self.daemon.started.set()
        self.daemon.ended.set()
        self._answer(204, None)

    def do_POST(self) -> None:
        body = self._body()
        path = self._record(json.loads(body) if body[:1] == b"{" else None)
        if path == "/containers/create":
            self._answer(201, {"Id": CONTAINER, "Warnings": []})
        elif path.endswith("/attach"):
            self._stream()
        elif path.endswith("/start") and self.daemon.start_error:
            self._answer(500, {"message": self.daemon.start_error})
        elif path.endswith("/wait"):
            self.daemon.ended.wait()
            self._answer(200, {"StatusCode": self.daemon.exit_code})
        else:
            if path.endswith("/start"):
                self.daemon.started.set()
            if path.endswith("/kill"):
                self.daemon.ended.set()
            self._answer(204, None)

    def _stream(self) -> None:
        """One frame of standard output after the start, then nothing until the end."""
        self.send_response(200)
        self.send_header("Content-Type", "application/vnd.docker.raw-stream")
        self.end_headers()
        self.wfile.flush()
        self.daemon.started.wait()
        length = len(self.daemon.output).to_bytes(4, "big")
        self.wfile.write(b"\x01\0\0\0" + length + self.daemon.output)
        self.wfile.flush()
        self.daemon.ended.wait()
        self.close_connection = True

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _record(self, body: object) -> str:
        parts = urlsplit(self.path)
        path = re.sub(r"^/v[\d.]+", "", parts.path)
        self.daemon.asked.append((self.command, path, parse_qs(parts.query), body))
        return path

    def _answer(self, status: int, document: object) -> None:
        data = b"" if document is None else json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def address_string(self) -> str:
        return "a unix socket"

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


@contextlib.contextmanager
def recording_docker(directory: Path, daemon: Daemon) -> Iterator[str]:
    """Serve; yields what DOCKER_HOST has to say."""
    handler = type("Handler", (_Handler,), {"daemon": daemon})
    path = directory / "docker.sock"
    with _Server(str(path), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"unix://{path}"
        finally:
            daemon.started.set()
            daemon.ended.set()
            server.shutdown()
            thread.join()
