"""Segments of a load plan from a workload. Equal arguments give equal requests in every trial."""

from __future__ import annotations

import math

import numpy as np

from tuner.domain.study_spec import ArrivalSpec
from tuner.loadgen.arrivals import arrival_process, shuffled_pool
from tuner.loadgen.lengths import IntArray
from tuner.loadgen.plan import ClosedLoopSegment, OpenLoopSegment, PlannedRequest
from tuner.loadgen.workload import Workload

CEILING_TOKENS_PER_S = 200_000
"""Prompt plus output tokens per second that no engine of one node exceeds."""

CEILING_REQUESTS_PER_S = 3_000
"""Requests per second that one load generator process could send at most."""

OPEN_LOOP, CLOSED_LOOP = 1, 2
PROMPT_SEED_LIMIT = 2**53
"""Prompt seeds stay exact in JSON."""


def open_loop_segment(
    workload: Workload,
    arrival: ArrivalSpec,
    rate_per_s: float,
    warmup_s: float,
    window_s: float,
    drain_s: float,
    seed: int,
) -> OpenLoopSegment:
    """Requests at `rate_per_s` through warm-up, window and drain.

    Arrivals go on during the drain, unmeasured: otherwise the window's last requests would finish
    on an emptying engine and look faster than they are. The generator stops as soon as every
    measured request has ended.
    """
    rng = np.random.default_rng([seed, OPEN_LOOP])
    process = arrival_process(arrival, workload)
    duration_s = warmup_s + window_s + drain_s
    arrivals = process.arrivals(workload.size, rate_per_s, duration_s, rng)
    requests = _requests(workload, arrivals.pool_index, rng, arrivals.due_s.tolist())
    return OpenLoopSegment(requests, warmup_s, window_s, drain_s)


def closed_loop_segment(
    workload: Workload, concurrency: int, warmup_s: float, window_s: float, seed: int
) -> ClosedLoopSegment:
    """`concurrency` requests in flight, from a list that the fastest engine does not use up."""
    rng = np.random.default_rng([seed, CLOSED_LOOP])
    rate_per_s = min(CEILING_TOKENS_PER_S / workload.mean_tokens, CEILING_REQUESTS_PER_S)
    count = 2 * concurrency + math.ceil(rate_per_s * (warmup_s + window_s))
    order = shuffled_pool(workload.size, count, rng)
    return ClosedLoopSegment(_requests(workload, order, rng), concurrency, warmup_s, window_s)


def _requests(
    workload: Workload,
    pool_index: IntArray,
    rng: np.random.Generator,
    due_s: list[float] | None = None,
) -> tuple[PlannedRequest, ...]:
    prompts = workload.prompt_tokens[pool_index].tolist()
    outputs = workload.output_tokens[pool_index].tolist()
    seeds = rng.integers(PROMPT_SEED_LIMIT, size=pool_index.size).tolist()
    due: list[float] | list[None] = [None] * pool_index.size if due_s is None else due_s
    columns = zip(prompts, outputs, seeds, due, strict=True)
    return tuple(PlannedRequest(index, *column) for index, column in enumerate(columns))
