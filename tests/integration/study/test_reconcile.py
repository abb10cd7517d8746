"""What a driver finds after its predecessor died, written by hand where no crash can aim."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.scripted_executor import ScriptedExecutor, measured
from tests.support.study_driver import locations_in
from tests.support.study_runs import document, history_of
from tuner.domain.cancellation import Cancellation
from tuner.domain.clock import SystemClock
from tuner.domain.document import load_study
from tuner.domain.states import AttemptOutcome, AttemptPurpose, StudyState
from tuner.engine.process_tree import read_processes
from tuner.errors import CancelledError, StartupError
from tuner.store.attempts import NewAttempt
from tuner.store.database import open_database
from tuner.store.records import ProcessRecord
from tuner.store.unit_of_work import Store
from tuner.study.ledger import History
from tuner.worker.composition import run_study
from tuner.worker.identity import enlisted

pytestmark = pytest.mark.usefixtures("sqlite_url")


def run(directory: Path, *, cancelled: bool = False, **changes: Any) -> History:
    cancellation = Cancellation()
    if cancelled:
        cancellation.request("at once")
    return run_study(
        load_study(json.dumps(document(**{"trials": 1, **changes})), where="the test"),
        locations_in(directory),
        base_dir=directory,
        cancellation=cancellation,
        executor_of=ScriptedExecutor(measured).factory,
    )


@contextmanager
def store_in(directory: Path) -> Iterator[Store]:
    with open_database(locations_in(directory).database) as database:
        yield Store(database, SystemClock())


def leave_attempt(directory: Path, process: ProcessRecord, host: str) -> None:
    """An attempt of the baseline as a dead driver leaves it."""
    with pytest.raises(CancelledError):
        run(directory, cancelled=True)
    with store_in(directory) as store, store.writing() as work:
        attempt = work.attempts.start(1, 0, NewAttempt(AttemptPurpose.SEARCH, 0, host=host))
        work.attempts.set_processes(attempt.id, guard=process, engine=process, port=9)


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "600"], start_new_session=True)
    yield process
    process.kill()
    process.wait()


def identity(process: subprocess.Popen[bytes]) -> ProcessRecord:
    return ProcessRecord(process.pid, read_processes()[process.pid].start_ticks)


def test_a_recorded_engine_is_ended_and_its_attempt_lost(
    tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    leave_attempt(tmp_path, identity(sleeper), socket.gethostname())
    history = run(tmp_path)
    assert sleeper.wait(timeout=30) != 0
    assert history.attempts[0].outcome is AttemptOutcome.LOST
    assert history.study.state is StudyState.COMPLETE


def test_a_stranger_with_a_reused_pid_is_left_alone(
    tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    mine = identity(sleeper)
    leave_attempt(tmp_path, ProcessRecord(mine.pid, mine.start_ticks - 500), socket.gethostname())
    history = run(tmp_path)
    assert sleeper.poll() is None
    assert history.attempts[0].outcome is AttemptOutcome.LOST


def test_an_engine_of_another_host_is_not_looked_for_here(
    tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    leave_attempt(tmp_path, identity(sleeper), "another-host")
    history = run(tmp_path)
    assert sleeper.poll() is None
    assert [n["kind"] for n in history.study.notices][:1] == ["engine_elsewhere"]


def test_lost_attempts_do_not_use_up_a_trials_attempts(tmp_path: Path) -> None:
    gone = ProcessRecord(2**22 - 3, 1)
    for _ in range(4):
        leave_attempt(tmp_path, gone, socket.gethostname())
    history = run(tmp_path)
    outcomes = [a.outcome for a in history.attempts_of(0, AttemptPurpose.SEARCH)]
    assert outcomes == [AttemptOutcome.LOST] * 4 + [AttemptOutcome.MEASURED]


def test_two_drivers_never_share_a_study(tmp_path: Path) -> None:
    with pytest.raises(CancelledError):
        run(tmp_path, cancelled=True)
    with open_database(locations_in(tmp_path).database) as database:
        store = Store(database, SystemClock())
        with enlisted(store) as me:
            with store.writing() as work:
                claim = work.leases.claim_study(1, me.id)
            with pytest.raises(StartupError, match=f"already driven by process {os.getpid()} on"):
                run(tmp_path)
            with store.writing() as work:
                work.leases.require(claim)
    assert history_of(tmp_path).attempts == ()


def test_a_new_study_of_the_same_name_starts_from_nothing(tmp_path: Path) -> None:
    first = run(tmp_path)
    again = run_study(
        load_study(json.dumps(document(trials=1)), where="the test"),
        locations_in(tmp_path),
        base_dir=tmp_path,
        new=True,
        executor_of=ScriptedExecutor(measured).factory,
    )
    assert (first.study.generation, again.study.generation) == (1, 2)
    assert len(again.trials) == len(first.trials)
    assert history_of(tmp_path, "crash@1") == first
