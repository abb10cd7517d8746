"""Whatever ends a worker or is sent to it: its engine neither outlives it nor ends early."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import pytest

from tests.integration.engine.conftest import StartWorker, Worker
from tests.support.engines import is_gone, until, written_pid
from tests.support.scripted_engine import STARTED
from tuner.engine.port import is_free
from tuner.engine.process_tree import descendants, read_processes

pytestmark = pytest.mark.engine


def serves(worker: Worker) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", worker.port), timeout=5):
            return True
    except OSError:
        return False


def nothing_is_left(worker: Worker) -> None:
    until(lambda: is_gone(worker.engine.pid), "the engine ends")
    until(lambda: is_gone(worker.guard.pid), "the guard ends")
    assert is_free("127.0.0.1", worker.port)


def kill(worker: Worker) -> None:
    worker.process.kill()
    worker.process.wait()


def test_killed_while_the_engine_starts(start_worker: StartWorker) -> None:
    worker = start_worker("wait", "--never-listen")
    assert not is_gone(worker.engine.pid)

    kill(worker)

    nothing_is_left(worker)


def test_killed_while_the_engine_serves(start_worker: StartWorker) -> None:
    worker = start_worker("wait")
    until(lambda: serves(worker), "the engine serves")

    kill(worker)

    nothing_is_left(worker)
    assert "orderly end" in worker.log


def test_killed_with_an_engine_that_ignores_term_and_left_a_daemon(
    start_worker: StartWorker, tmp_path: Path
) -> None:
    marker = tmp_path / "grandchild.pid"
    worker = start_worker("wait", "--ignore-term", "--grandchild-file", str(marker))
    grandchild = written_pid(marker)
    until(lambda: STARTED in worker.log, "the engine starts")

    kill(worker)

    nothing_is_left(worker)
    assert is_gone(grandchild)


def test_killed_while_a_child_of_the_worker_keeps_the_pipe_open(start_worker: StartWorker) -> None:
    worker = start_worker("fork")
    until(lambda: serves(worker), "the engine serves")

    kill(worker)

    try:
        nothing_is_left(worker)
        assert not is_gone(worker.child)
    finally:
        os.kill(worker.child, signal.SIGKILL)


def test_interrupting_the_terminals_group_lets_the_worker_stop_the_engine_in_order(
    start_worker: StartWorker,
) -> None:
    worker = start_worker("stop-on-interrupt")
    until(lambda: serves(worker), "the engine serves")
    ours = {worker.engine.pid, worker.guard.pid}
    assert not ours & {p.pid for p in read_processes().values() if p.sid == worker.process.pid}

    os.killpg(worker.process.pid, signal.SIGINT)

    output, _ = worker.process.communicate(timeout=60)
    assert output == "0 True False\n"
    nothing_is_left(worker)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1])
def test_a_stray_signal_to_the_guard_ends_nothing(
    start_worker: StartWorker, number: signal.Signals
) -> None:
    worker = start_worker("stop-on-interrupt")
    until(lambda: serves(worker), "the engine serves")

    os.kill(worker.guard.pid, number)
    os.kill(worker.process.pid, signal.SIGINT)

    output, _ = worker.process.communicate(timeout=60)
    assert output == "0 True False\n"


def test_ending_the_guard_is_ending_the_engine_in_order(start_worker: StartWorker) -> None:
    """So does a service manager that sends SIGTERM to every process of a unit."""
    worker = start_worker("wait")
    until(lambda: serves(worker), "the engine serves")

    os.kill(worker.guard.pid, signal.SIGTERM)

    nothing_is_left(worker)
    assert "orderly end" in worker.log


def test_signals_that_the_worker_blocked_or_ignored_reach_the_engine(
    start_worker: StartWorker,
) -> None:
    worker = start_worker("awkward-signals", "--ignore-term")
    until(lambda: STARTED in worker.log, "the engine starts")
    status = Path(f"/proc/{worker.engine.pid}/status").read_text()
    masks = dict(line.split(":\t") for line in status.splitlines() if line.startswith("Sig"))

    blocked, ignored = (int(masks[name], 16) for name in ("SigBlk", "SigIgn"))

    assert blocked == 0
    by_python_itself = {signal.SIGPIPE, signal.SIGXFSZ}
    by_its_option = {signal.SIGTERM}
    standard = {number for number in range(1, 32) if ignored >> (number - 1) & 1}
    assert standard == by_python_itself | by_its_option


def test_the_engine_holds_no_descriptor_of_ours_but_the_guards_pipe(
    start_worker: StartWorker,
) -> None:
    worker = start_worker("wait", "--never-listen")
    until(lambda: STARTED in worker.log, "the engine starts")
    links = {
        int(entry.name): str(entry.readlink())
        for entry in Path(f"/proc/{worker.engine.pid}/fd").iterdir()
    }

    assert links.keys() == {0, 1, 2}
    assert links[0] == "/dev/null"
    assert links[1] == links[2]
    assert links[1].startswith("pipe:")


def test_the_guard_is_the_ancestor_of_everything(start_worker: StartWorker, tmp_path: Path) -> None:
    marker = tmp_path / "grandchild.pid"
    worker = start_worker("wait", "--grandchild-file", str(marker))
    grandchild = written_pid(marker)

    below = {process.pid for process in descendants([worker.guard.pid], read_processes())}
    assert {worker.engine.pid, grandchild} <= below
