"""Load on a running engine: the study's segments, sent by the generator, summed up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from objectives.measurement import EngineFacts, MaxRate, Measurement
from tuner.domain.clock import Clock
from tuner.engine.http_probe import Probe
from tuner.engine.launcher import RunningEngine
from tuner.errors import EngineHungError, LoadGeneratorError
from tuner.loadgen.instrument import LIMITS, InstrumentLimits
from tuner.loadgen.instrument_capacity import InstrumentCapacity
from tuner.loadgen.load_process import run_load
from tuner.loadgen.load_result import LoadProgress, LoadResult, load_segments
from tuner.loadgen.plan import ClosedLoopSegment, LoadPlan, Segment
from tuner.loadgen.records import Records
from tuner.loadgen.silence import hung
from tuner.loadgen.workload import Workload, given_rate_per_s, users_of
from tuner.study.abort_watch import abort_watch, require_engine_in_time
from tuner.study.attempt import LoadHooks
from tuner.study.cache_reset import reset_prefix_cache
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
    users_load,
)
from tuner.study.calibration_load import (
    Staircase,
    ladder,
    measurement_load_s,
    rates_to_try,
    read_rung,
    read_steps,
    staircase,
)
from tuner.study.early_abort import CutShortError
from tuner.study.engine_launch import time_scale
from tuner.study.engine_truth import read_truth
from tuner.study.executor import AttemptRequest
from tuner.study.load_progress import MEASUREMENT, SERIES_FILE, ProgressSink, progress_sink
from tuner.study.load_segments import (
    BURST,
    burst_segment,
    load_plan,
    load_s,
    measurement_segments,
    salt_of,
    workload_of,
)
from tuner.study.loaded import Loaded
from tuner.study.measurement_summary import summarise
from tuner.study.rate_finder import EngineAccount, Probing, find_max_rate, rate_search
from tuner.study.seeds import derived_seed
from tuner.telemetry.gpu import Gpus, GpuSampler
from tuner.telemetry.scraper import MetricsScraper
from tuner.telemetry.series import Scrape

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

TRUTH_TIMEOUT_S = 10.0

MEASUREMENT_LOADS = 2.5
"""Of an attempt's deadline the search for the highest rate leaves that many measurements' load,
calibration included ..."""

SEARCH_SHARE = 0.5
"""... and takes at most this share of the rest. Starting up takes some of it too."""

GpusOf = Callable[[AttemptRequest], Gpus | None]


def no_gpus(request: AttemptRequest) -> Gpus | None:
    """Nobody can tell how busy the GPUs are."""
    return None


class _Climbed(Exception):
    """The ladder has been climbed far enough."""


class LoadSession:
    """The real `tuner.study.attempt.LoadStation`: generator and scraper as they are."""

    def __init__(
        self,
        clock: Clock,
        limits: InstrumentLimits = LIMITS,
        gpus_of: GpusOf = no_gpus,
        capacity: InstrumentCapacity | None = None,
    ) -> None:
        """`capacity` is what a selftest found of this host's load generator, if there was one."""
        self._clock = clock
        self._capacity = capacity
        self._limits = limits
        self._gpus_of = gpus_of

    def apply(
        self,
        plan: LoadPlan,
        engine: RunningEngine,
        directory: Path,
        hooks: LoadHooks,
        on_progress: ProgressSink,
        processes: int = 1,
    ) -> Loaded:
        """Run a plan on the engine; the only place which takes time, so tests may replace it."""
        period_s = max(SHORTEST_SCRAPE_S, SCRAPE_PERIOD_S / plan.time_scale)
        key = engine.request.env.get("VLLM_API_KEY")
        proxy = plan.proxy
        cache_reset = reset_prefix_cache(Probe(engine.base_url, api_key=key, proxy=proxy))
        metrics_url = f"{engine.base_url}/metrics"
        with MetricsScraper(metrics_url, period_s, self._clock, proxy) as scraper:
            try:
                result = run_load(
                    plan,
                    directory,
                    cancellation=hooks.cancellation,
                    on_progress=lambda progress: on_progress(progress, scraper.latest()),
                    engine_alive=hooks.engine_alive,
                    processes=processes,
                )
            except CutShortError as cut:
                now_s = self._clock.monotonic()
                require_engine_in_time(cut, scraper.series(), now_s, plan.time_scale)
                raise
        truth = None
        if plan.names_requests and not result.engine_lost:
            truth = read_truth(Probe(engine.base_url, timeout_s=TRUTH_TIMEOUT_S))
        return Loaded(result, scraper.series(), truth, cache_reset)

    def calibrate(
        self, request: AttemptRequest, engine: RunningEngine, facts: EngineFacts, hooks: LoadHooks
    ) -> LoadCalibration:
        """Saturate the engine, then load it at rising rates; a rate that is given is judged.

        Users in a closed loop have no rate: how full the engine gets is all that is looked for.
        """
        workload, spec = workload_of(request), request.workload
        concurrency = saturating_concurrency(
            request.most_sequences, facts.kv_cache_tokens, workload.mean_tokens
        )
        seed = derived_seed(request.workload_seed, CALIBRATION)
        given = given_rate_per_s(spec, workload)
        users = users_of(spec)
        judging = given is not None or users is not None
        segments = ladder(workload, spec, concurrency, seed, judging=judging)
        rungs = self._climb(request, engine, workload, segments, hooks)
        capacity = capacity_per_s(rungs)
        if capacity is None:
            raise LoadGeneratorError("the engine answered nothing while its load was calibrated")
        if users is not None:
            return users_load(
                users, concurrency, rungs, spec.warmup_s, load_s(segments[: len(rungs)])
            )
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
        expected = expected_tokens_per_s(workload, calibration, time_scale(request.engine))
        loaded = self._run(request, engine, MEASUREMENT, segments, hooks, watch, expected)
        measurement = summarise(request, workload, facts, loaded, self._limits, self._capacity)
        if not request.find_max_rate or not measurement.instrument.valid:
            return measurement
        found = self._max_rate(request, engine, workload, calibration, hooks)
        return replace(measurement, max_rate=found)

    def _max_rate(
        self,
        request: AttemptRequest,
        engine: RunningEngine,
        workload: Workload,
        calibration: LoadCalibration,
        hooks: LoadHooks,
    ) -> MaxRate | None:
        """The highest rate that meets the SLO on this engine; None without an SLO."""
        if request.slo is None:
            return None
        spared_s = MEASUREMENT_LOADS * measurement_load_s(request.workload)
        engine_s = SEARCH_SHARE * (request.deadlines.attempt_s - spared_s)
        account = None
        if time_scale(request.engine) > 1.0:
            account = EngineAccount(
                lambda: read_truth(Probe(engine.base_url, timeout_s=TRUTH_TIMEOUT_S)),
                lambda purpose: salt_of(request, purpose),
            )
        probing = Probing(
            workload,
            request.workload,
            request.slo,
            self._limits,
            lambda purpose, segment, watch: self._run(
                request, engine, purpose, (segment,), hooks, watch
            ),
            account,
        )
        to_beat = request.rate_to_beat_per_s
        search = rate_search(calibration, to_beat, engine_s, confirm=request.confirm_max_rate)
        return find_max_rate(search, probing, request.workload_seed)

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
        expected_tokens_per_s: float | None = None,
    ) -> Loaded:
        """Run segments; `watch` hears of their progress too, and may raise to end them."""
        processes = self._processes(request, expected_tokens_per_s)
        directory = request.directory / purpose
        directory.mkdir(parents=True, exist_ok=True)
        plan = load_plan(request, engine, purpose, segments)
        tell = progress_sink(purpose, SEGMENTS.get(purpose, (purpose,)), hooks)

        def on_progress(progress: LoadProgress, scrape: Scrape | None = None) -> None:
            tell(progress, scrape)
            watch(progress)

        with GpuSampler(self._gpus_of(request), self._clock) as sampler:
            loaded = self.apply(plan, engine, directory, hooks, on_progress, processes)
        loaded = replace(loaded, series=loaded.series.merged(sampler.series()))
        loaded.series.save(directory / SERIES_FILE)
        _require_whole(loaded.result, plan, purpose)
        return loaded

    def _processes(self, request: AttemptRequest, tokens_per_s: float | None) -> int:
        """As the document says, or as this host's selftest does of such a load."""
        asked, capacity = request.workload.load_processes, self._capacity
        if asked is not None:
            return asked
        return 1 if capacity is None else capacity.processes_for(tokens_per_s)


def expected_tokens_per_s(
    workload: Workload, calibration: LoadCalibration, time_scale: float
) -> float | None:
    """Output tokens a second of wall time of the baseline in saturation; None while not known."""
    if calibration.capacity_per_s is None:
        return None
    return calibration.capacity_per_s * float(workload.output_tokens.mean()) * time_scale


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
