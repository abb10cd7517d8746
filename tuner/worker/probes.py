"""A worker's answers to probes and scrapes, in a thread of their own.

It shows no configuration and takes no order, so nobody is asked for a key; it listens on loopback
unless told otherwise.
"""

from __future__ import annotations

import json
import logging
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from tuner.errors import ServeTuneError, StartupError

SLOWEST_CLIENT_S = 10.0
JSON = "application/json"

logger = logging.getLogger(__name__)


class ProbeServer:
    """`/metrics`, `/healthz` (the process answers) and `/readyz` (its database is usable)."""

    def __init__(
        self, registry: CollectorRegistry, ready: Callable[[], None], host: str, port: int
    ) -> None:
        """`ready` raises ServeTuneError when the worker cannot work; raises StartupError itself."""
        try:
            self._server = _Server(host, port)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise StartupError(
                f"cannot listen for scrapes there: {reason}",
                where=f"{host}:{port}",
                hint="name another address with --metrics-host and --metrics-port",
            ) from error
        self._server.registry, self._server.ready = registry, ready
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="probes", daemon=True
        )

    @property
    def address(self) -> str:
        """The URL it answers under."""
        host, port = self._server.server_address[:2]
        name = f"[{host!s}]" if ":" in str(host) else str(host)
        return f"http://{name}:{port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    registry: CollectorRegistry
    ready: Callable[[], None]

    def __init__(self, host: str, port: int) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host.strip("[]"), port), _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = SLOWEST_CLIENT_S
    server_version = "ServeTune"
    sys_version = ""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/metrics":
            encode, media_type = choose_encoder(self.headers.get("accept", ""))
            self._answer(200, encode(self.server.registry), media_type)
        elif path == "/healthz":
            self._say(200, {"status": "ok"})
        elif path == "/readyz":
            self._say(*self._readiness())
        else:
            self._say(404, {"detail": "there are /metrics, /healthz and /readyz"})

    def _readiness(self) -> tuple[int, dict[str, object]]:
        try:
            self.server.ready()
        except ServeTuneError as error:
            logger.info("not ready: %s", error.message)
            return 503, {"ready": False}
        return 200, {"ready": True}

    def _say(self, status: int, document: dict[str, object]) -> None:
        self._answer(status, json.dumps(document).encode(), JSON)

    def _answer(self, status: int, body: bytes, media_type: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Scrapes are no news."""
