"""Segments of a load plan from a workload. Equal arguments give equal requests in every trial."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from tuner.domain.study_spec import ArrivalSpec, ClosedLoopArrivalSpec, RateArrivalSpec
from tuner.loadgen.arrivals import Arrivals, TraceArrivals, arrival_process, shuffled_pool
from tuner.loadgen.plan import (
    ClosedLoopSegment,
    OpenLoopSegment,
    PlannedRequest,
    UserLoopSegment,
)
from tuner.loadgen.prompt_blocks import fitting, scoped_seeds
from tuner.loadgen.request_order import (
    Order,
    conversations_in_lanes,
    recorded_order,
    recorded_stretch,
    repetitions,
    timed_conversations,
)
from tuner.loadgen.shape_warmup import with_every_class
from tuner.loadgen.trace import ALONE, IntArray
from tuner.loadgen.workload import Workload

CEILING_TOKENS_PER_S = 200_000
"""Prompt plus output tokens per second that no engine of one node exceeds."""

CEILING_REQUESTS_PER_S = 3_000
"""Requests per second that one load generator process could send at most."""

FASTEST_ANSWER_S = 0.002
"""Engine seconds that no answer takes less than."""

OPEN_LOOP, CLOSED_LOOP, USER_LOOP = 1, 2, 3
PROMPT_SEED_LIMIT = 2**53
"""Prompt seeds stay exact in JSON."""

SCOPE_LIMIT = 2**52


def open_loop_segment(
    workload: Workload,
    arrival: RateArrivalSpec,
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
    recorded = isinstance(process, TraceArrivals)
    order = _open_order(workload, arrivals, rng, recorded=recorded)
    if not recorded and workload.blocks is None and workload.previous is None:
        # Where prompts belong together, or the recorded order is the load, it is left alone.
        warmup_requests = int(np.count_nonzero(arrivals.due_s < warmup_s))
        order = with_every_class(workload.prompt_tokens, order, warmup_requests)
    requests = _requests(workload, order, rng, (seed, OPEN_LOOP), arrivals.due_s.tolist())
    return OpenLoopSegment(requests, warmup_s, window_s, drain_s)


def closed_loop_segment(
    workload: Workload, concurrency: int, warmup_s: float, window_s: float, seed: int
) -> ClosedLoopSegment:
    """`concurrency` requests in flight, from a list that the fastest engine does not use up."""
    rng = np.random.default_rng([seed, CLOSED_LOOP])
    count = _enough(workload, concurrency, warmup_s + window_s)
    order = _closed_order(workload, count, concurrency, rng)
    requests = _requests(workload, order, rng, (seed, CLOSED_LOOP))
    return ClosedLoopSegment(requests, concurrency, warmup_s, window_s)


def user_loop_segment(
    workload: Workload,
    arrival: ClosedLoopArrivalSpec,
    warmup_s: float,
    window_s: float,
    drain_s: float,
    seed: int,
) -> UserLoopSegment:
    """Users through warm-up, window and drain. The pause after a request is drawn with it, so that
    it is the same for every configuration."""
    rng = np.random.default_rng([seed, USER_LOOP])
    think_rng, order_rng = rng.spawn(2)
    most_per_s = 2 * arrival.concurrency / (FASTEST_ANSWER_S + arrival.think_s)
    duration_s = warmup_s + window_s + drain_s
    count = _enough(workload, arrival.concurrency, duration_s, most_per_s)
    order = _closed_order(workload, count, arrival.concurrency, order_rng)
    requests = _requests(workload, order, order_rng, (seed, USER_LOOP))
    if arrival.think_s > 0:
        pauses_s = think_rng.exponential(arrival.think_s, len(requests)).tolist()
        pairs = zip(requests, pauses_s, strict=True)
        requests = tuple(replace(request, pause_after_s=pause_s) for request, pause_s in pairs)
    return UserLoopSegment(
        requests, arrival.concurrency, warmup_s, window_s, drain_s, arrival.think_s
    )


def latency_segment_of(
    workload: Workload,
    arrival: ArrivalSpec,
    rate_per_s: float | None,
    warmup_s: float,
    window_s: float,
    drain_s: float,
    seed: int,
) -> OpenLoopSegment | UserLoopSegment:
    """The load that the document asks for; `rate_per_s` is None for users in a closed loop only.

    Raises ValueError where a process needs a rate and there is none.
    """
    rest = (warmup_s, window_s, drain_s, seed)
    if isinstance(arrival, ClosedLoopArrivalSpec):
        return user_loop_segment(workload, arrival, *rest)
    if rate_per_s is None:
        raise ValueError(f"arrivals of the process {arrival.process} need a rate")
    return open_loop_segment(workload, arrival, rate_per_s, *rest)


def rate_arrival(arrival: ArrivalSpec) -> RateArrivalSpec:
    """Arrivals that come at a rate. Raises ValueError for a closed loop, which has none."""
    if isinstance(arrival, ClosedLoopArrivalSpec):
        raise ValueError("a closed loop has no rate that could be tried")
    return arrival


def _enough(
    workload: Workload, concurrency: int, duration_s: float, most_per_s: float = math.inf
) -> int:
    """Requests that the fastest engine does not use up; nobody sends more than `most_per_s`."""
    fastest_per_s = min(CEILING_TOKENS_PER_S / workload.mean_tokens, CEILING_REQUESTS_PER_S)
    rate_per_s = min(fastest_per_s, most_per_s)
    return 2 * concurrency + math.ceil(rate_per_s * duration_s)


def _open_order(
    workload: Workload, arrivals: Arrivals, rng: np.random.Generator, *, recorded: bool
) -> Order:
    if recorded:
        return recorded_order(workload, arrivals.pool_index)
    if workload.previous is not None:
        return timed_conversations(workload, arrivals.due_s, rng)
    if workload.blocks is not None:
        return recorded_stretch(workload, arrivals.due_s.size, rng)
    return _alone(arrivals.pool_index)


def _closed_order(
    workload: Workload, count: int, concurrency: int, rng: np.random.Generator
) -> Order:
    if workload.previous is not None:
        return conversations_in_lanes(workload, count, concurrency, rng)
    if workload.blocks is not None:
        return recorded_stretch(workload, count, rng)
    return _alone(shuffled_pool(workload.size, count, rng))


def _alone(pool_index: IntArray) -> Order:
    return Order(pool_index, np.full(pool_index.size, ALONE, dtype=np.int64))


def rescoped(request: PlannedRequest, scope: int) -> PlannedRequest:
    """The request with nothing in common with those of another scope, or of none."""
    if not request.blocks and request.token_ids is None:
        return request
    seeds = scoped_seeds(np.array([seed for seed, _ in request.blocks], dtype=np.int64), scope)
    pairs = zip(seeds.tolist(), request.blocks, strict=True)
    blocks = tuple((seed, tokens) for seed, (_, tokens) in pairs)
    return replace(request, blocks=blocks, scope=scope_of(request.scope, scope))


def scope_of(*parts: int) -> int:
    """A scope for these numbers, and for others another."""
    return int(np.random.default_rng(parts).integers(1, SCOPE_LIMIT))


def _requests(
    workload: Workload,
    order: Order,
    rng: np.random.Generator,
    segment: tuple[int, int],
    due_s: list[float] | None = None,
) -> tuple[PlannedRequest, ...]:
    pool_index = order.pool_index
    prompts = workload.prompt_tokens[pool_index].tolist()
    outputs = workload.output_tokens[pool_index].tolist()
    seeds = rng.integers(PROMPT_SEED_LIMIT, size=pool_index.size).tolist()
    due: list[float] | list[None] = [None] * pool_index.size if due_s is None else due_s
    columns = zip(prompts, outputs, seeds, due, strict=True)
    planned = tuple(PlannedRequest(index, *column) for index, column in enumerate(columns))
    if workload.blocks is None and workload.previous is None and workload.token_ids is None:
        return planned
    return _with_what_they_share(workload, order, planned, segment)


def _with_what_they_share(
    workload: Workload,
    order: Order,
    planned: tuple[PlannedRequest, ...],
    segment: tuple[int, int],
) -> tuple[PlannedRequest, ...]:
    """Blocks, turns and literal prompts.

    An entry's second use shares nothing with its first: whoever sends a trace twice would otherwise
    find every prompt in the cache. So would a segment of another seed, or of the other kind.
    """
    found = []
    times = repetitions(workload, order)
    scopes = [scope_of(*segment, number) for number in range(max(times, default=0) + 1)]
    columns = (order.pool_index.tolist(), order.after.tolist(), times)
    rows = zip(planned, *columns, strict=True)
    for request, entry, after, repetition in rows:
        blocks = () if workload.blocks is None else workload.blocks.of_request(entry)
        ids = None
        if workload.token_ids is not None:
            ids = tuple(workload.token_ids[entry][: request.prompt_tokens].tolist())
        whole = replace(
            request,
            blocks=fitting(blocks, request.prompt_tokens),
            after=None if after == ALONE else after,
            token_ids=ids,
        )
        found.append(rescoped(whole, scopes[repetition]))
    return tuple(found)
