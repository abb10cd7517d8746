from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from tuner.loadgen.scheduling import ask_for_short_slices

IN_A_PROCESS_OF_ITS_OWN = """
import os
from tuner.loadgen.scheduling import ask_for_short_slices
before = os.sched_getscheduler(0), os.nice(0)
print(ask_for_short_slices(), (os.sched_getscheduler(0), os.nice(0)) == before)
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="asserts on one machine type")
def test_asking_needs_no_privilege_and_changes_neither_policy_nor_niceness() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IN_A_PROCESS_OF_ITS_OWN], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["True", "True"], done.stderr


@pytest.mark.parametrize("change", ["machine", "platform", "policy"])
def test_nothing_is_asked_where_it_has_no_meaning(
    monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    if change == "machine":
        monkeypatch.setattr(platform, "machine", lambda: "pdp11")
    elif change == "platform":
        monkeypatch.setattr(sys, "platform", "darwin")
    else:
        monkeypatch.setattr(os, "sched_getscheduler", lambda _: os.SCHED_FIFO)
    assert not ask_for_short_slices()
