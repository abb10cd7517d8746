"""The supervision of the worker's process, with stand-ins for what the worker does."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from tuner.cli.embedded_worker import EmbeddedWorker

LIVES = (
    "import signal, sys, threading; stop = threading.Event();"
    "signal.signal(signal.SIGTERM, lambda *a: stop.set());"
    "open(sys.argv[1], 'a').write('started\\n'); stop.wait();"
    "open(sys.argv[1], 'a').write('drained\\n')"
)
STUBBORN = (
    "import signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    "open(sys.argv[1], 'a').write('started\\n'); time.sleep(600)"
)
DIES = "import sys; open(sys.argv[1], 'a').write('started\\n'); sys.exit(1)"
DEADLINE_S = 60.0


def command(code: str, file: Path) -> list[str]:
    return [sys.executable, "-c", code, str(file)]


def wait_for_lines(file: Path, count: int) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not file.exists() or len(file.read_text().splitlines()) < count:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def alive(pid: int | None) -> bool:
    return pid is not None and Path(f"/proc/{pid}").exists()


def test_the_worker_is_asked_to_drain_and_waited_for(tmp_path: Path) -> None:
    file = tmp_path / "log"
    with EmbeddedWorker(command(LIVES, file)) as worker:
        wait_for_lines(file, 1)
        pid = worker.pid
        assert alive(pid)
    assert file.read_text() == "started\ndrained\n"
    assert not alive(pid)


def test_a_worker_that_dies_is_started_again(tmp_path: Path) -> None:
    file = tmp_path / "log"
    with EmbeddedWorker(command(DIES, file), first_pause_s=0.01):
        wait_for_lines(file, 3)


def test_a_worker_that_does_not_end_is_killed(tmp_path: Path) -> None:
    file = tmp_path / "log"
    with EmbeddedWorker(command(STUBBORN, file), drain_s=0.2) as worker:
        wait_for_lines(file, 1)
        pid = worker.pid
    assert not alive(pid)


def test_the_worker_reads_the_end_of_its_parent(tmp_path: Path) -> None:
    file = tmp_path / "log"
    waits = (
        "import sys; open(sys.argv[1], 'a').write('started\\n'); sys.stdin.read();"
        "open(sys.argv[1], 'a').write('parent is gone\\n')"
    )
    code = (
        "import sys, time; from tuner.cli.embedded_worker import EmbeddedWorker;"
        f"EmbeddedWorker([sys.executable, '-c', {waits!r}, {str(file)!r}]).__enter__();"
        "time.sleep(600)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], env=dict(os.environ))
    try:
        wait_for_lines(file, 1)
    finally:
        parent.kill()
        parent.wait()
    wait_for_lines(file, 2)
