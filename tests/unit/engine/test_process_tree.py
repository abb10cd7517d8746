from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.engines import is_gone, until
from tuner.engine.process_tree import (
    ProcessStat,
    descendants,
    group_members,
    is_running,
    parse_stat,
    read_process,
    read_processes,
    send_signal,
)

REST = "S 7 8 9 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 1 0 123456 1000 10 18446744073709551615"


@given(name=st.text(st.characters(exclude_characters="\n\0"), max_size=15))
def test_a_command_name_may_hold_anything(name: str) -> None:
    stat = parse_stat(f"42 ({name}) {REST}")

    assert stat == ProcessStat(42, "S", 7, 8, 9, 123456)


def test_we_find_ourselves() -> None:
    me = read_process(os.getpid())

    assert me is not None
    assert me.ppid == os.getppid()
    assert read_processes()[os.getpid()].start_ticks == me.start_ticks
    assert is_running(me.pid, me.start_ticks)


def test_another_start_time_is_another_process() -> None:
    me = read_process(os.getpid())

    assert me is not None
    assert not is_running(me.pid, me.start_ticks - 1)
    assert not send_signal(me._replace(start_ticks=me.start_ticks - 1), signal.SIGKILL)


def test_descendants_are_found_across_groups_without_their_root() -> None:
    table = {
        pid: ProcessStat(pid, "S", ppid, pid, pid, 1)
        for pid, ppid in {10: 1, 11: 10, 12: 11, 13: 11, 20: 1}.items()
    }

    assert [process.pid for process in descendants([10], table)] == [11, 12, 13]
    assert descendants([20, 99], table) == []


def test_members_belong_by_group_or_by_session() -> None:
    table = {
        1: ProcessStat(1, "S", 0, 5, 9, 1),
        2: ProcessStat(2, "S", 0, 9, 5, 1),
        3: ProcessStat(3, "S", 0, 9, 9, 1),
    }

    assert {process.pid for process in group_members(5, table)} == {1, 2}


@pytest.mark.parametrize(
    ("state", "running"), [("S", True), ("R", True), ("D", True), ("Z", False)]
)
def test_a_zombie_does_not_run(state: str, running: bool) -> None:
    assert ProcessStat(1, state, 0, 0, 0, 0).running is running


def test_a_signal_reaches_the_process_that_was_meant() -> None:
    child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
    stat = read_process(child.pid)
    assert stat is not None

    assert send_signal(stat, signal.SIGKILL)
    until(lambda: is_gone(child.pid), "the child ends")
    assert child.wait() == -signal.SIGKILL
    assert not send_signal(stat, signal.SIGKILL)
    assert read_process(child.pid) is None
