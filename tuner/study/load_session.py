"""Load on a running engine: the study's segments, sent by the generator, summed up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from objectives.measurement import CapacitySegment, EngineFacts, Measurement
from tuner.domain.clock import Clock
from tuner.engine.http_probe import Probe
from tuner.engine.launcher import RunningEngine
from tuner.errors import EngineHungError, LoadGeneratorError
from tuner.loadgen.engine_truth import EngineTruth, TruthCheck, truth_check
from tuner.loadgen.instrument import LIMITS, InstrumentLimits
from tuner.loadgen.load_process import run_load
from tuner.loadgen.load_result import LoadProgress, LoadResult, SegmentResult, load_segments
from tuner.loadgen.plan import (
    ClosedLoopSegment,
    LoadPlan,
    OpenLoopSegment,
    PlannedRequest,
    Segment,
)
from tuner.loadgen.prompt_classes import prompt_edges
from tuner.loadgen.records import Records
from tuner.loadgen.schedule import closed_loop_segment, open_loop_segment
from tuner.loadgen.silence import hung
from tuner.loadgen.summary import capacity_segment, instrument, latency_segment
from tuner.loadgen.workload import Workload, build_workload
from tuner.study.abort_watch import abort_watch, require_engine_in_time
from tuner.study.attempt import LoadHooks
from tuner.study.budget import DRAIN_S
from tuner.study.calibration import (
    LoadCalibration,
    RateSource,
    RateStep,
    Rung,
    capacity_per_s,
    climbed,
    is_certain,
    ladder_is_climbed,
    power_at,
    saturating_concurrency,
    study_rate,
    turnover_warmup_s,
)
from tuner.study.calibration_load import (
    Staircase,
    ladder,
    rates_to_try,
    read_rung,
    read_steps,
    staircase,
)
from tuner.study.confirmation import BURST_OUTPUT_TOKENS, BURST_WINDOW_S, burst_size
from tuner.study.early_abort import CutShortError
from tuner.study.engine_launch import time_scale
from tuner.study.engine_truth import read_truth
from tuner.study.engine_windows import engine_windows
from tuner.study.executor import AttemptRequest
from tuner.study.load_progress import MEASUREMENT, SERIES_FILE, ProgressSink, progress_sink
from tuner.study.seeds import derived_seed
from tuner.telemetry.gpu import Gpus, GpuSampler
from tuner.telemetry.scraper import MetricsScraper
from tuner.telemetry.series import MetricSeries, Scrape

BURST = "burst"
CALIBRATION, RATES = "calibration", "calibration-rates"
SEGMENTS = {
    MEASUREMENT: ("latency", "capacity"),
    CALIBRATION: ("calibration",),
    RATES: ("calibration",),
    BURST: ("burst",),
}

SCRAPE_PERIOD_S = 1.0
"""Engine seconds between two readings of the engine's metrics."""

SHORTEST_SCRAPE_S = 0.1
"""Wall seconds: more often would compete with the load for the processor."""

BURST_INSTANT_S = 1.0

TRUTH_TIMEOUT_S = 10.0

GpusOf = Callable[[AttemptRequest], Gpus | None]


def no_gpus(request: AttemptRequest) -> Gpus | None:
    """Nobody can tell how busy the GPUs are."""
    return None


@dataclass(frozen=True, slots=True)
class Loaded:
    """What came of a load plan, and what the engine reported meanwhile."""

    result: LoadResult
    series: MetricSeries
    truth: EngineTruth | None = None
    """Of an embedded engine faster than real time: what it knows of every request."""


class _Climbed(Exception):
    """The ladder has been climbed far enough."""


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
        on_progress: ProgressSink,
    ) -> Loaded:
        """Run a plan on the engine; the only place which takes time, so tests may replace it."""
        period_s = max(SHORTEST_SCRAPE_S, SCRAPE_PERIOD_S / plan.time_scale)
        with MetricsScraper(f"{engine.base_url}/metrics", period_s, self._clock) as scraper:
            try:
                result = run_load(
                    plan,
                    directory,
                    cancellation=hooks.cancellation,
                    on_progress=lambda progress: on_progress(progress, scraper.latest()),
                    engine_alive=hooks.engine_alive,
                )
            except CutShortError as cut:
                now_s = self._clock.monotonic()
                require_engine_in_time(cut, scraper.series(), now_s, plan.time_scale)
                raise
        truth = None
        if plan.names_requests and not result.engine_lost:
            truth = read_truth(Probe(engine.base_url, timeout_s=TRUTH_TIMEOUT_S))
        return Loaded(result, scraper.series(), truth)

    def calibrate(
        self, request: AttemptRequest, engine: RunningEngine, facts: EngineFacts, hooks: LoadHooks
    ) -> LoadCalibration:
        """Saturate the engine, then load it at rising rates; a rate that is given is judged."""
        workload, spec = workload_of(request), request.workload
        concurrency = saturating_concurrency(
            request.most_sequences, facts.kv_cache_tokens, workload.mean_tokens
        )
        seed = derived_seed(request.workload_seed, CALIBRATION)
        judging = spec.arrival.rate is not None
        segments = ladder(workload, spec, concurrency, seed, judging=judging)
        rungs = self._climb(request, engine, workload, segments, hooks)
        capacity = capacity_per_s(rungs)
        if capacity is None:
            raise LoadGeneratorError("the engine answered nothing while its load was calibrated")
        given = spec.arrival.rate
        rates = rates_to_try(capacity, spec, given)
        stairs = staircase(workload, spec, rates, seed, judging=judging) if rates else None
        steps = self._mount(request, engine, stairs, hooks) if stairs else ()
        certain = is_certain(rungs)
        rate, knee = (
            study_rate(capacity, steps, certain=certain) if given is None else (given, None)
        )
        return LoadCalibration(
            rate_per_s=rate,
            concurrency=concurrency,
            source=RateSource.CALIBRATED if given is None else RateSource.GIVEN,
            capacity_per_s=capacity if certain or given is None else None,
            knee_per_s=knee,
            power=power_at(rate, steps, request.max_num_seqs),
            capacity_warmup_s=turnover_warmup_s(concurrency, capacity, spec.warmup_s),
            rungs=rungs,
            steps=steps,
            engine_s=load_s((*segments[: len(rungs)], *([stairs.segment] if stairs else []))),
        )

    def _climb(
        self,
        request: AttemptRequest,
        engine: RunningEngine,
        workload: Workload,
        segments: tuple[ClosedLoopSegment, ...],
        hooks: LoadHooks,
    ) -> tuple[Rung, ...]:
        """Probe rung by rung; the rest is spared once a doubling has brought nothing."""
        plan = load_plan(request, engine, CALIBRATION, segments)
        directory = request.directory / CALIBRATION
        judged = 0

        def watch(progress: LoadProgress) -> None:
            nonlocal judged
            if progress.segment > judged:
                judged = progress.segment
                finished = load_segments(plan, directory)[:judged]
                if ladder_is_climbed([read_rung(result, workload) for result in finished]):
                    raise _Climbed

        try:
            results = self._run(request, engine, CALIBRATION, segments, hooks, watch)
            measured = results.result.segments
        except _Climbed:
            measured = load_segments(plan, directory)
        return climbed([read_rung(result, workload) for result in measured])

    def _mount(
        self, request: AttemptRequest, engine: RunningEngine, stairs: Staircase, hooks: LoadHooks
    ) -> tuple[RateStep, ...]:
        """Load the engine at rising rates."""
        loaded = self._run(request, engine, RATES, (stairs.segment,), hooks)
        return read_steps(stairs, loaded.result, loaded.series)

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
        watch = abort_watch(request, segments, self._limits)
        loaded = self._run(request, engine, MEASUREMENT, segments, hooks, watch)
        return summarise(request, workload, facts, loaded, self._limits)

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
        watch: Callable[[LoadProgress], None] = lambda progress: None,
    ) -> Loaded:
        """Run segments; `watch` hears of their progress too, and may raise to end them."""
        directory = request.directory / purpose
        directory.mkdir(parents=True, exist_ok=True)
        plan = load_plan(request, engine, purpose, segments)
        tell = progress_sink(purpose, SEGMENTS[purpose], hooks)

        def on_progress(progress: LoadProgress, scrape: Scrape | None = None) -> None:
            tell(progress, scrape)
            watch(progress)

        with GpuSampler(self._gpus_of(request), self._clock) as sampler:
            loaded = self.apply(plan, engine, directory, hooks, on_progress)
        loaded = replace(loaded, series=loaded.series.merged(sampler.series()))
        loaded.series.save(directory / SERIES_FILE)
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
    warmup_s = calibration.capacity_warmup_s
    capacity = closed_loop_segment(
        workload,
        calibration.concurrency,
        spec.warmup_s if warmup_s is None else warmup_s,
        spec.capacity_window_s,
        seed,
    )
    return latency, capacity


def load_s(segments: Sequence[Segment]) -> float:
    """Engine seconds of load, at most."""
    return sum(
        segment.warmup_s
        + segment.window_s
        + (segment.drain_s if isinstance(segment, OpenLoopSegment) else 0.0)
        for segment in segments
    )


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
        salt=_salt(request, purpose),
        time_scale=time_scale(request.engine),
        stall_s=request.deadlines.stall_s,
    )


def summarise(
    request: AttemptRequest,
    workload: Workload,
    facts: EngineFacts,
    loaded: Loaded,
    limits: InstrumentLimits = LIMITS,
) -> Measurement:
    """Records and metrics of both segments as one measurement."""
    result = loaded.result
    first, second = result.segments
    windows = engine_windows(result, loaded.series)
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
            truth=_truth_check(request, first, loaded.truth),
            limits=limits,
        ),
        engine=facts,
        workload_digest=workload.digest,
        workload_seed=request.workload_seed,
        simulated=request.engine.kind == "simulated",
        time_scale=result.time_scale,
        notes=steadiness_notes(capacity),
    )


def _salt(request: AttemptRequest, purpose: str) -> int:
    return derived_seed(request.salt, purpose)


def _truth_check(
    request: AttemptRequest, latency: SegmentResult, truth: EngineTruth | None
) -> TruthCheck | None:
    return None if truth is None else truth_check(latency, _salt(request, MEASUREMENT), truth)


def steadiness_notes(segment: CapacitySegment) -> tuple[str, ...]:
    """What is to be said of a throughput that was not steady all the time."""
    steady, notes = segment.steady, []
    if steady is not None and steady.truncated_s > 0:
        left_out = f"the first {steady.truncated_s:.1f} of {segment.window_s:g} s"
        notes.append(f"throughput leaves out {left_out}: the engine had not settled")
    if steady is not None and not steady.steady and steady.drift is not None:
        notes.append(f"throughput is not steady: it drifted by {steady.drift:+.0%} in the window")
    return tuple(notes)


def _require_whole(result: LoadResult, plan: LoadPlan, purpose: str) -> None:
    if result.engine_lost or len(result.segments) < len(plan.segments):
        raise LoadGeneratorError(f"the engine was lost during the {purpose}")
    for segment in result.segments:
        if hung(segment.records, plan.stall_s):
            raise EngineHungError(
                f"the engine hung during the {purpose}: no token for {plan.stall_s:g} s "
                f"({_failures(segment.records)})",
                hint="deadlines.stall_s in the study document says how long silence is allowed",
            )
        if segment.report.given_up is not None:
            raise LoadGeneratorError(f"the {purpose} was given up: {segment.report.given_up}")


def _failures(records: Records) -> str:
    return ", ".join(f"{count} {name}" for name, count in records.failure_counts().items())
