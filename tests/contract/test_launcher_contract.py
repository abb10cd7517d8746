"""What every launcher promises, on processes, containers and endpoints that a script restarts."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.engine_logs import MEMORY
from tests.support.engines import holder_lives, is_gone, until, written_pid
from tests.support.launcher_benches import (
    AttachedBench,
    Bench,
    ContainerBench,
    ProcessBench,
    docker_host,
)
from tests.support.podman import Podman
from tests.support.scripted_engine import STARTED
from tuner.domain.cancellation import Cancellation
from tuner.domain.clock import SystemClock
from tuner.engine.attached_launcher import AttachedEngine
from tuner.engine.launcher import ExitStatus, RunningEngine
from tuner.engine.log_writer import HEAD_BYTES, TAIL_BYTES
from tuner.engine.port import is_free
from tuner.engine.readiness import NotReady, Ready, wait_until_ready
from tuner.errors import (
    ExecutableNotFoundError,
    InfrastructureError,
    PortUnavailableError,
)

pytestmark = pytest.mark.engine


@contextlib.contextmanager
def running(bench: Bench, directory: Path, *options: str) -> Iterator[RunningEngine]:
    engine = bench.launcher.launch(bench.request(directory, *options))
    try:
        yield engine
    finally:
        engine.stop()


def health(engine: RunningEngine) -> int | None:
    connection = http.client.HTTPConnection("127.0.0.1", engine.request.port, timeout=10)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status
    except OSError:
        return None
    finally:
        connection.close()


def has_started(engine: RunningEngine) -> bool:
    return STARTED in engine.log_tail()


def readiness(engine: RunningEngine, deadline_s: float = 60.0) -> Ready | NotReady:
    """As an attempt waits; flags of a scripted engine are not vLLM's and not read back."""
    clock, cancellation = SystemClock(), Cancellation()
    if isinstance(engine, AttachedEngine):
        until(lambda: engine.owns_port() or engine.exit_status(), "the restart command ends")
    return wait_until_ready(
        engine, deadline_s=deadline_s, poll_s=0.05, clock=clock, cancellation=cancellation
    )


class LauncherContract:
    @pytest.fixture
    def bench(self) -> Bench:
        raise NotImplementedError

    def test_a_well_behaved_engine_serves_and_ends_in_order(
        self, bench: Bench, tmp_path: Path
    ) -> None:
        engine = bench.launcher.launch(bench.request(tmp_path))
        assert isinstance(readiness(engine), Ready)
        assert engine.exit_status() is None
        assert engine.owns_port()

        status = engine.stop()

        assert status == bench.seen(ExitStatus(0, stop_requested=True, killed=False))
        assert "orderly end" in engine.log_tail()
        assert is_free("127.0.0.1", engine.request.port)
        assert is_gone(engine.engine.pid)
        assert is_gone(engine.guard.pid)

    def test_stopping_twice_and_from_many_threads_is_stopping_once(
        self, bench: Bench, tmp_path: Path
    ) -> None:
        engine = bench.launcher.launch(bench.request(tmp_path))
        until(lambda: has_started(engine), "the engine starts")
        answers: list[ExitStatus] = []

        threads = [threading.Thread(target=lambda: answers.append(engine.stop())) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert set(answers) == {engine.stop()}
        assert engine.exit_status() == answers[0]

    def test_an_engine_that_ignores_term_is_killed(self, bench: Bench, tmp_path: Path) -> None:
        engine = bench.launcher.launch(bench.request(tmp_path, "--ignore-term", grace_s=0.3))
        until(lambda: health(engine) == 200, "the engine serves")

        assert engine.stop() == bench.seen(ExitStatus(-9, stop_requested=True, killed=True))
        assert is_gone(engine.engine.pid)
        assert is_free("127.0.0.1", engine.request.port)

    def test_what_an_engine_leaves_in_a_session_of_its_own_does_not_survive(
        self, bench: Bench, tmp_path: Path
    ) -> None:
        if isinstance(bench, AttachedBench):
            return  # what a server leaves behind is its owner's
        marker = tmp_path / "grandchild.pid"
        request = bench.request(tmp_path, "--grandchild-file", str(marker), grace_s=0.5)
        engine = bench.launcher.launch(request)
        written_pid(marker)
        assert holder_lives(marker)

        engine.stop()

        assert not holder_lives(marker)

    @pytest.mark.parametrize("code", [0, 3])
    def test_an_end_that_nobody_asked_for_is_reported_as_such(
        self, bench: Bench, tmp_path: Path, code: int
    ) -> None:
        engine = bench.launcher.launch(bench.request(tmp_path, "--exit-code", str(code)))
        until(engine.exit_status, "the engine ends")

        expected = bench.seen(ExitStatus(code, stop_requested=False, killed=False))
        assert engine.exit_status() == expected
        assert engine.stop() == expected

    def test_running_out_of_memory_at_the_start_is_diagnosed_alike(
        self, bench: Bench, tmp_path: Path
    ) -> None:
        log = next(case.log for case in MEMORY if case.failure_class == "oom_profile")
        with running(bench, tmp_path, "--log-line", log, "--exit-code", "1") as engine:
            answer = readiness(engine)

        assert isinstance(answer, NotReady)
        assert answer.diagnosis.failure_class == "oom_profile"

    def test_an_engine_that_never_answers_is_given_up_at_the_deadline(
        self, bench: Bench, tmp_path: Path
    ) -> None:
        with running(bench, tmp_path, "--never-listen") as engine:
            until(lambda: has_started(engine), "the engine starts")
            answer = readiness(engine, deadline_s=0.2)

        assert isinstance(answer, NotReady)
        assert answer.diagnosis.failure_class == "startup_timeout"

    def test_a_missing_program_is_named(self, bench: Bench, tmp_path: Path) -> None:
        request = bench.request(tmp_path, program=str(tmp_path / "no-such-engine"))

        with pytest.raises(ExecutableNotFoundError, match="no-such-engine"):
            bench.launcher.launch(request)

    def test_only_what_was_given_of_the_environment_reaches_the_engine(
        self, bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SERVETUNE_API_KEY", "not for engines")
        request = bench.request(tmp_path, "--print-environment")
        request = replace(request, env={**request.env, "HF_ENDPOINT": "for engines"})
        engine = bench.launcher.launch(request)
        until(lambda: has_started(engine), "the engine starts")
        engine.stop()

        assert "for engines" in engine.log_tail()
        assert "SERVETUNE" not in engine.log_tail()

    def test_arguments_never_meet_a_shell(self, bench: Bench, tmp_path: Path) -> None:
        nasty = "a b; touch pwned $(touch pwned) 'x' \"y\" | z > w\n*"
        with running(bench, tmp_path, "--log-line", nasty) as engine:
            until(lambda: has_started(engine), "the engine starts")

        assert nasty in engine.log_tail()

    def test_the_log_is_appended_to_and_only_its_end_is_read(
        self, bench: Bench, tmp_path: Path
    ) -> None:
        request = bench.request(tmp_path, "--exit-code", "1")
        request.log_path.parent.mkdir()
        request.log_path.write_text("earlier\n" * 100)
        engine = bench.launcher.launch(request)
        until(engine.exit_status, "the engine ends")
        engine.stop()

        assert request.log_path.read_text().startswith("earlier\n")
        excerpt = engine.log_tail(80)
        assert excerpt.endswith(f"{STARTED}\n")
        assert excerpt.count("earlier") < 10

    def test_a_log_that_cannot_be_written_fails_the_attempt(
        self, bench: Bench, tmp_path: Path
    ) -> None:
        request = bench.request(tmp_path)
        (tmp_path / "logs").write_text("a file where a directory is wanted")

        with pytest.raises(InfrastructureError, match=r"engine\.log"):
            bench.launcher.launch(request)


class OwnedEngineContract(LauncherContract):
    """What holds where the engine is ours from its start to its end."""

    def test_a_term_that_is_lost_while_the_engine_starts_is_repeated(
        self, bench: Bench, tmp_path: Path
    ) -> None:
        engine = bench.launcher.launch(bench.request(tmp_path, "--lose-terms", "1", grace_s=6.0))
        until(lambda: has_started(engine), "the engine starts")

        assert engine.stop() == ExitStatus(0, stop_requested=True, killed=False)

    def test_an_engine_that_never_listens_owns_no_port(self, bench: Bench, tmp_path: Path) -> None:
        with running(bench, tmp_path, "--never-listen") as engine:
            until(lambda: has_started(engine), "the engine starts")
            assert not engine.owns_port()
            assert engine.exit_status() is None

    def test_a_strangers_listener_is_not_ours_and_survives(
        self, bench: Bench, tmp_path: Path
    ) -> None:
        request = bench.request(tmp_path, "--never-listen")
        engine = bench.launcher.launch(request)
        with socket.create_server(("127.0.0.1", request.port)) as stranger:
            until(lambda: has_started(engine), "the engine starts")
            assert not engine.owns_port()
            engine.stop()
            assert stranger.fileno() >= 0
            assert not is_free("127.0.0.1", request.port)

    def test_a_taken_port_is_refused_before_anything_starts(
        self, bench: Bench, tmp_path: Path
    ) -> None:
        request = bench.request(tmp_path)
        with (
            socket.create_server(("127.0.0.1", request.port)),
            pytest.raises(PortUnavailableError, match=str(request.port)),
        ):
            bench.launcher.launch(request)

        assert not request.log_path.exists()


class TestProcessLauncher(OwnedEngineContract):
    @pytest.fixture
    def bench(self) -> Bench:
        return ProcessBench()

    def test_secrets_of_the_environment_never_reach_the_log(
        self, bench: Bench, tmp_path: Path
    ) -> None:
        secrets = {"HF_TOKEN": "hf_s3cr3t", "HTTPS_PROXY": "http://me:pa55w0rd@proxy:3128"}
        request = bench.request(tmp_path, "--print-environment", "--log-line", "hf_s3cr3t")
        engine = bench.launcher.launch(replace(request, env={**request.env, **secrets}))
        until(lambda: has_started(engine), "the engine starts")
        engine.stop()

        assert "proxy:3128" in engine.log_tail()
        assert "s3cr3t" not in request.log_path.read_text()
        assert "pa55w0rd" not in request.log_path.read_text()

    def test_an_engine_that_never_stops_talking_does_not_fill_the_disk(
        self, bench: Bench, tmp_path: Path
    ) -> None:
        request = bench.request(tmp_path, "--chatter-mib", "40")
        engine = bench.launcher.launch(request)
        until(lambda: has_started(engine), "the engine starts")
        engine.stop()

        assert request.log_path.stat().st_size <= HEAD_BYTES + 2 * TAIL_BYTES
        kept = request.log_path.read_text()
        assert kept.startswith("chatter 0 ")
        assert STARTED in kept
        excerpt = engine.log_tail(1024 * 1024)
        assert excerpt.startswith("chatter 0 ")
        assert STARTED in excerpt
        assert len(excerpt) < 1024 * 1024 + 1000

    def test_a_daemon_is_said_to_have_been_killed(self, bench: Bench, tmp_path: Path) -> None:
        marker = tmp_path / "grandchild.pid"
        options = ("--grandchild-file", str(marker), "--exit-code", "1")
        engine = bench.launcher.launch(bench.request(tmp_path, *options, grace_s=0.5))
        until(engine.exit_status, "the engine ends")
        written_pid(marker)
        assert holder_lives(marker)

        assert engine.stop() == ExitStatus(1, stop_requested=False, killed=True)
        assert not holder_lives(marker)


@pytest.mark.containers
class TestDockerLauncher(OwnedEngineContract):
    @pytest.fixture
    def bench(self, podman: Podman) -> Iterator[Bench]:
        with docker_host(podman.docker_host):
            yield ContainerBench()
        assert podman.containers() == []


class TestAttachedLauncher(LauncherContract):
    @pytest.fixture
    def bench(self) -> Bench:
        return AttachedBench()
