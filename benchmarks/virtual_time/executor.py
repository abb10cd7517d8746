"""The study's own attempt (`tuner.study.attempt`) on virtual engines: no process, no wall time."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.virtual_time.metric_series import metric_series, segment_starts_s
from benchmarks.virtual_time.segment_run import SegmentRun, run_segment
from benchmarks.virtual_time.virtual_engine import (
    StartNoise,
    VirtualEngine,
    VirtualLauncher,
    ready_or_not,
)
from tuner.domain.cancellation import Cancellation
from tuner.domain.clock import Clock
from tuner.domain.diagnosis import Diagnosis
from tuner.engine.diagnosis import diagnose
from tuner.engine.launcher import RunningEngine
from tuner.loadgen.closing_watch import closing_of
from tuner.loadgen.generator import total_s
from tuner.loadgen.load_result import (
    GeneratorHealth,
    LoadProgress,
    LoadResult,
    SegmentReport,
    SegmentResult,
    SegmentWindow,
    save_segment,
)
from tuner.loadgen.plan import LoadPlan, OpenLoopSegment, Segment
from tuner.loadgen.prefix import Look, rows_of_records
from tuner.study.attempt import Equipment, LoadHooks, run_attempt
from tuner.study.checkpoints import Checkpoint, no_checkpoint
from tuner.study.executor import AttemptListener, AttemptRequest, AttemptResult
from tuner.study.load_session import CALIBRATION, SCRAPE_PERIOD_S, LoadSession
from tuner.study.loaded import Loaded
from tuner.worker.locations import Locations

_IDLE = GeneratorHealth(cpu_share=0.0, loop_stall_max_ms=0.0, reads=0)
"""A generator that costs nothing: the benchmark is about the study, not about the instrument."""


class VirtualLoad(LoadSession):
    """The study's load station, its segments served by the engine model."""

    def apply(
        self,
        plan: LoadPlan,
        engine: RunningEngine,
        directory: Path,
        hooks: LoadHooks,
        on_progress: Callable[[LoadProgress], None],
        processes: int = 1,
    ) -> Loaded:
        """See `LoadSession.apply`."""
        hooks.cancellation.raise_if_requested()
        kept = directory if directory.name.startswith(CALIBRATION) else None
        result, runs = serve(engine, plan.segments, on_progress, kept)
        return Loaded(result, metric_series(runs, SCRAPE_PERIOD_S))


def serve(
    engine: RunningEngine,
    segments: tuple[Segment, ...],
    on_progress: Callable[[LoadProgress], None] = lambda progress: None,
    directory: Path | None = None,
) -> tuple[LoadResult, tuple[SegmentRun, ...]]:
    """Serve segments one after the other; the engine may die in one of them.

    `on_progress` hears of each segment's beginning and of its first look, and may raise. With
    `directory` segments are left there for those who read them before all are served.
    """
    if not isinstance(engine, VirtualEngine) or engine.launch is None:
        raise TypeError("only a virtual engine that started serves in virtual time")
    results: list[SegmentResult] = []
    runs: list[SegmentRun] = []
    for number, segment in enumerate(segments):
        on_progress(_progress(number, segment, "preparing"))
        run = run_segment(engine.launch, segment)
        if run.died:
            engine.run_out_of_memory()
            break
        on_progress(_looked_at(number, run))
        closing = closing_of(segment, run.records)
        if closing is not None:
            run = run_segment(engine.launch, segment.closed_at(closing.at_s))
        runs.append(run)
        report = replace(_report(run, segment_starts_s(runs)[-1]), closing=closing)
        results.append(SegmentResult(run.segment, run.records, report))
        if directory is not None:
            save_segment(directory, number, run.records, report)
    return LoadResult(tuple(results), 1.0, engine_lost=len(runs) < len(segments)), tuple(runs)


def _progress(number: int, segment: Segment, phase: str, elapsed_s: float = 0.0) -> LoadProgress:
    return LoadProgress(number, phase, elapsed_s, total_s(segment), 0, 0, 0)


def _looked_at(number: int, run: SegmentRun) -> LoadProgress:
    """What the generator reports within the window; of an open loop with its first requests."""
    segment = run.segment
    if not isinstance(segment, OpenLoopSegment):
        return _progress(number, segment, "window", segment.warmup_s)
    look = Look.of(segment)
    rows = rows_of_records(look, segment, run.records)
    return replace(_progress(number, segment, "window", look.at_s), prefix=rows)


def _report(run: SegmentRun, start_s: float) -> SegmentReport:
    begin_s = start_s + run.segment.warmup_s
    end_s = begin_s + run.segment.window_s
    return SegmentReport(
        window=SegmentWindow(begin_s, end_s, begin_s, end_s),
        clock="virtual",
        health=_IDLE,
        list_exhausted=run.list_exhausted,
        given_up="no token came although requests waited" if run.stalled else None,
        cache_salt=True,
    )


@dataclass(frozen=True, slots=True)
class VirtualExecutor:
    """An `Executor` which takes milliseconds for an attempt of minutes."""

    equipment: Equipment

    def execute(
        self, request: AttemptRequest, listener: AttemptListener, cancellation: Cancellation
    ) -> AttemptResult:
        """See `tuner.study.executor.Executor`."""
        return run_attempt(request, self.equipment, listener, cancellation)


@dataclass(frozen=True, slots=True)
class VirtualExecutorFactory:
    """Builds the executor for `tuner.worker.composition.run_study`."""

    noise: StartNoise

    def __call__(
        self, clock: Clock, locations: Locations, checkpoint: Checkpoint = no_checkpoint
    ) -> VirtualExecutor:
        return VirtualExecutor(
            Equipment(
                launcher=VirtualLauncher(self.noise),
                load=VirtualLoad(clock),
                clock=clock,
                wait_until_ready=ready_or_not,
                diagnose=_diagnose,
                exclusive=_alone,
                checkpoint=checkpoint,
                free_port=lambda host: 8000,
            )
        )


def _alone(request: AttemptRequest, cancellation: Cancellation) -> AbstractContextManager[object]:
    return nullcontext()


def _diagnose(engine: RunningEngine) -> Diagnosis:
    return diagnose(engine.log_tail(), exit_status=engine.exit_status(), ready=True)
