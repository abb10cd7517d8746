"""Runs a load plan in a process of its own, so that nothing here disturbs its clock."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tuner.domain.cancellation import Cancellation
from tuner.errors import LoadGeneratorError
from tuner.loadgen.load_result import LoadProgress, LoadResult, load_segments
from tuner.loadgen.plan import LoadPlan, OpenLoopSegment
from tuner.loadgen.plan_file import write_plan

PLAN_NAME = "load-plan.json"
STDERR_NAME = "load-generator.stderr"
POLL_S = 0.1
STDERR_TAIL_BYTES = 4096
GRACE_S = 60.0
"""Wall time beyond the plan's own after which a generator that still runs is stuck."""


def run_load(
    plan: LoadPlan,
    directory: Path,
    *,
    cancellation: Cancellation,
    on_progress: Callable[[LoadProgress], None],
    engine_alive: Callable[[], bool],
) -> LoadResult:
    """Run the plan and return its records; the generator's process has ended when this does.

    Files are left in `directory`, which must exist. When the engine dies, the segments finished
    until then come back with `engine_lost`. Raises CancelledError, or LoadGeneratorError with the
    generator's last words.
    """
    cancellation.raise_if_requested()
    write_plan(plan, directory / PLAN_NAME)
    deadline_s = time.monotonic() + _longest_s(plan)
    with _generator(directory) as (process, lines):
        engine_lost = False
        while not engine_lost:
            cancellation.raise_if_requested()
            line = _next_line(lines)
            if line is None:
                break
            if line:
                on_progress(_progress(line, directory))
            if time.monotonic() > deadline_s:
                raise _failure("did not end in time", directory)
            engine_lost = not engine_alive()
        if not engine_lost and process.wait() != 0:
            raise _failure(f"ended with status {process.returncode}", directory)
    engine_lost = engine_lost or not engine_alive()
    segments = load_segments(plan, directory)
    if len(segments) < len(plan.segments) and not engine_lost:
        raise _failure(f"left {len(segments)} of {len(plan.segments)} segments", directory)
    return LoadResult(segments, plan.time_scale, engine_lost)


@contextmanager
def _generator(
    directory: Path,
) -> Iterator[tuple[subprocess.Popen[bytes], queue.Queue[bytes | None]]]:
    """The generator's process and the lines it writes; on leaving, its whole group is gone.

    It watches its standard input, so it ends by itself when this process is killed.
    """
    command = [sys.executable, "-P", "-m", "tuner.loadgen"]
    with (directory / STDERR_NAME).open("wb") as stderr:
        process = subprocess.Popen(  # noqa: S603  # our own interpreter and module
            [*command, str(directory / PLAN_NAME), str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            start_new_session=True,
        )
    lines: queue.Queue[bytes | None] = queue.Queue()
    reader = threading.Thread(
        target=_forward, args=(process.stdout, lines), name="load-progress", daemon=True
    )
    reader.start()
    try:
        yield process, lines
    finally:
        # Not reaped yet, so neither its pid nor its group can belong to somebody else.
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        reader.join()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def _forward(stream: IO[bytes], lines: queue.Queue[bytes | None]) -> None:
    """Pass lines on, then None when the generator has closed its output."""
    for line in stream:
        lines.put(line)
    lines.put(None)


def _next_line(lines: queue.Queue[bytes | None]) -> bytes | None:
    """A line, None at the end, or nothing (empty) when none came within the polling period."""
    try:
        return lines.get(timeout=POLL_S)
    except queue.Empty:
        return b""


def _progress(line: bytes, directory: Path) -> LoadProgress:
    try:
        return LoadProgress(**json.loads(line))
    except (ValueError, TypeError) as error:
        raise _failure(f"wrote {line[:200]!r} instead of progress", directory) from error


def _longest_s(plan: LoadPlan) -> float:
    """Wall time the plan may take at most."""
    engine_s = sum(
        segment.warmup_s
        + segment.window_s
        + (segment.drain_s if isinstance(segment, OpenLoopSegment) else 0.0)
        for segment in plan.segments
    )
    return (engine_s + plan.stall_s) / plan.time_scale * 1.2 + GRACE_S


def _failure(what: str, directory: Path) -> LoadGeneratorError:
    path = directory / STDERR_NAME
    written = path.read_bytes() if path.exists() else b""
    tail = written[-STDERR_TAIL_BYTES:].decode("utf-8", errors="replace").strip()
    words = f"; its last words:\n{tail}" if tail else ""
    return LoadGeneratorError(f"the load generator {what}{words}", where=str(path))
