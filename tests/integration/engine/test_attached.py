"""The attached launcher on a real engine that a script of its owner manages."""

from __future__ import annotations

import dataclasses
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.integration.engine.conftest import StartWorker
from tests.support.engines import is_gone, until, written_pid
from tests.support.forward_proxy import forward_proxy
from tests.support.launcher_benches import MANAGER, AttachedBench
from tests.support.scripted_engine import STARTED
from tests.support.study_fakes import attempt_request
from tuner.domain.cancellation import Cancellation
from tuner.domain.clock import SystemClock
from tuner.domain.engine_config import EngineConfig
from tuner.domain.study_spec import AttachedLauncherSpec, VllmEngineSpec
from tuner.engine.attached_launcher import AttachedEngine, AttachedLauncher, start_time
from tuner.engine.attached_readiness import wait_until_applied
from tuner.engine.launcher import LaunchRequest
from tuner.engine.places import EndpointPlace
from tuner.engine.port import free_port, is_free
from tuner.engine.readiness import NotReady, Ready
from tuner.errors import ExecutableNotFoundError, InfrastructureError
from tuner.study.attempt import LoadHooks
from tuner.study.engine_launch import launch_request
from tuner.study.executor import AttemptRequest
from tuner.study.load_session import LoadSession

pytestmark = pytest.mark.engine

MODEL = "Qwen/Qwen2.5-7B-Instruct"
ASKED: dict[str, bool | int | float | str] = {
    "max-model-len": 4096,
    "max-num-seqs": 48,
    "max-num-batched-tokens": 1024,
    "enable-chunked-prefill": True,
    "gpu-memory-utilization": 0.9,
}


@dataclasses.dataclass(frozen=True)
class Site:
    """A directory with a server that its owner's script manages, on a port of its own."""

    directory: Path
    port: int

    def manage(self, action: str, *words: str) -> list[str]:
        return [sys.executable, "-S", str(MANAGER), action, str(self.directory), *words]

    def server(self, *fixed: str) -> list[str]:
        """The command of the embedded engine on this port; what is appended are vLLM's flags."""
        address = ("--host", "127.0.0.1", "--port", str(self.port))
        options = ("--sim-gpu", "L4", "--sim-time-scale", "100")
        engine = (sys.executable, "-P", "-m", "tuner.simulator", "serve", MODEL)
        return [*engine, *address, *options, *fixed]

    def launcher(self, *restart: str, **options: object) -> AttachedLauncherSpec:
        given = {
            "type": "attached",
            "url": f"http://127.0.0.1:{self.port}",
            "restart_command": list(restart),
            "stop_command": self.manage("stop"),
            "status_command": self.manage("status"),
            "log_file": "server.log",
            **options,
        }
        return AttachedLauncherSpec.model_validate(given)

    def request(self, launcher: AttachedLauncherSpec) -> AttemptRequest:
        request = attempt_request(self.directory)
        command = dataclasses.replace(request.command, config=EngineConfig.of(ASKED))
        engine = VllmEngineSpec(kind="vllm", launcher=launcher)
        return dataclasses.replace(request, command=command, engine=engine)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    found = Site(tmp_path, free_port("127.0.0.1"))
    yield found
    assert is_free("127.0.0.1", found.port), "a server was left"


@contextmanager
def launched(site: Site, launcher: AttachedLauncherSpec) -> Iterator[AttachedEngine]:
    engine = AttachedLauncher().launch(launch_request(site.request(launcher), 0))
    try:
        yield engine
    finally:
        engine.stop()


def wait(engine: AttachedEngine, deadline_s: float = 100.0) -> Ready | NotReady:
    return wait_until_applied(
        engine,
        deadline_s=deadline_s,
        poll_s=0.1,
        clock=SystemClock(),
        cancellation=Cancellation(),
    )


def endpoint(request: LaunchRequest) -> EndpointPlace:
    assert isinstance(request.place, EndpointPlace)
    return request.place


def refusal(engine: AttachedEngine, deadline_s: float = 100.0) -> str:
    answer = wait(engine, deadline_s)
    assert isinstance(answer, NotReady), engine.log_tail()
    return f"{answer.diagnosis.failure_class}: {answer.diagnosis.summary}"


def test_it_is_restarted_with_the_flags_and_they_are_read_back(site: Site) -> None:
    with launched(site, site.launcher(*site.manage("restart", *site.server()))) as engine:
        answer = wait(engine)
        assert isinstance(answer, Ready), (answer, engine.log_tail())
        assert answer.facts.max_num_seqs == 48
        assert engine.base_url == f"http://127.0.0.1:{site.port}"

    assert "max_num_seqs" in engine.log_tail()


def test_it_is_asked_and_loaded_through_its_proxy(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVETUNE_TEST_PROXY", "tuner:s3cret-word")
    with forward_proxy("tuner:s3cret-word") as gate:
        named = {"url": gate.url, "credentials_env": "SERVETUNE_TEST_PROXY"}
        launcher = site.launcher(*site.manage("restart", *site.server()), proxy=named)
        with launched(site, launcher) as engine:
            answer = wait(engine)
            assert isinstance(answer, Ready), (answer, engine.log_tail())
            hooks = LoadHooks(Cancellation(), lambda: True, lambda status: None)
            request = site.request(launcher)
            weakness = LoadSession(SystemClock()).burst(request, engine, answer.facts, hooks)
            assert weakness is None
        asked = {(method, target.split("/", 3)[-1]) for method, target in gate.asked}
    assert {("GET", "health"), ("GET", "metrics"), ("POST", "v1/completions")} <= asked


def test_a_command_that_drops_the_flags_fails_the_attempt_clearly(site: Site) -> None:
    """The script appends words that make the server ignore what follows."""
    fixed = [f"--{name}={value}" for name, value in ASKED.items() if not isinstance(value, bool)]
    fixed[fixed.index("--max-num-seqs=48")] = "--max-num-seqs=32"
    words = shlex.join(site.manage("restart", *site.server(*fixed)))
    with launched(site, site.launcher("/bin/sh", "-c", words, "ignored")) as engine:
        told = refusal(engine)
    assert told.startswith("flags_not_applied: ")
    assert "max-num-seqs: 48 asked, 32 applied" in told


def test_what_nobody_tells_is_not_taken_for_applied(site: Site) -> None:
    launcher = site.launcher(*site.manage("restart", *site.server()), log_file=None)
    with launched(site, launcher) as engine:
        told = refusal(engine)
    assert "nothing tells whether the endpoint applied" in told
    assert "engine.launcher.log_file" in told


def test_flags_can_go_where_the_command_wants_them(site: Site) -> None:
    engine_words = site.server()
    at = engine_words.index(MODEL) + 1
    words = [*engine_words[:at], "{flags}", *engine_words[at:]]
    with launched(site, site.launcher(*site.manage("restart", *words))) as engine:
        assert isinstance(wait(engine), Ready), engine.log_tail()


def test_flags_can_go_into_a_file_that_the_service_reads(site: Site) -> None:
    script = site.directory / "restart.sh"
    restart = shlex.join(site.manage("restart", *site.server()))
    read = f'. "{site.directory}/engine.env"'
    script.write_text(f'#!/bin/sh\n{read}\neval "{restart} $ENGINE_FLAGS"\n')
    script.chmod(0o755)
    launcher = site.launcher("./restart.sh", flags_file="engine.env")
    with launched(site, launcher) as engine:
        assert isinstance(wait(engine), Ready), engine.log_tail()
    written = (site.directory / "engine.env").read_text()
    assert written.startswith('ENGINE_FLAGS="')
    assert "--max-num-seqs 48" in written


def test_a_restart_that_changes_nothing_is_not_taken_for_one(tmp_path: Path) -> None:
    bench = AttachedBench()
    first = bench.launcher.launch(bench.request(tmp_path))
    assert isinstance(first, AttachedEngine)
    until(first.owns_port, "the restart ends")
    until(lambda: start_time(first.base_url, None), "the engine answers")
    request = first.request
    place = dataclasses.replace(
        endpoint(request),
        restart_command=("/bin/true",),
        flags=(),
        stop_command=(),
    )
    again = dataclasses.replace(request, place=place, log_path=tmp_path / "second.log")
    second = AttachedLauncher().launch(again)
    try:
        told = refusal(second, deadline_s=1.0)
    finally:
        second.stop()
        first.stop()
    assert "the one from before the restart" in told


def test_a_restart_command_that_fails_is_the_attempts_end(site: Site) -> None:
    with launched(site, site.launcher("/bin/sh", "-c", "echo no such unit; exit 5")) as engine:
        until(engine.exit_status, "the failure is seen")
        status = engine.exit_status()
        assert status is not None
        assert status.returncode == 5
    assert "no such unit" in engine.log_tail()
    assert "the restart command ended with 5" in engine.log_tail()


def test_a_restart_command_that_does_not_end_is_ended_with_its_children(site: Site) -> None:
    marker = site.directory / "sleeper.pid"
    script = f"sleep 600 & echo $! > {marker}.new; mv {marker}.new {marker}; wait"
    with launched(site, site.launcher("/bin/sh", "-c", script)) as engine:
        sleeper = written_pid(marker)
        told = refusal(engine, deadline_s=0.5)
    assert "did not end in time" in told
    until(lambda: is_gone(sleeper), "the child ends")


def test_without_a_stop_command_the_endpoint_goes_on(site: Site) -> None:
    launcher = site.launcher(*site.manage("restart", *site.server()), stop_command=None)
    with launched(site, launcher) as engine:
        assert isinstance(wait(engine), Ready)
    assert not is_free("127.0.0.1", site.port)

    with launched(site, site.launcher("/bin/true")):
        pass


def test_a_workers_death_runs_the_stop_command(start_worker: StartWorker) -> None:
    worker = start_worker("attached:wait")
    until(lambda: STARTED in worker.log, "the engine starts")

    worker.process.kill()
    worker.process.wait()

    until(lambda: is_gone(worker.guard.pid), "the guard ends")
    assert is_free("127.0.0.1", worker.port)
    assert "orderly end" in worker.log


def test_a_log_that_is_replaced_is_read_from_its_beginning(tmp_path: Path) -> None:
    bench = AttachedBench()
    (tmp_path / "server.log").write_text("of an earlier run\n")
    engine = bench.launcher.launch(bench.request(tmp_path))
    until(lambda: STARTED in engine.log_tail(), "the engine starts")
    os.replace(tmp_path / "server.log", tmp_path / "server.log.1")  # noqa: PTH105
    (tmp_path / "server.log").write_text("after the rotation\n")
    until(lambda: "after the rotation" in engine.log_tail(), "the new file is read")
    engine.stop()
    assert "of an earlier run" not in engine.log_tail()


def test_a_status_command_that_does_not_exist_is_named(tmp_path: Path) -> None:
    bench = AttachedBench()
    request = bench.request(tmp_path)
    place = dataclasses.replace(endpoint(request), status_command=("/no/such/status",))
    with pytest.raises(ExecutableNotFoundError, match="/no/such/status"):
        bench.launcher.launch(dataclasses.replace(request, place=place))


def test_a_flags_file_that_cannot_be_written_fails_the_attempt(tmp_path: Path) -> None:
    bench = AttachedBench()
    request = bench.request(tmp_path)
    place = dataclasses.replace(endpoint(request), flags_file=str(tmp_path / "no" / "such"))
    with pytest.raises(InfrastructureError, match="flags file"):
        bench.launcher.launch(dataclasses.replace(request, place=place))
