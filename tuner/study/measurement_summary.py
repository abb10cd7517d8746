"""A measurement from the records and metrics of its load."""

from __future__ import annotations

from objectives.measurement import CapacitySegment, EngineFacts, LatencySegment, Measurement
from tuner.loadgen.engine_truth import EngineTruth, TruthCheck, truth_check
from tuner.loadgen.instrument import LIMITS, InstrumentLimits
from tuner.loadgen.instrument_capacity import InstrumentCapacity, judge_load
from tuner.loadgen.load_result import SegmentResult
from tuner.loadgen.prompt_classes import prompt_edges
from tuner.loadgen.summary import capacity_segment, instrument, latency_segment
from tuner.loadgen.workload import Workload
from tuner.study.engine_windows import engine_windows
from tuner.study.executor import AttemptRequest
from tuner.study.load_progress import MEASUREMENT
from tuner.study.load_segments import salt_of
from tuner.study.loaded import Loaded


def summarise(
    request: AttemptRequest,
    workload: Workload,
    facts: EngineFacts,
    loaded: Loaded,
    limits: InstrumentLimits = LIMITS,
    instrument_capacity: InstrumentCapacity | None = None,
) -> Measurement:
    """Records and metrics of both segments as one measurement."""
    result = loaded.result
    verdict = judge_load(instrument_capacity, result.segments, result.time_scale)
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
            cache_reset=loaded.cache_reset,
            limits=limits,
            beyond=verdict.reasons,
        ),
        engine=facts,
        workload_digest=workload.digest,
        workload_seed=request.workload_seed,
        simulated=request.engine.kind == "simulated",
        time_scale=result.time_scale,
        notes=(
            *closed_loop_notes(latency),
            *queue_notes(latency),
            *closing_notes("latency", latency),
            *closing_notes("capacity", capacity),
            *steadiness_notes(capacity),
            *verdict.notes,
        ),
    )


def _truth_check(
    request: AttemptRequest, latency: SegmentResult, truth: EngineTruth | None
) -> TruthCheck | None:
    return None if truth is None else truth_check(latency, salt_of(request, MEASUREMENT), truth)


def closed_loop_notes(segment: LatencySegment) -> tuple[str, ...]:
    """What latencies of users who wait for their answers do not show."""
    if segment.concurrency is None:
        return ()
    return (
        f"closed loop of {segment.concurrency} users, who came to send "
        f"{segment.offered_per_s:.3g} requests/s: while the engine is slow it is asked less often, "
        "so its worst moments weigh less than in an open loop (coordinated omission)",
    )


def queue_notes(segment: LatencySegment) -> tuple[str, ...]:
    """What is to be said of an open loop whose queue was not steady all the time."""
    steady, notes = segment.steady, []
    if steady is not None and steady.unsettled_s > 0:
        notes.append(
            f"the first {steady.unsettled_s:.1f} of {segment.window_s:g} s of latencies were not "
            f"settled after a warm-up of {steady.warmup_s:g} s, and count: workload.warmup_s"
        )
    if steady is not None and not steady.steady and steady.drift is not None:
        notes.append(f"requests in flight changed by {steady.drift:+.0%} within the latency window")
    return tuple(notes)


def closing_notes(name: str, segment: LatencySegment | CapacitySegment) -> tuple[str, ...]:
    """What is to be said of a window that closed before its time."""
    if segment.planned_window_s is None:
        return ()
    length = f"after {segment.window_s:.1f} of {segment.planned_window_s:g} s"
    return (f"{name} window closed early, {length}: intervals narrow enough",)


def steadiness_notes(segment: CapacitySegment) -> tuple[str, ...]:
    """What is to be said of a throughput that was not steady all the time."""
    steady, notes = segment.steady, []
    if steady is not None and steady.truncated_s > 0:
        left_out = f"the first {steady.truncated_s:.1f} of {segment.window_s:g} s"
        notes.append(f"throughput leaves out {left_out}: the engine had not settled")
    if steady is not None and not steady.steady and steady.drift is not None:
        notes.append(f"throughput is not steady: it drifted by {steady.drift:+.0%} in the window")
    return tuple(notes)
