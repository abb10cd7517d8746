"""The waiting itself, on an engine and a clock that do as told and a real HTTP server."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tuner.domain.cancellation import Cancellation
from tuner.domain.diagnosis import Consequence, Phase
from tuner.engine.launcher import ExitStatus, LaunchRequest, ProcessIdentity
from tuner.engine.readiness import NotReady, Ready, wait_until_ready
from tuner.errors import CancelledError

CRASH = ExitStatus(1, stop_requested=False, killed=False)
REFUSED = "ValueError: No available memory for the cache blocks."


class Server(http.server.ThreadingHTTPServer):
    """What it answers can be changed while it runs."""

    health = 200
    models: object = {"data": [{"id": "tiny"}]}
    completion_status = 200
    completion: object = {"choices": [{"text": "x"}]}
    completions_asked: int = 0
    keys: set[str | None]
    hold: threading.Event

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that gave up is what some tests are about."""


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.keys.add(self.headers.get("Authorization"))
        if self.path == "/health":
            self._answer(self.server.health, {})
        elif self.path == "/v1/models":
            self._answer(200, self.server.models)
        else:
            self._send(200, b'vllm:cache_config_info{kv_cache_size_tokens="77"} 1.0\n')

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.completions_asked += 1
        self.server.hold.wait(60)
        self._answer(self.server.completion_status, self.server.completion)

    def _answer(self, status: int, document: object) -> None:
        self._send(status, json.dumps(document).encode())

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@dataclass
class Clock:
    """Time passes only while somebody sleeps; each sleep may make something happen."""

    time_s: float = 100.0
    events: list[Callable[[], object]] = field(default_factory=list)

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)

    def monotonic(self) -> float:
        return self.time_s

    def sleep(self, duration_s: float) -> None:
        self.time_s += duration_s
        if self.events:
            self.events.pop(0)()


@dataclass
class Engine:
    request: LaunchRequest
    status: ExitStatus | None = None
    ours: bool = True
    log: str = "INFO [c.py:1] Initializing a V1 LLM engine (v0.32.0) with config: x\n"

    @property
    def base_url(self) -> str:
        return f"http://{self.request.host}:{self.request.port}"

    guard = ProcessIdentity(1, 1)
    engine = ProcessIdentity(2, 1)

    def exit_status(self) -> ExitStatus | None:
        return self.status

    def owns_port(self) -> bool:
        return self.ours

    def log_tail(self, max_bytes: int = 65536) -> str:
        return self.log[-max_bytes:]

    def stop(self) -> ExitStatus:
        raise AssertionError("waiting does not stop an engine")


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as server:
        server.keys = set()
        server.hold = threading.Event()
        server.hold.set()
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.hold.set()
        server.shutdown()
        thread.join()


@pytest.fixture
def engine(server: Server) -> Engine:
    request = LaunchRequest(
        argv=("engine",),
        env={},
        host="127.0.0.1",
        port=server.server_port,
        served_model="tiny",
        log_path=Path("unused"),
        stop_grace_s=1.0,
    )
    return Engine(request)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def wait(
    engine: Engine, clock: Clock, cancellation: Cancellation | None = None
) -> Ready | NotReady:
    return wait_until_ready(
        engine,
        deadline_s=60.0,
        poll_s=1.0,
        clock=clock,
        cancellation=cancellation or Cancellation(),
    )


def refused(engine: Engine, clock: Clock) -> NotReady:
    answer = wait(engine, clock)
    assert isinstance(answer, NotReady)
    return answer


def test_an_engine_that_serves_is_ready_with_its_facts(
    server: Server, engine: Engine, clock: Clock
) -> None:
    server.health = 503

    def healthy() -> None:
        server.health = 200

    clock.events = [lambda: None, healthy]

    answer = wait(engine, clock)

    assert isinstance(answer, Ready)
    assert answer.startup_s == 2.0
    assert answer.facts.startup_s == 2.0
    assert answer.facts.version == "0.32.0"
    assert answer.facts.kv_cache_tokens == 77
    assert server.completions_asked == 1


def test_an_engine_with_a_key_is_asked_with_it(
    server: Server, engine: Engine, clock: Clock
) -> None:
    engine.request = replace(engine.request, env={"VLLM_API_KEY": "k"})

    assert isinstance(wait(engine, clock), Ready)
    assert server.keys == {"Bearer k"}


def test_an_engine_that_dies_is_diagnosed_at_once(server: Server, engine: Engine) -> None:
    def die() -> None:
        engine.status = CRASH
        engine.log = REFUSED

    server.health = 503
    clock = Clock(events=[lambda: None, die])

    answer = refused(engine, clock)

    assert answer.diagnosis.failure_class == "kv_none"
    assert answer.diagnosis.returncode == 1
    assert clock.time_s == 102.0


def test_an_engine_that_is_late_is_told_with_its_phase(
    server: Server, engine: Engine, clock: Clock
) -> None:
    server.health = 503
    engine.log += "INFO [m.py:1] Starting to load model tiny...\n"

    answer = refused(engine, clock)

    assert answer.diagnosis.failure_class == "startup_timeout"
    assert answer.diagnosis.phase is Phase.LOAD
    assert clock.time_s == 160.0


def test_a_stranger_on_the_port_is_the_environments_fault(
    engine: Engine, server: Server, clock: Clock
) -> None:
    engine.ours = False

    answer = refused(engine, clock)

    assert answer.diagnosis.failure_class == "port_in_use"
    assert answer.diagnosis.consequence is Consequence.RETRY
    assert server.completions_asked == 0


def test_an_engine_that_ended_while_it_was_asked_is_not_taken_for_a_stranger(
    engine: Engine, clock: Clock
) -> None:
    def die() -> None:
        engine.status = CRASH
        engine.log = REFUSED

    engine.ours = False
    clock.events = [die]

    assert refused(engine, clock).diagnosis.failure_class == "kv_none"


def test_another_model_than_intended_stops_the_study(
    server: Server, engine: Engine, clock: Clock
) -> None:
    server.models = {"data": [{"id": "Qwen/Qwen3-0.6B"}]}

    answer = refused(engine, clock)

    assert answer.diagnosis.failure_class == "wrong_model"
    assert answer.diagnosis.consequence is Consequence.STOP_STUDY
    assert "Qwen/Qwen3-0.6B" in answer.diagnosis.summary
    assert "tiny" in answer.diagnosis.summary


@pytest.mark.parametrize("models", [None, [], {}, {"data": None}, "nonsense"])
def test_nonsense_for_a_list_of_models_is_waited_out(
    server: Server, engine: Engine, clock: Clock, models: object
) -> None:
    server.models = models

    def sensible() -> None:
        server.models = {"data": [{"id": "tiny"}]}

    clock.events = [sensible]

    assert isinstance(wait(engine, clock), Ready)


@pytest.mark.parametrize(
    ("status", "body"), [(500, {}), (404, {}), (200, {"choices": []}), (200, {"error": {}})]
)
def test_healthy_is_not_enough_without_a_completion(
    server: Server, engine: Engine, clock: Clock, status: int, body: object
) -> None:
    server.completion_status, server.completion = status, body

    assert refused(engine, clock).diagnosis.failure_class == "startup_timeout"


def test_an_engine_that_dies_over_its_first_completion_is_diagnosed(
    server: Server, engine: Engine, clock: Clock
) -> None:
    server.hold.clear()

    class DyingEngine(Engine):
        def exit_status(self) -> ExitStatus | None:
            return CRASH if server.completions_asked else None

    dying = DyingEngine(engine.request, log=REFUSED)

    assert refused(dying, clock).diagnosis.failure_class == "kv_none"


def test_a_stop_is_obeyed_before_and_while_waiting(
    server: Server, engine: Engine, clock: Clock
) -> None:
    server.health = 503
    cancellation = Cancellation()
    clock.events = [lambda: cancellation.request("enough")]

    with pytest.raises(CancelledError, match="enough"):
        wait(engine, clock, cancellation)
    assert clock.time_s == 101.0


def test_a_stop_is_obeyed_while_the_first_completion_runs(
    server: Server, engine: Engine, clock: Clock
) -> None:
    server.hold.clear()
    cancellation = Cancellation()

    class CancellingEngine(Engine):
        def exit_status(self) -> ExitStatus | None:
            if server.completions_asked:
                cancellation.request("enough")
            return None

    with pytest.raises(CancelledError, match="enough"):
        wait(CancellingEngine(engine.request), clock, cancellation)
