"""Runs a load plan in processes of its own, so that nothing here disturbs its clock."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

from tuner.domain.cancellation import Cancellation
from tuner.errors import LoadGeneratorError
from tuner.loadgen.closing_watch import ClosingWatch
from tuner.loadgen.generator_processes import (
    STDERR_NAME,
    GeneratorProcesses,
    generator_processes,
)
from tuner.loadgen.load_result import LoadProgress, LoadResult, load_segments
from tuner.loadgen.partition import most_processes
from tuner.loadgen.partitioned_load import PartitionedLoad
from tuner.loadgen.plan import LoadPlan
from tuner.loadgen.running_window import closing_line

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
    processes: int = 1,
) -> LoadResult:
    """Run the plan and return its records; the generator's processes have ended when this does.

    Several processes (no more than the plan can be dealt out to) send together what one would, and
    leave the same records. Files are left in `directory`, which must exist. When the engine dies,
    the segments finished until then come back with `engine_lost`. Raises CancelledError, or
    LoadGeneratorError with the generator's last words.
    """
    cancellation.raise_if_requested()
    load = PartitionedLoad(plan, directory, min(processes, most_processes(plan)))
    windows = ClosingWatch(plan.segments, len(load.plans))
    deadline_s = time.monotonic() + _longest_s(plan)
    with generator_processes(load.plans, load.directories) as generators:
        engine_lost = False
        while not engine_lost and not _has_failed(generators):
            cancellation.raise_if_requested()
            heard = generators.next_line()
            if heard is None:
                break
            part, line = heard
            if line:
                progress = _progress(line, load.directories[part])
                closing = windows.hear(part, progress)
                if closing is not None:
                    generators.tell(closing_line(progress.segment, closing))
                whole = load.take(part, progress)
                if whole is not None:
                    on_progress(whole)
            if time.monotonic() > deadline_s:
                raise _failure("did not end in time", load.directories[0])
            engine_lost = not engine_alive()
        if not engine_lost:
            _await_good_end(generators, load)
    load.merge_finished()
    engine_lost = engine_lost or not engine_alive()
    segments = load_segments(plan, directory)
    if len(segments) < len(plan.segments) and not engine_lost:
        raise _failure(f"left {len(segments)} of {len(plan.segments)} segments", directory)
    load.clear()
    return LoadResult(segments, plan.time_scale, engine_lost)


def _has_failed(generators: GeneratorProcesses) -> bool:
    """One that failed keeps the others waiting for ever."""
    return generators.failed() is not None


def _await_good_end(generators: GeneratorProcesses, load: PartitionedLoad) -> None:
    if generators.failed() is None:
        generators.wait()
    part = generators.failed()
    if part is not None:
        raise _failure(f"ended with status {generators.status(part)}", load.directories[part])


def _progress(line: bytes, directory: Path) -> LoadProgress:
    try:
        return LoadProgress(**json.loads(line))
    except (ValueError, TypeError) as error:
        raise _failure(f"wrote {line[:200]!r} instead of progress", directory) from error


def _longest_s(plan: LoadPlan) -> float:
    """Wall time the plan may take at most."""
    engine_s = sum(segment.window_end_s + segment.drain_s for segment in plan.segments)
    return (engine_s + plan.stall_s) / plan.time_scale * 1.2 + GRACE_S


def _failure(what: str, directory: Path) -> LoadGeneratorError:
    path = directory / STDERR_NAME
    written = path.read_bytes() if path.exists() else b""
    tail = written[-STDERR_TAIL_BYTES:].decode("utf-8", errors="replace").strip()
    words = f"; its last words:\n{tail}" if tail else ""
    return LoadGeneratorError(f"the load generator {what}{words}", where=str(path))
