"""What is sent to a running engine: the segments of each purpose, and their plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tuner.engine.launcher import RunningEngine
from tuner.engine.places import proxy_of
from tuner.loadgen.plan import (
    LoadPlan,
    OpenLoopSegment,
    PlannedRequest,
    Segment,
)
from tuner.loadgen.schedule import closed_loop_segment, latency_segment_of
from tuner.loadgen.workload import Workload, build_workload
from tuner.study.budget import DRAIN_S
from tuner.study.calibration import LoadCalibration
from tuner.study.confirmation import BURST_OUTPUT_TOKENS, BURST_WINDOW_S, burst_size
from tuner.study.engine_launch import time_scale
from tuner.study.executor import AttemptRequest
from tuner.study.seeds import derived_seed
from tuner.study.window_rule import part_of

BURST = "burst"
BURST_INSTANT_S = 1.0


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
    latency = latency_segment_of(
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
    rule = part_of(request.adaptive, saturated=False)
    watched = rule is not None or request.rate_bar is not None
    if watched and isinstance(latency, OpenLoopSegment):
        latency = replace(latency, adaptive=rule, slo=request.slo)
    return latency, replace(capacity, adaptive=part_of(request.adaptive, saturated=True))


def load_s(segments: Sequence[Segment]) -> float:
    """Engine seconds of load, at most."""
    return sum(segment.window_end_s + segment.drain_s for segment in segments)


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
        salt=salt_of(request, purpose),
        time_scale=time_scale(request.engine),
        stall_s=request.deadlines.stall_s,
        proxy=proxy_of(engine.request.place),
    )


def salt_of(request: AttemptRequest, purpose: str) -> int:
    """What keeps the prompts of this run apart from those of every other."""
    return derived_seed(request.salt, purpose)
