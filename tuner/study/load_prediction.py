"""A study's two load segments on the engine model: a measurement that was never made."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

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
from objectives.slo import Slo
from tuner.domain.engine_config import EngineConfig
from tuner.domain.study_spec import WorkloadSpec
from tuner.loadgen.plan import PlannedRequest, UserLoopSegment
from tuner.loadgen.prompt_blocks import cache_blocks
from tuner.loadgen.schedule import closed_loop_segment, latency_segment_of
from tuner.loadgen.workload import Workload
from tuner.simulator.engine_model import simulate
from tuner.simulator.gpus import Gpu
from tuner.simulator.models import ModelGeometry
from tuner.simulator.requests import EngineRequest
from tuner.simulator.simulated_run import Floats, SimulatedRun
from tuner.study.budget import DRAIN_S

WATCHED_S = 10.0
"""Engine seconds the open loop is followed beyond its window; who waits longer waits too long."""

CLOCK = "engine model"

CACHE_BLOCK_TOKENS = 16
"""vLLM's default on GPUs."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What serves, as far as it is known; always the nominal hardware."""

    gpu: Gpu
    count: int
    geometry: ModelGeometry
    max_model_len: int


@dataclass(frozen=True, slots=True, eq=False)
class ModelledLoad:
    """The requests of both segments of a measurement, as the engine model takes them.

    `rate_per_s` is None for users in a closed loop. The model has each of them think for the mean
    time, always: near enough for a forecast.
    """

    at_rate: tuple[EngineRequest, ...]
    saturating: tuple[EngineRequest, ...]
    rate_per_s: float | None
    concurrency: int
    spec: WorkloadSpec
    slo: Slo | None
    users: int | None = None
    think_s: float = 0.0

    @classmethod
    def of(
        cls,
        workload: Workload,
        spec: WorkloadSpec,
        rate_per_s: float | None,
        concurrency: int,
        *,
        slo: Slo | None = None,
    ) -> ModelledLoad:
        """The very requests that the load generator would send."""
        latency = latency_segment_of(
            workload,
            spec.arrival,
            rate_per_s,
            spec.warmup_s,
            spec.latency_window_s,
            WATCHED_S,
            spec.seed,
        )
        capacity = closed_loop_segment(
            workload, concurrency, spec.warmup_s, spec.capacity_window_s, spec.seed
        )
        return cls(
            _engine_requests(latency.requests),
            _engine_requests(capacity.requests),
            rate_per_s,
            concurrency,
            spec,
            slo,
            latency.concurrency if isinstance(latency, UserLoopSegment) else None,
            latency.think_s if isinstance(latency, UserLoopSegment) else 0.0,
        )


@dataclass(frozen=True, slots=True)
class PredictedLoad:
    """A prediction in the form that objectives score. `work` counts what it took to compute:
    sequences over all simulated steps."""

    measurement: Measurement
    work: int


def predict_load(
    load: ModelledLoad, config: EngineConfig, machine: Machine
) -> PredictedLoad | None:
    """Both segments under an effective configuration; None where the engine would not last."""
    until_s = load.spec.warmup_s + load.spec.latency_window_s + WATCHED_S
    at_rate = _run(
        load.at_rate,
        config,
        machine,
        until_s=until_s,
        concurrency=load.users,
        turnaround_s=load.think_s,
    )
    if not _lasted(at_rate):
        return None
    end_s = load.spec.warmup_s + load.spec.capacity_window_s
    saturated = _run(load.saturating, config, machine, until_s=end_s, concurrency=load.concurrency)
    if not _lasted(saturated):
        return None
    measurement = Measurement(
        latency=_latency(load, at_rate),
        capacity=_capacity(load, saturated),
        instrument=Instrument(True, (), None, None, None, None, CLOCK),
        engine=EngineFacts(simulated=True),
        workload_digest="",
        workload_seed=load.spec.seed,
        simulated=True,
    )
    work = int(at_rate.steps.sequences.sum()) + int(saturated.steps.sequences.sum())
    return PredictedLoad(measurement, work)


def _engine_requests(planned: tuple[PlannedRequest, ...]) -> tuple[EngineRequest, ...]:
    """What prompts share is found in the prefix cache; turns come as planned, whatever precedes."""
    return tuple(
        EngineRequest(
            r.index,
            r.due_s or 0.0,
            r.prompt_tokens,
            r.output_tokens,
            prefix_blocks=cache_blocks(r.blocks, CACHE_BLOCK_TOKENS),
        )
        for r in planned
    )


def _run(
    requests: tuple[EngineRequest, ...],
    config: EngineConfig,
    machine: Machine,
    *,
    until_s: float,
    concurrency: int | None = None,
    turnaround_s: float = 0.0,
) -> SimulatedRun:
    if concurrency is not None:
        # The list is made for the fastest engine there could be; few need more than its start.
        short = requests[: 2 * concurrency + 500]
        run = _simulated(short, config, machine, until_s, concurrency, turnaround_s)
        if len(short) == len(requests) or not bool((run.entered_s <= until_s).all()):
            return run
    return _simulated(requests, config, machine, until_s, concurrency, turnaround_s)


def _simulated(
    requests: tuple[EngineRequest, ...],
    config: EngineConfig,
    machine: Machine,
    until_s: float,
    concurrency: int | None,
    turnaround_s: float,
) -> SimulatedRun:
    return simulate(
        requests,
        config,
        machine.gpu,
        machine.count,
        machine.geometry,
        machine.max_model_len,
        concurrency=concurrency,
        until_s=until_s,
        turnaround_s=turnaround_s,
    )


def _lasted(run: SimulatedRun) -> bool:
    return run.memory.failure is None and not run.out_of_memory and not run.stalled


def _latency(load: ModelledLoad, run: SimulatedRun) -> LatencySegment:
    start_s = load.spec.warmup_s
    end_s = start_s + load.spec.latency_window_s
    due_s = _due_s(load, run)
    measured = (due_s >= start_s) & (due_s < end_s)
    count = int(np.count_nonzero(measured))
    # NaN, never answered while it was watched, becomes the cap as in a real measurement.
    ttft_ms = np.fmin((run.first_token_s - due_s)[measured], DRAIN_S) * 1000
    offered = count / load.spec.latency_window_s
    good = None if load.slo is None else _good_share(load.slo, run, due_s, measured)
    return LatencySegment(
        window_s=load.spec.latency_window_s,
        offered_per_s=offered,
        achieved_per_s=offered,
        requests=RequestCounts(count, int(run.finished[measured].sum()), 0, 0),
        ttft_ms=_distribution(ttft_ms),
        tpot_ms=_distribution(_tpot_ms(run)[measured]),
        itl_ms=_itl_ms(run, start_s, end_s),
        e2e_ms=None,
        output_tokens_per_s=None,
        slo_attainment=None if good is None else Estimate(good, count),
        goodput_per_s=None if good is None else Estimate(good * offered, count),
        preemptions=_preemptions(run, start_s, end_s),
        kv_usage_peak=run.kv_usage_peak,
        running_peak=_peak(run.steps.running),
        waiting_peak=_peak(run.steps.waiting),
        concurrency=load.users,
        think_s=None if load.users is None else load.think_s,
    )


def _due_s(load: ModelledLoad, run: SimulatedRun) -> Floats:
    """Of users the moments at which they sent; NaN for requests that were never sent."""
    if load.users is None:
        return np.array([r.arrival_s for r in load.at_rate])
    return run.entered_s


def _capacity(load: ModelledLoad, run: SimulatedRun) -> CapacitySegment:
    start_s = load.spec.warmup_s
    end_s = start_s + load.spec.capacity_window_s
    inside = _inside(run, start_s, end_s)
    tokens = int(run.steps.emitted[inside].sum())
    ended = int(np.count_nonzero(run.finished & _between(run.last_token_s, start_s, end_s)))
    sent = int(np.count_nonzero(_between(run.entered_s, start_s, end_s)))
    window_s = load.spec.capacity_window_s
    return CapacitySegment(
        window_s=window_s,
        concurrency=load.concurrency,
        requests=RequestCounts(sent, ended, 0, 0),
        output_tokens_per_s=Estimate(tokens / window_s, tokens),
        requests_per_s=Estimate(ended / window_s, ended),
        preemptions=_preemptions(run, start_s, end_s),
        kv_usage_peak=run.kv_usage_peak,
        running_peak=_peak(run.steps.running),
        waiting_peak=_peak(run.steps.waiting),
    )


def _tpot_ms(run: SimulatedRun) -> Floats:
    """As the load generator counts: over the tokens received, of interrupted requests too."""
    gaps = run.output_tokens - 1
    spread = (run.last_token_s - run.first_token_s) * 1000
    result: Floats = np.where(gaps > 0, spread / np.maximum(gaps, 1), np.nan)
    return result


def _good_share(
    slo: Slo, run: SimulatedRun, due_s: Floats, measured: npt.NDArray[np.bool_]
) -> float:
    good = run.finished.copy()
    limits = (
        (slo.ttft_ms, (run.first_token_s - due_s) * 1000),
        (slo.tpot_ms, np.nan_to_num(_tpot_ms(run))),
        (slo.e2e_ms, (run.last_token_s - run.entered_s) * 1000),
    )
    for limit, values in limits:
        if limit is not None:
            good &= values <= limit
    chosen = good[measured]
    return float(chosen.mean()) if chosen.size else 0.0


def _itl_ms(run: SimulatedRun, start_s: float, end_s: float) -> Distribution | None:
    """Steps weighted by the sequences that decoded in them."""
    inside = _inside(run, start_s, end_s)
    return _distribution(
        np.repeat(run.steps.duration_s[inside] * 1000, run.steps.decode_tokens[inside])
    )


def _distribution(values: Floats) -> Distribution | None:
    seen = values[~np.isnan(values)]
    if seen.size == 0:
        return None
    quantiles = np.quantile(seen, (0.5, 0.9, 0.95, 0.99)).tolist()
    p50, p90, p95, p99 = (Estimate(value, seen.size) for value in quantiles)
    mean, most = Estimate(float(seen.mean()), seen.size), Estimate(float(seen.max()), seen.size)
    return Distribution(mean, p50, p90, p95, p99, most)


def _preemptions(run: SimulatedRun, start_s: float, end_s: float) -> int:
    return int(run.steps.preempted[_inside(run, start_s, end_s)].sum())


def _inside(run: SimulatedRun, start_s: float, end_s: float) -> npt.NDArray[np.bool_]:
    return _between(run.steps.start_s + run.steps.duration_s, start_s, end_s)


def _between(times_s: Floats, start_s: float, end_s: float) -> npt.NDArray[np.bool_]:
    return (times_s >= start_s) & (times_s < end_s)


def _peak(column: npt.NDArray[np.int64]) -> float | None:
    return float(column.max()) if column.size else None
