from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from tuner.domain import precedence
from tuner.domain.precedence import (
    NICENESS,
    ask_for_precedence,
    ask_for_short_slices,
    may_be_raised,
    raise_priority,
)


def in_a_process_of_its_own(code: str) -> list[str]:
    """Words printed by the code; it leads a session of its own."""
    done = subprocess.run(
        [sys.executable, "-c", f"import os\nfrom tuner.domain.precedence import *\n{code}"],
        capture_output=True,
        text=True,
        check=True,
        start_new_session=True,
    )
    return done.stdout.split()


@pytest.mark.skipif(platform.machine() != "x86_64", reason="asserts on one machine type")
def test_short_slices_need_no_privilege_and_change_neither_policy_nor_niceness() -> None:
    state = "(os.sched_getscheduler(0), os.nice(0))"
    code = f"before = {state}; print(ask_for_short_slices(), {state} == before)"
    assert in_a_process_of_its_own(code) == ["True", "True"]


def test_priority_is_raised_where_that_is_allowed_and_else_left_alone() -> None:
    code = "before = os.nice(0); ask_for_precedence(); print(before, os.nice(0))"
    before, after = in_a_process_of_its_own(code)
    privileged = in_a_process_of_its_own("print(raise_priority())") == ["True"]
    assert int(after) == (NICENESS if privileged else int(before))


def test_a_session_that_belongs_to_others_is_not_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getsid", lambda _: os.getppid())
    monkeypatch.setattr(precedence, "raise_priority", lambda: pytest.fail("it was raised"))
    monkeypatch.setattr(precedence, "ask_for_short_slices", lambda: True)
    assert not may_be_raised()
    ask_for_precedence()


def test_a_refusal_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    autogroup = tmp_path / "autogroup"
    autogroup.write_text("/autogroup-1 nice 0")
    monkeypatch.setattr(precedence, "AUTOGROUP", autogroup)
    monkeypatch.setattr(os, "setpriority", refuse)
    assert not raise_priority()
    assert autogroup.read_text() == "/autogroup-1 nice 0"


def test_the_session_is_raised_with_the_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[int] = []
    autogroup = tmp_path / "autogroup"
    autogroup.touch()
    monkeypatch.setattr(precedence, "AUTOGROUP", autogroup)
    monkeypatch.setattr(os, "getpriority", lambda *_: 0)
    monkeypatch.setattr(os, "setpriority", lambda _which, _who, niceness: asked.append(niceness))
    assert raise_priority()
    assert asked == [NICENESS]
    assert autogroup.read_text() == str(NICENESS)


def test_nothing_is_asked_of_an_unknown_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "pdp11")
    assert not ask_for_short_slices()


@pytest.mark.parametrize("change", ["platform", "policy"])
def test_nothing_is_asked_where_it_has_no_meaning(
    monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    if change == "platform":
        monkeypatch.setattr(sys, "platform", "darwin")
    else:
        monkeypatch.setattr(os, "sched_getscheduler", lambda _: os.SCHED_FIFO)
    for step in ("raise_priority", "ask_for_short_slices"):
        monkeypatch.setattr(precedence, step, lambda: pytest.fail("it was asked"))
    ask_for_precedence()
