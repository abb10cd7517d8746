"""Whatever happens to a real vLLM: the right outcome, and no process, port or segment left."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.support.engines import until
from tests.support.real_vllm import (
    Installation,
    Scene,
    attempt,
    attempt_request,
    engine_request,
    spec_of,
)
from tuner.domain.states import AttemptOutcome
from tuner.engine.launcher import ProcessIdentity
from tuner.engine.process_launcher import ProcessLauncher

pytestmark = [pytest.mark.real_vllm, pytest.mark.timeout(600)]

API_SERVER, ENGINE_CORE, WORKER = (
    "Resolved architecture",
    "Initializing a V1 LLM engine",
    "Starting to load model",
)


@pytest.mark.parametrize("stage", [API_SERVER, ENGINE_CORE, WORKER])
def test_stopped_while_it_starts(
    vllm: Installation, scene: Scene, attempt_dir: Path, stage: str
) -> None:
    """vLLM loses a SIGTERM at some of these moments, and goes on starting, or hangs."""
    request = engine_request(spec_of(vllm), attempt_dir)
    engine = ProcessLauncher().launch(request)
    scene.watch.follow([engine.guard, engine.engine], request.port)
    until(lambda: stage in engine.log_tail(), f"the engine comes to: {stage}", patience_s=240)

    status = engine.stop()

    assert status.stop_requested
    assert engine.exit_status() is not None


def test_not_ready_in_time(vllm: Installation, scene: Scene, attempt_dir: Path) -> None:
    result = attempt(attempt_request(spec_of(vllm), attempt_dir, startup_s=4.0), scene)

    assert result.outcome is AttemptOutcome.ENVIRONMENT
    assert result.diagnosis is not None
    assert result.diagnosis.failure_class == "startup_timeout"
    assert result.measurement is None


def test_engine_core_killed_under_load(vllm: Installation, scene: Scene, attempt_dir: Path) -> None:
    """The API server then ends with status 0, as if all were well."""
    scene.measuring = lambda s: os.kill(s.core_pid(), signal.SIGKILL)

    result = attempt(attempt_request(spec_of(vllm), attempt_dir), scene)

    assert result.outcome is AttemptOutcome.ENVIRONMENT
    assert result.measurement is None
    assert result.diagnosis is not None
    assert result.diagnosis.failure_class == "engine_dead_unknown"
    assert scene.watch.segments_seen > 0


def test_api_server_killed_under_load(vllm: Installation, scene: Scene, attempt_dir: Path) -> None:
    """Engine core and worker live on, with all their memory, and nobody listens any more."""

    def kill(s: Scene) -> None:
        assert s.engine is not None
        os.kill(s.engine.pid, signal.SIGKILL)

    scene.measuring = kill

    result = attempt(attempt_request(spec_of(vllm), attempt_dir), scene)

    assert result.outcome is AttemptOutcome.ENVIRONMENT
    assert result.measurement is None
    assert result.diagnosis is not None
    assert result.diagnosis.failure_class == "host_oom"  # the likeliest killer of a single process
    assert result.diagnosis.returncode == -signal.SIGKILL


def test_hang_under_load(vllm: Installation, scene: Scene, attempt_dir: Path) -> None:
    """The engine core stands still; the API server's /health says 200 all the same."""
    scene.measuring = lambda s: os.kill(s.core_pid(), signal.SIGSTOP)

    result = attempt(attempt_request(spec_of(vllm), attempt_dir, stall_s=6.0), scene)

    assert result.outcome is AttemptOutcome.ENVIRONMENT
    assert result.measurement is None
    assert result.diagnosis is not None
    assert result.diagnosis.failure_class == "hang"


def test_stopped_under_load(vllm: Installation, scene: Scene, attempt_dir: Path) -> None:
    """vLLM ends open streams with status 200 and few tokens; nothing of that is a result."""
    scene.measuring = lambda s: s.cancellation.request("the user has had enough")

    result = attempt(attempt_request(spec_of(vllm), attempt_dir), scene)

    assert result.outcome is AttemptOutcome.CANCELLED
    assert result.measurement is None


def test_guard_killed_under_load(vllm: Installation, scene: Scene, attempt_dir: Path) -> None:
    """Nobody owns the engine any more; the attempt goes on and ends it by its record."""

    def kill(s: Scene) -> None:
        assert s.guard is not None
        os.kill(s.guard.pid, signal.SIGKILL)

    scene.measuring = kill

    result = attempt(attempt_request(spec_of(vllm), attempt_dir), scene)

    assert result.outcome in (AttemptOutcome.MEASURED, AttemptOutcome.INVALID), result.reason
    assert result.measurement is not None


class Stranger(BaseHTTPRequestHandler):
    """Somebody else's server: healthy, and serving a model of the same name."""

    def do_GET(self) -> None:
        body = b'{"data": [{"id": "tiny"}]}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@contextmanager
def stranger_on(port: int) -> Iterator[None]:
    with ThreadingHTTPServer(("127.0.0.1", port), Stranger) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield
        server.shutdown()
        thread.join()


def test_a_stranger_takes_the_port(vllm: Installation, scene: Scene, attempt_dir: Path) -> None:
    """Its /health is 200 long before our engine could be: it must not be measured."""
    servers = []

    def take(guard: ProcessIdentity, engine: ProcessIdentity, port: int) -> None:
        server = stranger_on(port)
        server.__enter__()
        servers.append(server)

    scene.launched = take
    try:
        result = attempt(attempt_request(spec_of(vllm), attempt_dir), scene)
    finally:
        for server in servers:
            server.__exit__(None, None, None)

    assert result.outcome is AttemptOutcome.ENVIRONMENT
    assert result.measurement is None
    assert result.diagnosis is not None
    assert result.diagnosis.failure_class == "port_in_use"
