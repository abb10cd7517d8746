"""What the next worker does about what even the guard's death left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.integration.engine.conftest import StartWorker
from tests.support.engines import is_gone, scripted_request, until, written_pid
from tests.support.scripted_engine import STARTED
from tuner.engine.launcher import ExitStatus, ProcessIdentity
from tuner.engine.process_launcher import ProcessLauncher
from tuner.engine.process_tree import read_process
from tuner.engine.reaper import Reaped, reap
from tuner.engine.shared_memory import DIRECTORY

pytestmark = pytest.mark.engine


def identity(pid: int) -> ProcessIdentity:
    process = read_process(pid)
    assert process is not None
    return ProcessIdentity(pid, process.start_ticks)


def test_engine_whose_worker_and_guard_were_killed(
    start_worker: StartWorker, tmp_path: Path
) -> None:
    marker = tmp_path / "grandchild.pid"
    worker = start_worker("wait", "--grandchild-file", str(marker))
    grandchild = written_pid(marker)
    until(lambda: STARTED in worker.log, "the engine starts")
    os.kill(worker.guard.pid, signal.SIGKILL)
    worker.process.kill()
    worker.process.wait()
    assert not is_gone(worker.engine.pid)

    reaped = reap([worker.guard, worker.engine], grace_s=20.0)

    assert worker.engine.pid in reaped.found
    assert reaped.survivors == ()
    assert is_gone(worker.engine.pid)
    os.kill(grandchild, signal.SIGKILL)  # it left the session before the guard died


def test_orphans_of_an_engine_that_was_killed_with_its_guard(tmp_path: Path) -> None:
    """SIGKILL of an API server leaves the engine core and its workers in its session."""
    code = (
        "import os, sys, time\n"
        "child = os.fork()\n"
        "if child: print(child, flush=True)\n"
        "time.sleep(600)\n"
    )
    leader = subprocess.Popen(
        [sys.executable, "-S", "-c", code], start_new_session=True, stdout=subprocess.PIPE
    )
    assert leader.stdout is not None
    orphan = int(leader.stdout.readline())
    recorded = identity(leader.pid)
    leader.kill()
    leader.wait()
    leader.stdout.close()
    assert not is_gone(orphan)

    reaped = reap([recorded], grace_s=5.0)

    assert reaped == Reaped(found=(orphan,), survivors=(), killed=False)
    assert is_gone(orphan)


def test_a_living_guard_is_left_to_do_its_work(start_worker: StartWorker) -> None:
    worker = start_worker("wait")
    until(lambda: STARTED in worker.log, "the engine starts")

    reaped = reap([worker.guard, worker.engine], grace_s=0.0)

    assert not reaped.killed
    assert {worker.guard.pid, worker.engine.pid} <= set(reaped.found)
    assert "orderly end" in worker.log


def test_an_engine_that_ignores_term_is_killed(start_worker: StartWorker) -> None:
    worker = start_worker("wait", "--ignore-term")
    until(lambda: STARTED in worker.log, "the engine starts")
    os.kill(worker.guard.pid, signal.SIGKILL)

    reaped = reap([worker.engine], grace_s=0.1)

    assert reaped.killed
    assert is_gone(worker.engine.pid)


def test_a_process_that_has_the_pid_by_now_is_left_alone() -> None:
    bystander = subprocess.Popen(
        [sys.executable, "-S", "-c", "import time; time.sleep(600)"], start_new_session=True
    )
    earlier = identity(bystander.pid)
    earlier = replace(earlier, start_ticks=earlier.start_ticks - 500)

    assert reap([earlier], grace_s=0.0) == Reaped()
    assert bystander.poll() is None
    bystander.kill()
    bystander.wait()


def test_a_session_that_reused_the_number_long_after_is_left_alone() -> None:
    """Its leader is gone too, so only the time tells."""
    code = "import os, time\nif os.fork(): print(os.getpid(), flush=True)\ntime.sleep(600)"
    leader = subprocess.Popen(
        [sys.executable, "-S", "-c", code], start_new_session=True, stdout=subprocess.PIPE
    )
    assert leader.stdout is not None
    leader.stdout.readline()
    now = identity(leader.pid)
    hours_before = now.start_ticks - 7200 * os.sysconf("SC_CLK_TCK")
    leader.kill()
    leader.wait()
    leader.stdout.close()

    try:
        assert reap([replace(now, start_ticks=hours_before)], grace_s=0.0) == Reaped()
    finally:
        os.killpg(now.pid, signal.SIGKILL)


def test_nothing_recorded_and_nothing_left_is_nothing_done() -> None:
    assert reap([]) == Reaped()
    assert reap([ProcessIdentity(2**22 - 1, 1)]) == Reaped()


def test_stopping_an_engine_whose_guard_was_killed(tmp_path: Path) -> None:
    engine = ProcessLauncher().launch(scripted_request(tmp_path))
    until(engine.owns_port, "the engine listens")
    os.kill(engine.guard.pid, signal.SIGKILL)
    until(lambda: is_gone(engine.guard.pid), "the guard ends")
    assert engine.exit_status() is None
    assert engine.owns_port()

    assert engine.stop() == ExitStatus(None, stop_requested=True, killed=False)
    assert is_gone(engine.engine.pid)


def test_an_engine_that_ended_unseen_because_its_guard_was_killed(tmp_path: Path) -> None:
    engine = ProcessLauncher().launch(scripted_request(tmp_path, "--never-listen"))
    until(lambda: STARTED in engine.log_tail(), "the engine starts")
    os.kill(engine.guard.pid, signal.SIGKILL)
    until(lambda: is_gone(engine.guard.pid), "the guard ends")
    os.kill(engine.engine.pid, signal.SIGKILL)
    until(lambda: is_gone(engine.engine.pid), "the engine ends")

    unseen = ExitStatus(None, stop_requested=False, killed=False)
    assert engine.exit_status() == unseen
    assert engine.stop() == unseen


def test_an_engine_that_is_killed_by_its_record_leaves_no_shared_memory(
    start_worker: StartWorker,
) -> None:
    worker = start_worker("wait", "--shared-memory", "--ignore-term")
    until(lambda: STARTED in worker.log, "the engine starts")
    segment = Path(DIRECTORY) / worker.log.split("shared memory: ")[1].split()[0]
    os.kill(worker.guard.pid, signal.SIGKILL)
    worker.process.kill()
    worker.process.wait()
    assert segment.exists()

    assert reap([worker.guard, worker.engine], grace_s=0.1).killed

    assert not segment.exists()
