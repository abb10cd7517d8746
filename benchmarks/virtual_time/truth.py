"""What is true of a hidden machine: gains averaged over many loads that no study has seen."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from benchmarks.virtual_time.metric_series import preemptions_in_window
from benchmarks.virtual_time.segment_run import SegmentRun, run_segment
from benchmarks.virtual_time.virtual_engine import StartNoise, VirtualEngine
from objectives.measurement import (
    CapacitySegment,
    Distribution,
    EngineFacts,
    Estimate,
    Instrument,
    LatencySegment,
    Measurement,
    RequestCounts,
)
from objectives.score import Objective
from tuner.domain.engine_config import EngineConfig
from tuner.domain.study_spec import StudySpec
from tuner.loadgen.plan import ClosedLoopSegment, Segment
from tuner.loadgen.records import FloatArray
from tuner.loadgen.request_metrics import tokens_within, tpot_ms, ttft_from_due_ms
from tuner.loadgen.statistics import QUANTILES, quantile
from tuner.study.calibration import LoadCalibration
from tuner.study.engine_launch import launch_request
from tuner.study.executor import AttemptRequest
from tuner.study.load_segments import measurement_segments, workload_of
from tuner.study.load_session import SCRAPE_PERIOD_S
from tuner.study.scoring import objective_of, paired_difference
from tuner.study.seeds import derived_seed
from tuner.study.target import Target, target_of


@dataclass(frozen=True, slots=True)
class TrueGain:
    """Mean paired score difference against the baseline (log of the improvement).

    `standard_error` is that of the mean over `loads`; `failures` are loads under which the
    candidate died or did not start.
    """

    mean: float
    standard_error: float
    loads: int
    failures: int = 0

    @property
    def percent(self) -> float:
        return 100 * math.expm1(self.mean)


class HiddenMachine:
    """One study's machine and load, free of charge and without the study's ignorance."""

    def __init__(
        self, spec: StudySpec, calibration: LoadCalibration, noise: StartNoise, *, base_dir: Path
    ) -> None:
        self.spec = spec
        self.calibration = calibration
        self.target: Target = target_of(spec, base_dir)
        self.objective: Objective = objective_of(spec.objective)
        self._noise = noise
        self._base_dir = base_dir
        self.segments = lru_cache(maxsize=64)(self._segments)

    def measure(self, config: EngineConfig, seed: int, *, start: str = "") -> Measurement | None:
        """One fresh start under the load of `seed`; None where it fails. No `start`, no noise."""
        runs = self.runs(config, seed, start=start)
        return None if runs is None else bare_measurement(runs, seed)

    def runs(
        self, config: EngineConfig, seed: int, *, start: str = ""
    ) -> tuple[SegmentRun, ...] | None:
        """The segments of one fresh start; None where it fails."""
        speed = self._noise.speed(start) if start else 1.0
        engine = VirtualEngine(launch_request(self.request(config, seed), 8000), speed)
        if engine.launch is None:
            return None
        runs = []
        for segment in self.segments(seed):
            run = run_segment(engine.launch, segment)
            if run.died or run.stalled:
                return None
            runs.append(run)
        return tuple(runs)

    def differences(
        self, configs: Sequence[EngineConfig], reference: EngineConfig, seeds: Iterable[int]
    ) -> tuple[tuple[float | None, ...], ...]:
        """Per configuration the paired score differences, one per load.

        None where the engine failed, NaN where one side could not be scored (a window in which
        nothing was due). Every arm runs on a start of its own, as in a round of confirmation.
        Raises ValueError where the reference itself does not run.
        """
        rows: list[list[float | None]] = [[] for _ in configs]
        for seed in seeds:
            other = self.measure(reference, seed, start=f"{seed}-reference")
            if other is None:
                raise ValueError("the reference does not run on its own machine")
            for arm, config in enumerate(configs):
                own = self.measure(config, seed, start=f"{seed}-{arm}")
                rows[arm].append(None if own is None else _or_nan(self.difference(own, other)))
        return tuple(tuple(row) for row in rows)

    def difference(self, own: Measurement, other: Measurement) -> float | None:
        """How much better one scores than the other; both under the same load."""
        return paired_difference(self.objective, own, other)

    def _segments(self, seed: int) -> tuple[Segment, ...]:
        request = self.request(EngineConfig(), seed)
        return measurement_segments(request, workload_of(request), self.calibration)

    def request(self, config: EngineConfig, seed: int) -> AttemptRequest:
        """What a study would ask of an executor."""
        sequences = self.target.effective(config).max_num_seqs or 1
        return AttemptRequest(
            command=self.target.command(config),
            engine=self.spec.engine,
            gpu_count=self.target.gpu_count,
            workload=self.spec.workload,
            base_dir=self._base_dir,
            workload_seed=seed,
            max_model_len=self.target.max_model_len,
            vocabulary_size=self.target.vocabulary_size,
            most_sequences=max(sequences, self.spec.search_space.max_num_seqs.high),
            max_num_seqs=sequences,
            calibration=self.calibration,
            slo=None,
            deadlines=self.spec.deadlines,
            directory=self._base_dir,
            salt=0,
        )


def truth_seeds(spec: StudySpec, purpose: str, count: int) -> tuple[int, ...]:
    """Workload seeds that no study uses."""
    return tuple(derived_seed(spec.workload.seed, "truth", purpose, i) for i in range(count))


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value


def true_gain(differences: Sequence[float | None]) -> TrueGain | None:
    """The mean of what could be scored; None where nothing could."""
    ran = np.array([value for value in differences if value is not None])
    values = ran[~np.isnan(ran)]
    if values.size == 0:
        return None
    spread = float(values.std(ddof=1)) if values.size > 1 else 0.0
    error = spread / math.sqrt(values.size)
    return TrueGain(float(values.mean()), error, int(values.size), len(differences) - ran.size)


def bare_measurement(runs: Sequence[SegmentRun], seed: int) -> Measurement:
    """The values of `tuner.loadgen.summary` that objectives score, without their intervals.

    Tens of thousands of them are needed; the bootstrap would take nearly all of the time.
    """
    latency, capacity = runs
    return Measurement(
        latency=_latency(latency),
        capacity=_capacity(capacity),
        instrument=Instrument(True, (), None, None, None, None, "virtual"),
        engine=EngineFacts(simulated=True),
        workload_digest="",
        workload_seed=seed,
        simulated=True,
    )


def _latency(run: SegmentRun) -> LatencySegment:
    segment, records = run.segment, run.records
    if isinstance(segment, ClosedLoopSegment):
        raise TypeError("latency is not measured in saturation")
    end_s = segment.window_end_s
    measured = (records.due_s >= segment.warmup_s) & (records.due_s < end_s)
    cap_ms = (segment.drain_s or segment.window_s) * 1000
    tpot = tpot_ms(records)
    count = int(np.count_nonzero(measured))
    return LatencySegment(
        window_s=segment.window_s,
        offered_per_s=count / segment.window_s,
        achieved_per_s=count / segment.window_s,
        requests=RequestCounts(count, count, 0, 0),
        ttft_ms=_bare(np.fmin(ttft_from_due_ms(records)[measured], cap_ms)),
        tpot_ms=_bare(tpot[measured & ~np.isnan(tpot)]),
        itl_ms=None,
        e2e_ms=None,
        output_tokens_per_s=None,
        slo_attainment=None,
        goodput_per_s=None,
        preemptions=preemptions_in_window(run, SCRAPE_PERIOD_S),
        kv_usage_peak=None,
        running_peak=None,
        waiting_peak=None,
    )


def _capacity(run: SegmentRun) -> CapacitySegment:
    segment, records = run.segment, run.records
    start_s, end_s = segment.warmup_s, segment.window_end_s
    tokens = float(tokens_within(records, start_s, end_s, 1)[0])
    ended = (records.ended_s >= start_s) & (records.ended_s < end_s)
    completed = int(np.count_nonzero(records.completed & ended))
    return CapacitySegment(
        window_s=segment.window_s,
        concurrency=0,
        requests=RequestCounts(completed, completed, 0, 0),
        output_tokens_per_s=Estimate(tokens / segment.window_s, round(tokens)),
        requests_per_s=Estimate(completed / segment.window_s, completed),
        preemptions=preemptions_in_window(run, SCRAPE_PERIOD_S),
        kv_usage_peak=None,
        running_peak=None,
        waiting_peak=None,
    )


def _bare(values: FloatArray) -> Distribution | None:
    if values.size == 0:
        return None
    n = values.size
    p50, p90, p95, p99 = (Estimate(quantile(values, share), n) for share in QUANTILES.values())
    mean, largest = Estimate(float(values.mean()), n), Estimate(float(values.max()), n)
    return Distribution(mean, p50, p90, p95, p99, largest)
