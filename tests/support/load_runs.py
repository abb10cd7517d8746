"""Loads of a second against a scripted server, run in generator processes as a study does."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.scripted_server import (
    DONE_EVENT,
    HEAD,
    LAST_CHUNK,
    Hang,
    Pause,
    Step,
    chunked,
    token_event,
    usage_event,
)
from tuner.domain.cancellation import Cancellation
from tuner.loadgen.load_process import run_load
from tuner.loadgen.load_result import LoadProgress, LoadResult
from tuner.loadgen.plan import ClosedLoopSegment, LoadPlan, OpenLoopSegment, PlannedRequest

PATIENCE_S = 60.0


def paced(body: dict[str, Any]) -> list[Step]:
    """Each token after 20 ms."""
    count = body["max_tokens"]
    steps: list[Step] = [HEAD]
    for number in range(1, count + 1):
        reason = "length" if number == count else None
        steps += [Pause(0.02), chunked(token_event(total=number, finish_reason=reason))]
    return [*steps, chunked(usage_event(count)), chunked(DONE_EVENT), LAST_CHUNK]


def silent(_: dict[str, Any]) -> list[Step]:
    return [Hang]


def plan_for(
    url: str,
    *,
    window_s: float = 0.6,
    time_scale: float = 1.0,
    stall_s: float = 30.0,
    vocabulary_size: int = 32_000,
) -> LoadPlan:
    """20 requests a second in an open loop, then three at a time in a closed one."""
    open_requests = tuple(
        PlannedRequest(number, 8, 3, number, number / 20 * time_scale)
        for number in range(int((window_s + 0.4) * 20))
    )
    closed_requests = tuple(PlannedRequest(number, 8, 3, 10_000 + number) for number in range(5000))
    segments = (
        OpenLoopSegment(open_requests, 0.2 * time_scale, window_s * time_scale, 30.0 * time_scale),
        ClosedLoopSegment(closed_requests, 3, 0.1 * time_scale, window_s * time_scale),
    )
    return LoadPlan(url, "scripted", segments, vocabulary_size, 5, time_scale, stall_s)


def run(
    plan: LoadPlan,
    directory: Path,
    *,
    cancellation: Cancellation | None = None,
    on_progress: Callable[[LoadProgress], None] = lambda _: None,
    engine_alive: Callable[[], bool] = lambda: True,
    processes: int = 1,
) -> LoadResult:
    return run_load(
        plan,
        directory,
        cancellation=cancellation or Cancellation(),
        on_progress=on_progress,
        engine_alive=engine_alive,
        processes=processes,
    )


def generators(directory: Path) -> list[int]:
    """Live processes that were told to leave their records in this directory."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"tuner.loadgen" in words and str(directory).encode() in words:
            found.append(int(entry.name))
    return found


def gone(directory: Path) -> bool:
    end_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < end_s:
        if not generators(directory):
            return True
        os.sched_yield()
    return False
