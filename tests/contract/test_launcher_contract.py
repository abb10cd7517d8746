"""What every launcher promises; a launcher of another kind subclasses LauncherContract."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.engines import is_gone, scripted_request, until, written_pid
from tests.support.scripted_engine import STARTED
from tuner.engine.launcher import ExitStatus, Launcher, LaunchRequest, RunningEngine
from tuner.engine.port import is_free
from tuner.engine.process_launcher import ProcessLauncher
from tuner.errors import ExecutableNotFoundError, InfrastructureError, PortUnavailableError

pytestmark = pytest.mark.engine


@contextlib.contextmanager
def running(launcher: Launcher, request: LaunchRequest) -> Iterator[RunningEngine]:
    engine = launcher.launch(request)
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


class LauncherContract:
    @pytest.fixture
    def launcher(self) -> Launcher:
        raise NotImplementedError

    def test_a_well_behaved_engine_serves_and_ends_in_order(
        self, launcher: Launcher, tmp_path: Path
    ) -> None:
        engine = launcher.launch(scripted_request(tmp_path))
        until(lambda: health(engine) == 200, "the engine answers")
        assert engine.exit_status() is None
        assert engine.owns_port()

        status = engine.stop()

        assert status == ExitStatus(0, stop_requested=True, killed=False)
        assert "orderly end" in engine.log_tail()
        assert is_free("127.0.0.1", engine.request.port)
        assert is_gone(engine.engine.pid)
        assert is_gone(engine.guard.pid)

    def test_stopping_twice_and_from_many_threads_is_stopping_once(
        self, launcher: Launcher, tmp_path: Path
    ) -> None:
        engine = launcher.launch(scripted_request(tmp_path))
        until(lambda: has_started(engine), "the engine starts")
        answers: list[ExitStatus] = []

        threads = [threading.Thread(target=lambda: answers.append(engine.stop())) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert set(answers) == {engine.stop()}
        assert engine.exit_status() == answers[0]

    def test_an_engine_that_ignores_term_is_killed(
        self, launcher: Launcher, tmp_path: Path
    ) -> None:
        engine = launcher.launch(scripted_request(tmp_path, "--ignore-term", grace_s=0.3))
        until(lambda: has_started(engine), "the engine starts")

        assert engine.stop() == ExitStatus(-9, stop_requested=True, killed=True)
        assert is_gone(engine.engine.pid)

    def test_a_term_that_is_lost_while_the_engine_starts_is_repeated(
        self, launcher: Launcher, tmp_path: Path
    ) -> None:
        engine = launcher.launch(scripted_request(tmp_path, "--lose-terms", "1", grace_s=6.0))
        until(lambda: has_started(engine), "the engine starts")

        assert engine.stop() == ExitStatus(0, stop_requested=True, killed=False)

    def test_a_grandchild_in_a_session_of_its_own_does_not_survive(
        self, launcher: Launcher, tmp_path: Path
    ) -> None:
        marker = tmp_path / "grandchild.pid"
        request = scripted_request(tmp_path, "--grandchild-file", str(marker), grace_s=0.5)
        engine = launcher.launch(request)
        grandchild = written_pid(marker)
        assert not is_gone(grandchild)

        status = engine.stop()

        assert is_gone(grandchild)
        assert status.killed

    def test_children_of_an_engine_that_died_do_not_survive_its_stop(
        self, launcher: Launcher, tmp_path: Path
    ) -> None:
        marker = tmp_path / "grandchild.pid"
        options = ("--grandchild-file", str(marker), "--exit-code", "1")
        engine = launcher.launch(scripted_request(tmp_path, *options, grace_s=0.5))
        until(engine.exit_status, "the engine ends")
        grandchild = written_pid(marker)
        assert not is_gone(grandchild)

        assert engine.stop() == ExitStatus(1, stop_requested=False, killed=True)
        assert is_gone(grandchild)

    @pytest.mark.parametrize("code", [0, 3])
    def test_an_end_that_nobody_asked_for_is_reported_as_such(
        self, launcher: Launcher, tmp_path: Path, code: int
    ) -> None:
        request = scripted_request(tmp_path, "--exit-code", str(code))
        engine = launcher.launch(request)
        until(engine.exit_status, "the engine ends")

        expected = ExitStatus(code, stop_requested=False, killed=False)
        assert engine.exit_status() == expected
        assert engine.stop() == expected

    def test_an_engine_that_never_listens_owns_no_port(
        self, launcher: Launcher, tmp_path: Path
    ) -> None:
        with running(launcher, scripted_request(tmp_path, "--never-listen")) as engine:
            until(lambda: has_started(engine), "the engine starts")
            assert not engine.owns_port()
            assert engine.exit_status() is None

    def test_a_strangers_listener_is_not_ours_and_survives(
        self, launcher: Launcher, tmp_path: Path
    ) -> None:
        request = scripted_request(tmp_path, "--never-listen")
        with (
            running(launcher, request) as engine,
            socket.create_server(("127.0.0.1", request.port)) as stranger,
        ):
            until(lambda: has_started(engine), "the engine starts")
            assert not engine.owns_port()
            engine.stop()
            assert stranger.fileno() >= 0
            assert not is_free("127.0.0.1", request.port)

    def test_a_taken_port_is_refused_before_anything_starts(
        self, launcher: Launcher, tmp_path: Path
    ) -> None:
        request = scripted_request(tmp_path)
        with (
            socket.create_server(("127.0.0.1", request.port)),
            pytest.raises(PortUnavailableError, match=str(request.port)),
        ):
            launcher.launch(request)

        assert not request.log_path.exists()

    def test_a_missing_executable_is_named(self, launcher: Launcher, tmp_path: Path) -> None:
        request = replace(scripted_request(tmp_path), argv=(str(tmp_path / "no-such-engine"),))

        with pytest.raises(ExecutableNotFoundError, match="no-such-engine"):
            launcher.launch(request)

    def test_the_environment_is_exactly_what_was_given(
        self, launcher: Launcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SERVETUNE_API_KEY", "not for engines")
        request = scripted_request(tmp_path, "--print-environment")
        request = replace(request, env={**request.env, "HF_TOKEN": "for engines"})

        with running(launcher, request) as engine:
            until(lambda: has_started(engine), "the engine starts")

        assert "for engines" in engine.log_tail()
        assert "SERVETUNE" not in engine.log_tail()

    def test_arguments_never_meet_a_shell(self, launcher: Launcher, tmp_path: Path) -> None:
        nasty = "a b; touch pwned $(touch pwned) 'x' \"y\" | z > w\n*"
        with running(launcher, scripted_request(tmp_path, "--log-line", nasty)) as engine:
            until(lambda: has_started(engine), "the engine starts")

        assert nasty in engine.log_tail()

    def test_the_log_is_appended_to_and_only_its_end_is_read(
        self, launcher: Launcher, tmp_path: Path
    ) -> None:
        request = scripted_request(tmp_path, "--exit-code", "1")
        request.log_path.parent.mkdir()
        request.log_path.write_text("earlier\n" * 100)
        with running(launcher, request) as engine:
            until(engine.exit_status, "the engine ends")

        assert request.log_path.read_text().startswith("earlier\n")
        assert engine.log_tail(len(STARTED) + 1).endswith(f"{STARTED}\n")
        assert engine.log_tail(len(STARTED) + 1).count("earlier") == 0

    def test_a_log_that_cannot_be_written_fails_the_attempt(
        self, launcher: Launcher, tmp_path: Path
    ) -> None:
        request = scripted_request(tmp_path)
        (tmp_path / "logs").write_text("a file where a directory is wanted")

        with pytest.raises(InfrastructureError, match=r"engine\.log"):
            launcher.launch(request)


class TestProcessLauncher(LauncherContract):
    @pytest.fixture
    def launcher(self) -> Launcher:
        return ProcessLauncher()
