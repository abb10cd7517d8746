"""The load generator's process: runs a plan, reports progress, leaves records."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path

from tuner.loadgen.closed_loop import ClosedLoopRun, UserLoopRun
from tuner.loadgen.load_result import LoadProgress, SegmentReport, SegmentWindow, save_segment
from tuner.loadgen.open_loop import OpenLoopRun
from tuner.loadgen.part_tokens import PartTokens
from tuner.loadgen.plan import (
    LoadPlan,
    OpenLoopSegment,
    PlannedRequest,
    Segment,
    UserLoopSegment,
)
from tuner.loadgen.prefix import Look, PrefixRow, rows_of_log
from tuner.loadgen.prompts import RequestBodies
from tuner.loadgen.rendezvous import Alone, Rendezvous
from tuner.loadgen.response_stream import ResponseStream
from tuner.loadgen.running_latencies import RunningLatencies
from tuner.loadgen.running_window import RunningWindow
from tuner.loadgen.segment_run import RunSettings, SegmentEnd, SegmentRun, end_tasks
from tuner.loadgen.stream_fault import StreamFault
from tuner.loadgen.transport import Transport
from tuner.loadgen.transports import open_transport
from tuner.loadgen.verdicts import RunningVerdicts

COMPLETIONS_PATH = "/v1/completions"
PROGRESS_PERIOD_S = 0.25

Emit = Callable[[LoadProgress], None]


async def generate(
    plan: LoadPlan,
    directory: Path,
    emit: Emit,
    api_key: str | None = None,
    rendezvous: Rendezvous | None = None,
    window: RunningWindow | None = None,
) -> None:
    """Run the plan's segments in order and save each when it has ended.

    `window` is told when a window is to close before its time.
    """
    running = window or RunningWindow()
    url = plan.base_url.rstrip("/") + COMPLETIONS_PATH
    # An engine faster than real time has its tokens that much closer together.
    gather = plan.time_scale <= 1.0
    async with open_transport(
        url, plan.transport, api_key, gather=gather, proxy=plan.proxy
    ) as transport:
        cache_salt = await accepts_cache_salt(transport, plan)
        bodies = RequestBodies(
            plan.model,
            plan.vocabulary_size,
            plan.salt,
            cache_salt=cache_salt,
            named=plan.names_requests,
        )
        settings = RunSettings(
            transport, bodies, plan.time_scale, plan.stall_s, rendezvous or Alone()
        )
        for number, segment in enumerate(plan.segments):
            run = segment_run(segment, settings)
            running.attach(number, run)
            end = await _run_reporting(run, number, segment, emit)
            listed = not isinstance(segment, OpenLoopSegment)
            records = run.log.records(end.start_s, plan.time_scale, only_sent=listed)
            report = _report(segment, end, transport, plan.time_scale, cache_salt)
            save_segment(directory, number, records, report)


def segment_run(segment: Segment, settings: RunSettings) -> SegmentRun:
    """The way to run a segment."""
    if isinstance(segment, OpenLoopSegment):
        return OpenLoopRun(segment, settings)
    if isinstance(segment, UserLoopSegment):
        return UserLoopRun(segment, settings)
    return ClosedLoopRun(segment, settings)


async def accepts_cache_salt(transport: Transport, plan: LoadPlan) -> bool:
    """Ask with one small request whether the engine takes `cache_salt`; older ones refuse it.

    Any other failure says nothing about it and will show in the segments.
    """
    bodies = RequestBodies(plan.model, plan.vocabulary_size, plan.salt, cache_salt=True)
    stream = ResponseStream(asked_tokens=1)
    try:
        async with asyncio.timeout(plan.stall_s / plan.time_scale):
            await transport.exchange(bodies.build(PlannedRequest(0, 1, 1, 0)), stream)
    except TimeoutError:
        return True
    except StreamFault as fault:
        refused = stream.http_status in (HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY)
        return not (refused and "cache_salt" in fault.detail)
    return True


async def _run_reporting(run: SegmentRun, number: int, segment: Segment, emit: Emit) -> SegmentEnd:
    tokens = PartTokens(segment, run)
    tasks = [
        asyncio.create_task(_report_progress(run, number, segment, tokens, emit)),
        asyncio.create_task(tokens.count()),
    ]
    try:
        with _no_garbage_collection():
            return await run.run()
    finally:
        await end_tasks(tasks)


async def _report_progress(
    run: SegmentRun, number: int, segment: Segment, tokens: PartTokens, emit: Emit
) -> None:
    scale = run.settings.time_scale
    look = Look.of(segment) if isinstance(segment, OpenLoopSegment) else None
    judging, latencies = _running_verdicts(segment, run), _running_latencies(segment, run)
    while True:
        elapsed_s = max(0.0, (time.monotonic() - run.start_s) * scale)
        begun = run.start_s != float("inf")
        phase = _phase(segment, run, elapsed_s) if begun else "preparing"
        log = run.log
        counts = (log.completed, log.failed, log.in_flight)
        prefix: list[PrefixRow] | None = None
        if look is not None and isinstance(segment, OpenLoopSegment) and elapsed_s >= look.at_s:
            prefix = rows_of_log(look, segment, log, run.start_s, scale)
            look = None
        now_s = time.monotonic()
        verdicts = judging.new(run.start_s, scale, now_s) if judging and begun else ()
        known = latencies.new(run.start_s, scale, now_s) if latencies and begun else ()
        told = (*counts, prefix, verdicts, log.unanswered, known, tokens.new())
        emit(LoadProgress(number, phase, elapsed_s, total_s(segment), *told))
        await asyncio.sleep(PROGRESS_PERIOD_S)


def _running_verdicts(segment: Segment, run: SegmentRun) -> RunningVerdicts | None:
    if not isinstance(segment, OpenLoopSegment) or segment.slo is None:
        return None
    return RunningVerdicts(segment, segment.slo, run.log)


def _running_latencies(segment: Segment, run: SegmentRun) -> RunningLatencies | None:
    if not isinstance(segment, OpenLoopSegment) or segment.adaptive is None:
        return None
    return RunningLatencies(segment, run.log)


def _phase(segment: Segment, run: SegmentRun, elapsed_s: float) -> str:
    if elapsed_s < segment.warmup_s:
        return "warmup"
    return "window" if elapsed_s < run.window_end_s else "drain"


def total_s(segment: Segment) -> float:
    """Engine time from the segment's first moment to its latest possible end."""
    return segment.window_end_s + segment.drain_s


def _report(
    segment: Segment, end: SegmentEnd, transport: Transport, time_scale: float, cache_salt: bool
) -> SegmentReport:
    window_start_s = end.start_s + segment.warmup_s / time_scale
    if end.closing is not None:
        segment = segment.closed_at(end.closing.at_s)
    window_end_s = window_start_s + segment.window_s / time_scale
    to_unix_s = time.time() - time.monotonic()
    window = SegmentWindow(
        start_monotonic_s=window_start_s,
        end_monotonic_s=window_end_s,
        start_unix_s=window_start_s + to_unix_s,
        end_unix_s=window_end_s + to_unix_s,
    )
    return SegmentReport(
        window=window,
        clock=transport.clock,
        health=end.health,
        list_exhausted=end.list_exhausted,
        given_up=end.given_up,
        cache_salt=cache_salt,
        clock_step_ms=transport.clock_step_s * 1000,
        closing=end.closing,
    )


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """A collection stops the loop for milliseconds; a segment is short enough to do without."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()
