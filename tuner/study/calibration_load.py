"""The load that calibrates: its segments, and what their records show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tuner.domain.study_spec import RateArrivalSpec, WorkloadSpec
from tuner.loadgen.load_result import LoadResult, SegmentResult
from tuner.loadgen.plan import ClosedLoopSegment, OpenLoopSegment, PlannedRequest
from tuner.loadgen.records import FloatArray, Records
from tuner.loadgen.request_metrics import tokens_within
from tuner.loadgen.schedule import (
    closed_loop_segment,
    open_loop_segment,
    rate_arrival,
    rescoped,
)
from tuner.loadgen.statistics import quantile
from tuner.loadgen.workload import Workload
from tuner.study.calibration import RateStep, Rung, concurrency_ladder
from tuner.study.seeds import derived_seed
from tuner.telemetry.series import MetricSeries
from tuner.telemetry.window import engine_window

LADDER_SHARE, STAIRCASE_SHARE = 0.75, 0.6
"""Engine seconds that finding a rate may take, over the load of one measurement."""

JUDGED_LADDER_SHARE, JUDGED_STAIRCASE_SHARE = 0.4, 0.4
"""The same for judging a rate that the user gave."""

MOST_RUNGS, JUDGED_RUNGS = 4, 3
RUNG_BINS = 24

DECODED_SHARE = 0.25
"""Of the output of the requests begun: with less, a probe has seen hardly anything but prompts."""

STEP_SHARES = {
    2: (0.5, 0.8),
    3: (0.5, 0.8, 1.05),
    4: (0.5, 0.75, 0.9, 1.05),
    5: (0.4, 0.6, 0.75, 0.9, 1.05),
}
"""Of the capacity, ascending: the rates between which the knee is looked for, by their number."""

DRAIN_SHARE = 0.25
"""Of a step: after the last one."""

SETTLING_SHARE = 1 / 3
"""Of a step: not measured. The load carries over from the step before."""

TTFT_QUANTILE = 0.75
"""Of a step's few requests a higher percentile would be chance, a lower one blind to bursts."""

FEWEST_REQUESTS = 8
WANTED_REQUESTS = 12
"""On a step; an engine so slow that there would be fewer gets fewer steps."""

EVEN_SHARE = 0.4
"""Of the ladder's time: spread evenly over its rungs, the rest by the requests in flight, whose
prompts all come first."""


@dataclass(frozen=True, slots=True)
class Staircase:
    """An open loop whose rate rises in steps of `step_s`; the load carries over."""

    segment: OpenLoopSegment
    rates_per_s: tuple[float, ...]
    step_s: float


def measurement_load_s(spec: WorkloadSpec) -> float:
    """Engine seconds of load of one measurement, its drain apart."""
    return 2 * spec.warmup_s + spec.latency_window_s + spec.capacity_window_s


def ladder(
    workload: Workload, spec: WorkloadSpec, highest: int, seed: int, *, judging: bool
) -> tuple[ClosedLoopSegment, ...]:
    """Closed loops, each of twice the requests in flight of the one before.

    They are read from their beginning, so warm-up and window are only formal.
    """
    share, most = (JUDGED_LADDER_SHARE, JUDGED_RUNGS) if judging else (LADDER_SHARE, MOST_RUNGS)
    rungs = concurrency_ladder(highest, most)
    total_s = share * measurement_load_s(spec)
    segments = []
    for rung in rungs:
        rung_s = total_s * (EVEN_SHARE / len(rungs) + (1 - EVEN_SHARE) * rung / sum(rungs))
        rung_seed = derived_seed(seed, "rung", rung)
        segments.append(closed_loop_segment(workload, rung, rung_s / 2, rung_s / 2, rung_seed))
    return tuple(segments)


def read_rung(result: SegmentResult, workload: Workload) -> Rung:
    """What a closed loop showed."""
    segment, records = result.segment, result.records
    if not isinstance(segment, ClosedLoopSegment):
        raise TypeError("capacity is probed in a closed loop")
    end_s = segment.window_end_s
    prompts, outputs = _work(records, end_s)
    prompt_mean = float(workload.prompt_tokens.mean())
    output_mean = float(workload.output_tokens.mean())
    began = float(prompts.sum()) / prompt_mean
    decoded = float(outputs.sum()) >= DECODED_SHARE * began * output_mean
    return Rung(
        concurrency=segment.concurrency,
        requests_per_s=_balanced_rate(prompts, outputs, end_s, prompt_mean, output_mean),
        ttft_ms=_median_wait_ms(records, end_s),
        settled=decoded and float(outputs.sum()) > 0,
    )


def _work(records: Records, end_s: float) -> tuple[FloatArray, FloatArray]:
    """Prompt and output tokens in each of the probe's bins; a prompt counts at its first token."""
    answered = records.first_s < end_s
    prompts, _ = np.histogram(
        records.first_s[answered],
        bins=RUNG_BINS,
        range=(0.0, end_s),
        weights=records.prompt_tokens[answered].astype(np.float64),
    )
    return prompts, tokens_within(records, 0.0, end_s, RUNG_BINS)


def _balanced_rate(
    prompts: FloatArray, outputs: FloatArray, end_s: float, prompt_mean: float, output_mean: float
) -> float:
    """Requests per second if prompts and outputs came in the workload's proportion.

    A closed loop begins with prompts only and then has too few of them until its first generation
    has turned over, which takes longer than a probe. Time is therefore split into a cost per prompt
    token and one per output token (non-negative least squares on the running totals, in which it
    does not matter that a prompt's work came before its first token).
    """
    # scipy.optimize is slow to import, and only those who calibrate need it.
    from scipy.optimize import nnls

    totals = np.column_stack((np.cumsum(prompts), np.cumsum(outputs)))
    times_s = end_s / RUNG_BINS * np.arange(1, RUNG_BINS + 1)
    costs_s, _ = nnls(totals, times_s)
    request_s = float(costs_s[0]) * prompt_mean + float(costs_s[1]) * output_mean
    return 1 / request_s if request_s > 0 else 0.0


def _median_wait_ms(records: Records, end_s: float) -> float | None:
    sent = records.sent_s < end_s
    first_s = np.where(np.isnan(records.first_s), end_s, records.first_s)
    waits_s = (first_s - records.sent_s)[sent]
    return quantile(waits_s, 0.5) * 1000 if waits_s.size else None


def rates_to_try(
    capacity: float, spec: WorkloadSpec, given_per_s: float | None
) -> tuple[float, ...]:
    """Low load and the user's rate; else as many rates around the knee as there are requests for.

    Empty where not even two rates would see enough requests.
    """
    load_s = measurement_load_s(spec) * (1 - SETTLING_SHARE)
    if given_per_s is not None:
        low = 0.5 * min(given_per_s, capacity)
        enough = low * JUDGED_STAIRCASE_SHARE * load_s / 2 >= FEWEST_REQUESTS
        return (low, given_per_s) if enough else ()
    requests = STAIRCASE_SHARE * load_s * sum(STEP_SHARES[2]) / 2 * capacity
    count = min(max(STEP_SHARES), int(requests / WANTED_REQUESTS))
    return tuple(share * capacity for share in STEP_SHARES.get(count, ()))


def staircase(
    workload: Workload,
    spec: WorkloadSpec,
    rates_per_s: Sequence[float],
    seed: int,
    *,
    judging: bool,
) -> Staircase:
    """Requests at rising rates, of the same arrival pattern on every step, none of them twice."""
    share = JUDGED_STAIRCASE_SHARE if judging else STAIRCASE_SHARE
    step_s = share * measurement_load_s(spec) / (len(rates_per_s) + DRAIN_SHARE)
    arrival = rate_arrival(spec.arrival)
    requests: list[PlannedRequest] = []
    for number, rate_per_s in enumerate(rates_per_s):
        before = len(requests)
        for request in _step(workload, arrival, rate_per_s, step_s, seed):
            index = len(requests)
            moved = replace(
                rescoped(request, number),
                index=index,
                after=None if request.after is None else before + request.after,
                prompt_seed=derived_seed(seed, "step", index),
                due_s=(request.due_s or 0.0) + number * step_s,
            )
            requests.append(moved)
    window_s = len(rates_per_s) * step_s
    segment = OpenLoopSegment(tuple(requests), 0.0, window_s, DRAIN_SHARE * step_s)
    return Staircase(segment, tuple(rates_per_s), step_s)


def _step(
    workload: Workload, arrival: RateArrivalSpec, rate_per_s: float, step_s: float, seed: int
) -> Sequence[PlannedRequest]:
    planned = open_loop_segment(workload, arrival, rate_per_s, 0.0, step_s, 0.0, seed).requests
    return [request for request in planned if (request.due_s or 0.0) < step_s]


def read_steps(stairs: Staircase, result: LoadResult, series: MetricSeries) -> tuple[RateStep, ...]:
    """What each step showed, its settling apart."""
    (measured,) = result.segments
    records, segment = measured.records, stairs.segment
    end_s = segment.window_end_s + segment.drain_s
    first_s = np.where(np.isnan(records.first_s), end_s, records.first_s)
    waits_s: FloatArray = first_s - records.due_s
    steps = []
    for number, rate_per_s in enumerate(stairs.rates_per_s):
        to_s = (number + 1) * stairs.step_s
        from_s = to_s - (1 - SETTLING_SHARE) * stairs.step_s
        chosen = (records.due_s >= from_s) & (records.due_s < to_s)
        count = int(np.count_nonzero(chosen))
        enough = count >= FEWEST_REQUESTS
        ttft_ms = quantile(waits_s[chosen], TTFT_QUANTILE) * 1000 if enough else None
        begin_s = measured.window.start_monotonic_s
        window = engine_window(
            series, begin_s + from_s / result.time_scale, begin_s + to_s / result.time_scale
        )
        steps.append(RateStep(rate_per_s, count, ttft_ms, window.running_peak))
    return tuple(steps)
