"""Launching scripted engines, and waiting for what they do."""

from __future__ import annotations

import fcntl
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tuner.engine.launcher import LaunchRequest
from tuner.engine.port import free_port
from tuner.engine.process_tree import read_process

SCRIPT = Path(__file__).with_name("scripted_engine.py")
PATIENCE_S = 60.0


def scripted_request(directory: Path, *options: str, grace_s: float = 20.0) -> LaunchRequest:
    """A request for a scripted engine on a free port of the loopback address."""
    port = free_port("127.0.0.1")
    return LaunchRequest(
        argv=(sys.executable, "-S", str(SCRIPT), "--port", str(port), *options),
        env={"PATH": os.environ.get("PATH", os.defpath), "HOME": str(directory)},
        host="127.0.0.1",
        port=port,
        served_model="tiny",
        log_path=directory / "logs" / "engine.log",
        stop_grace_s=grace_s,
    )


def until(condition: Callable[[], object], what: str, *, patience_s: float = PATIENCE_S) -> None:
    """Poll until `condition` holds; fails after a minute, saying `what` did not happen."""
    deadline = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"did not happen: {what}")
        time.sleep(0.01)


def is_gone(pid: int) -> bool:
    """No process of this pid runs (a zombie does not)."""
    process = read_process(pid)
    return process is None or not process.running


def holder_lives(path: Path) -> bool:
    """Whether the process that wrote its pid to `path` still holds its lock on it."""
    with path.open() as marker:
        try:
            fcntl.flock(marker, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def written_pid(path: Path) -> int:
    """The pid that a process writes to `path`, once it has."""
    until(path.exists, f"{path} is written")
    return int(path.read_text())
