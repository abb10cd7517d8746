"""The processes of a load: started together, heard on one queue, gone when this is left."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from tuner.loadgen.plan import LoadPlan
from tuner.loadgen.plan_file import PLAN_NAME, write_plan
from tuner.loadgen.rendezvous import COMPANY, HERE, LEAD_OF_MANY_S

STDERR_NAME = "load-generator.stderr"
POLL_S = 0.1

Lines = queue.Queue[tuple[int, bytes | None]]


class GeneratorProcesses:
    """Running load generators. Between them they settle when a segment starts and ends."""

    def __init__(self, processes: Sequence[subprocess.Popen[bytes]], lines: Lines) -> None:
        self._processes = processes
        self._lines = lines
        self._here: set[int] = set()
        self._silent: set[int] = set()

    def next_line(self) -> tuple[int, bytes] | None:
        """A process's number and its next line, empty when none came within the polling period.

        None when every one has closed its output.
        """
        try:
            part, line = self._lines.get(timeout=POLL_S)
        except queue.Empty:
            return 0, b""
        if line is None:
            self._silent.add(part)
            return None if len(self._silent) == len(self._processes) else (part, b"")
        if line.strip() == HERE.encode():
            self._meet(part)
            return part, b""
        return part, line

    def failed(self) -> int | None:
        """The number of a process that ended badly, None while there is none."""
        statuses = enumerate(process.poll() for process in self._processes)
        return next((part for part, status in statuses if status), None)

    def status(self, part: int) -> int | None:
        """How a process ended."""
        return self._processes[part].returncode

    def wait(self) -> None:
        """Until each has ended."""
        for process in self._processes:
            process.wait()

    def _meet(self, part: int) -> None:
        self._here.add(part)
        if len(self._here) < len(self._processes):
            return
        self._here.clear()
        self.tell(f"{time.monotonic() + LEAD_OF_MANY_S!r}\n")

    def tell(self, line: str) -> None:
        """Write a line to the standard input of each."""
        for process in self._processes:
            _tell(process, line.encode())


def _tell(process: subprocess.Popen[bytes], line: bytes) -> None:
    if process.stdin is None:
        raise ValueError("the process has no standard input")
    try:
        process.stdin.write(line)
        process.stdin.flush()
    except OSError:
        return  # it has ended, which is noticed by its status


@contextmanager
def generator_processes(
    plans: Sequence[LoadPlan], directories: Sequence[Path]
) -> Iterator[GeneratorProcesses]:
    """One process a plan, leaving its files in its directory; on leaving, all groups are gone.

    They watch their standard input, so they end by themselves when this process is killed.
    """
    lines: Lines = queue.Queue()
    with ExitStack() as stack:
        processes = []
        for part, (plan, directory) in enumerate(zip(plans, directories, strict=True)):
            write_plan(plan, directory / PLAN_NAME)
            processes.append(_start(directory, company=len(plans) > 1))
            stack.callback(_end, processes[-1], _reader(part, processes[-1].stdout, lines))
        yield GeneratorProcesses(processes, lines)


def _start(directory: Path, *, company: bool) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", "-m", "tuner.loadgen", str(directory / PLAN_NAME)]
    with (directory / STDERR_NAME).open("wb") as stderr:
        return subprocess.Popen(  # noqa: S603  # our own interpreter and module
            [*command, str(directory), *([COMPANY] if company else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            start_new_session=True,
        )


def _reader(part: int, stream: IO[bytes] | None, lines: Lines) -> threading.Thread:
    thread = threading.Thread(
        target=_forward, args=(part, stream, lines), name="load-progress", daemon=True
    )
    thread.start()
    return thread


def _forward(part: int, stream: IO[bytes] | None, lines: Lines) -> None:
    """Pass lines on, then None when the generator has closed its output."""
    for line in stream or ():
        lines.put((part, line))
    lines.put((part, None))


def _end(process: subprocess.Popen[bytes], reader: threading.Thread) -> None:
    # Not reaped yet, so neither its pid nor its group can belong to somebody else.
    if process.returncode is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    reader.join()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
