"""Load on a running engine: the study's segments, sent by the generator, summed up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from objectives.measurement import CapacitySegment, EngineFacts, Measurement
from tuner.domain.clock import Clock
from tuner.engine.launcher import RunningEngine
from tuner.errors import LoadGeneratorError
from tuner.loadgen.instrument import LIMITS, InstrumentLimits
from tuner.loadgen.load_process import run_load
from tuner.loadgen.load_result import LoadProgress, LoadResult
from tuner.loadgen.plan import LoadPlan, OpenLoopSegment, PlannedRequest, Segment
from tuner.loadgen.prompt_classes import prompt_edges
from tuner.loadgen.records import Records
from tuner.loadgen.schedule import closed_loop_segment, open_loop_segment
from tuner.loadgen.summary import capacity_segment, instrument, latency_segment
from tuner.loadgen.workload import Workload, build_workload
from tuner.study.attempt import LoadHooks
from tuner.study.budget import DRAIN_S
from tuner.study.calibration import (
    LoadCalibration,
    calibrated_rate,
    capacity_per_s,
    given_rate,
    saturating_concurrency,
)
from tuner.study.confirmation import BURST_OUTPUT_TOKENS, BURST_WINDOW_S, burst_size
from tuner.study.engine_launch import time_scale
from tuner.study.executor import AttemptRequest, LoadStatus
from tuner.study.seeds import derived_seed
from tuner.telemetry.gpu import Gpus, GpuSampler
from tuner.telemetry.scraper import MetricsScraper
from tuner.telemetry.series import MetricSeries
from tuner.telemetry.window import engine_window

MEASUREMENT, CALIBRATION, BURST = "measurement", "calibration", "burst"
SEGMENTS = {
    MEASUREMENT: ("latency", "capacity"),
    CALIBRATION: ("calibration",),
    BURST: ("burst",),
}

SCRAPE_PERIOD_S = 1.0
"""Engine seconds between two readings of the engine's metrics."""

SHORTEST_SCRAPE_S = 0.1
"""Wall seconds: more often would compete with the load for the processor."""

BURST_INSTANT_S = 1.0

GpusOf = Callable[[AttemptRequest], Gpus | None]


def no_gpus(request: AttemptRequest) -> Gpus | None:
    """Nobody can tell how busy the GPUs are."""
    return None


@dataclass(frozen=True, slots=True)
class Loaded:
    """What came of a load plan, and what the engine reported meanwhile."""

    result: LoadResult
    series: MetricSeries


class LoadSession:
    """The real `tuner.study.attempt.LoadStation`: generator and scraper as they are."""

    def __init__(
        self, clock: Clock, limits: InstrumentLimits = LIMITS, gpus_of: GpusOf = no_gpus
    ) -> None:
        self._clock = clock
        self._limits = limits
        self._gpus_of = gpus_of

    def apply(
        self,
        plan: LoadPlan,
        engine: RunningEngine,
        directory: Path,
        hooks: LoadHooks,
        on_progress: Callable[[LoadProgress], None],
    ) -> Loaded:
        """Run a plan on the engine; the only place which takes time, so tests may replace it."""
        period_s = max(SHORTEST_SCRAPE_S, SCRAPE_PERIOD_S / plan.time_scale)
        with MetricsScraper(f"{engine.base_url}/metrics", period_s, self._clock) as scraper:
            result = run_load(
                plan,
                directory,
                cancellation=hooks.cancellation,
                on_progress=on_progress,
                engine_alive=hooks.engine_alive,
            )
        return Loaded(result, scraper.series())

    def calibrate(
        self, request: AttemptRequest, engine: RunningEngine, facts: EngineFacts, hooks: LoadHooks
    ) -> LoadCalibration:
        """Saturate the engine once, unless the document gives a rate."""
        workload = workload_of(request)
        concurrency = saturating_concurrency(
            request.most_sequences, facts.kv_cache_tokens, workload.mean_tokens
        )
        given = request.workload.arrival.rate
        if given is not None:
            return given_rate(given, concurrency)
        spec, seed = request.workload, derived_seed(request.workload_seed, CALIBRATION)
        segment = closed_loop_segment(
            workload, concurrency, spec.warmup_s, spec.capacity_window_s, seed
        )
        loaded = self._run(request, engine, CALIBRATION, (segment,), hooks)
        measured = loaded.result.segments[0]
        window = measured.window
        reported = engine_window(loaded.series, window.start_monotonic_s, window.end_monotonic_s)
        output_tokens = float(workload.output_tokens.mean())
        capacity = capacity_per_s(capacity_segment(measured, reported), output_tokens)
        if capacity is None:
            raise LoadGeneratorError("the engine answered nothing while its load was calibrated")
        return calibrated_rate(capacity, concurrency)

    def measure(
        self,
        request: AttemptRequest,
        engine: RunningEngine,
        facts: EngineFacts,
        calibration: LoadCalibration,
        hooks: LoadHooks,
    ) -> Measurement:
        """Latency at the study's rate, then capacity in saturation, on this one start."""
        workload = workload_of(request)
        segments = measurement_segments(request, workload, calibration)
        loaded = self._run(request, engine, MEASUREMENT, segments, hooks)
        return summarise(request, workload, facts, loaded.result, loaded.series, self._limits)

    def burst(
        self, request: AttemptRequest, engine: RunningEngine, facts: EngineFacts, hooks: LoadHooks
    ) -> str | None:
        """The longest prompts, as many at once as the engine may run; None when all went well."""
        segment = burst_segment(request, workload_of(request))
        loaded = self._run(request, engine, BURST, (segment,), hooks)
        failed = int(loaded.result.segments[0].records.failed.sum())
        if failed == 0:
            return None
        return (
            f"{failed} of {len(segment.requests)} requests failed in the worst-case burst: "
            f"{_failures(loaded.result.segments[0].records)}"
        )

    def _run(
        self,
        request: AttemptRequest,
        engine: RunningEngine,
        purpose: str,
        segments: tuple[Segment, ...],
        hooks: LoadHooks,
    ) -> Loaded:
        directory = request.directory / purpose
        directory.mkdir(parents=True, exist_ok=True)
        plan = load_plan(request, engine, purpose, segments)
        with GpuSampler(self._gpus_of(request), self._clock) as sampler:
            loaded = self.apply(plan, engine, directory, hooks, _progress(purpose, hooks))
        loaded = replace(loaded, series=loaded.series.merged(sampler.series()))
        loaded.series.save(directory / "metrics.json")
        _require_whole(loaded.result, plan, purpose)
        return loaded


def workload_of(request: AttemptRequest) -> Workload:
    """The study's requests: equal for every attempt under the same seed."""
    return build_workload(
        request.workload,
        max_model_len=request.max_model_len,
        seed=request.workload_seed,
        base_dir=request.base_dir,
    )


def measurement_segments(
    request: AttemptRequest, workload: Workload, calibration: LoadCalibration
) -> tuple[Segment, ...]:
    """The two segments of one measurement."""
    spec, seed = request.workload, request.workload_seed
    latency = open_loop_segment(
        workload,
        spec.arrival,
        calibration.rate_per_s,
        spec.warmup_s,
        spec.latency_window_s,
        DRAIN_S,
        seed,
    )
    capacity = closed_loop_segment(
        workload, calibration.concurrency, spec.warmup_s, spec.capacity_window_s, seed
    )
    return latency, capacity


def burst_segment(request: AttemptRequest, workload: Workload) -> OpenLoopSegment:
    """The worst case: every sequence the engine may run, with the longest prompt, at one moment."""
    longest = int(workload.prompt_tokens.max())
    output = max(1, min(BURST_OUTPUT_TOKENS, request.max_model_len - longest))
    seed = derived_seed(request.workload_seed, BURST)
    requests = tuple(
        PlannedRequest(index, longest, output, derived_seed(seed, index), due_s=0.0)
        for index in range(burst_size(request.max_num_seqs, longest))
    )
    return OpenLoopSegment(requests, 0.0, BURST_INSTANT_S, BURST_WINDOW_S)


def load_plan(
    request: AttemptRequest, engine: RunningEngine, purpose: str, segments: tuple[Segment, ...]
) -> LoadPlan:
    """The plan of one run; prompts of two runs on one engine never share a prefix."""
    return LoadPlan(
        base_url=engine.base_url,
        model=engine.request.served_model,
        segments=segments,
        vocabulary_size=request.vocabulary_size,
        salt=derived_seed(request.salt, purpose),
        time_scale=time_scale(request.engine),
        stall_s=request.deadlines.stall_s,
    )


def summarise(
    request: AttemptRequest,
    workload: Workload,
    facts: EngineFacts,
    result: LoadResult,
    series: MetricSeries,
    limits: InstrumentLimits = LIMITS,
) -> Measurement:
    """Records and metrics of both segments as one measurement."""
    first, second = result.segments
    windows = tuple(
        engine_window(series, s.window.start_monotonic_s, s.window.end_monotonic_s)
        for s in result.segments
    )
    slo = request.slo
    latency = latency_segment(
        first,
        windows[0],
        slo=slo,
        seed=request.workload_seed,
        prompt_edges=prompt_edges(workload.prompt_tokens),
    )
    capacity = capacity_segment(second, windows[1], seed=request.workload_seed)
    ttft = latency.ttft_ms
    return Measurement(
        latency=latency,
        capacity=capacity,
        instrument=instrument(
            result.segments,
            windows,
            time_scale=result.time_scale,
            ttft_p95_ms=ttft.p95.value if ttft is not None else None,
            slo_ttft_ms=slo.ttft_ms if slo is not None else None,
            limits=limits,
        ),
        engine=facts,
        workload_digest=workload.digest,
        workload_seed=request.workload_seed,
        simulated=request.engine.kind == "simulated",
        time_scale=result.time_scale,
        notes=steadiness_notes(capacity),
    )


def steadiness_notes(segment: CapacitySegment) -> tuple[str, ...]:
    """What is to be said of a throughput that was not steady all the time."""
    steady, notes = segment.steady, []
    if steady is not None and steady.truncated_s > 0:
        left_out = f"the first {steady.truncated_s:.1f} of {segment.window_s:g} s"
        notes.append(f"throughput leaves out {left_out}: the engine had not settled")
    if steady is not None and not steady.steady and steady.drift is not None:
        notes.append(f"throughput is not steady: it drifted by {steady.drift:+.0%} in the window")
    return tuple(notes)


def _progress(purpose: str, hooks: LoadHooks) -> Callable[[LoadProgress], None]:
    names = SEGMENTS[purpose]

    def tell(progress: LoadProgress) -> None:
        measuring = purpose == MEASUREMENT and progress.phase == "window"
        hooks.progressed(
            LoadStatus(
                segment=names[progress.segment],
                elapsed_s=progress.elapsed_s,
                total_s=progress.total_s,
                completed_requests=progress.completed,
                measuring=measuring,
            )
        )

    return tell


def _require_whole(result: LoadResult, plan: LoadPlan, purpose: str) -> None:
    if result.engine_lost or len(result.segments) < len(plan.segments):
        raise LoadGeneratorError(f"the engine was lost during the {purpose}")
    for segment in result.segments:
        if segment.report.given_up is not None:
            raise LoadGeneratorError(f"the {purpose} was given up: {segment.report.given_up}")


def _failures(records: Records) -> str:
    return ", ".join(f"{count} {name}" for name, count in records.failure_counts().items())
