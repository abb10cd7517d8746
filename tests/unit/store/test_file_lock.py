from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tuner.store.file_lock import LockHeldError, file_lock

HOLDER = """
import sys
from pathlib import Path
from tuner.store.file_lock import file_lock
with file_lock(Path(sys.argv[1]), wait_s=0):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    return tmp_path / "x.lock"


def hold_elsewhere(lock: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(lock)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_held_lock_names_its_holder(lock: Path) -> None:
    with hold_elsewhere(lock) as process:
        with pytest.raises(LockHeldError) as caught, file_lock(lock, wait_s=0):
            pytest.fail("two processes held one lock")
        assert caught.value.holder_pid == process.pid
        process.communicate("")


def test_a_killed_holder_frees_it(lock: Path) -> None:
    with hold_elsewhere(lock) as process:
        process.kill()
        process.communicate()

    with file_lock(lock, wait_s=0):
        assert lock.read_text() == str(os.getpid())


def test_waiting_ends_when_the_holder_is_done(lock: Path) -> None:
    with hold_elsewhere(lock) as process:
        assert process.stdin is not None
        process.stdin.close()
        with file_lock(lock, wait_s=60):
            assert lock.read_text() == str(os.getpid())


def test_it_can_be_taken_again_after_an_error(lock: Path) -> None:
    with pytest.raises(KeyError), file_lock(lock, wait_s=0):
        raise KeyError("inside")

    with file_lock(lock, wait_s=0):
        pass
    assert lock.exists()


def test_two_holders_in_one_process_exclude_each_other(lock: Path) -> None:
    with (
        file_lock(lock, wait_s=0),
        pytest.raises(LockHeldError) as caught,
        file_lock(lock, wait_s=0),
    ):
        pytest.fail("held twice")
    assert caught.value.holder_pid == os.getpid()


def test_a_folder_that_is_missing_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), file_lock(tmp_path / "no" / "x.lock", wait_s=0):
        pytest.fail("locked nothing")
