"""Shared memory that killed processes leave behind."""

from __future__ import annotations

import mmap
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.engines import until
from tuner.engine.process_tree import ProcessStat, read_process
from tuner.engine.shared_memory import (
    DIRECTORY,
    is_resource_tracker,
    mapped_segments,
    remove_segments,
    without_trackers,
)

CLIENT = """
import sys, time
from multiprocessing.shared_memory import SharedMemory
segment = SharedMemory(create=True, size=4096)
print(segment.name, flush=True)
time.sleep(600)
"""


@pytest.fixture
def path() -> Iterator[Path]:
    """A name in the kernel's directory of shared memory that nobody else uses."""
    found = Path(DIRECTORY) / f"servetune-test-{uuid.uuid4().hex}"
    yield found
    found.unlink(missing_ok=True)


@contextmanager
def mapped(path: Path) -> Iterator[None]:
    path.write_bytes(bytes(4096))
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 4096):
        yield


def test_what_a_process_has_mapped_is_found_with_its_inode(path: Path) -> None:
    with mapped(path):
        assert mapped_segments([os.getpid()])[str(path)] == path.stat().st_ino
    assert str(path) not in mapped_segments([os.getpid()])


def test_a_process_that_is_gone_has_nothing_mapped() -> None:
    assert mapped_segments([2**22 + 1]) == {}


def test_a_segment_that_nobody_uses_any_more_is_removed(path: Path) -> None:
    with mapped(path):
        segments = {str(path): path.stat().st_ino}
    remove_segments(segments)
    assert not path.exists()


def test_a_segment_that_somebody_still_uses_stays(path: Path) -> None:
    with mapped(path):
        remove_segments({str(path): path.stat().st_ino})
        assert path.exists()


def test_another_segment_of_the_same_name_stays(path: Path) -> None:
    path.write_bytes(b"new")
    remove_segments({str(path): path.stat().st_ino + 1})
    assert path.exists()


def test_a_segment_that_is_gone_already_is_no_error(path: Path) -> None:
    remove_segments({str(path): 1})
    assert not path.exists()


def test_the_resource_tracker_outlives_its_killed_client_and_removes_its_segment() -> None:
    """What the order of killing relies on."""
    process = subprocess.Popen([sys.executable, "-c", CLIENT], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    name = process.stdout.readline().strip()
    until(
        lambda: any(is_resource_tracker(child.pid) for child in _children(process.pid)),
        "the tracker starts",
    )
    everybody = [*_children(process.pid), *_stat(process.pid)]

    assert [p.pid for p in without_trackers(everybody)] == [process.pid]
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    until(lambda: not (Path(DIRECTORY) / name).exists(), "the tracker removes the segment")


def _stat(pid: int) -> list[ProcessStat]:
    stat = read_process(pid)
    return [] if stat is None else [stat]


def _children(pid: int) -> list[ProcessStat]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [stat for child in text.split() for stat in _stat(int(child))]
