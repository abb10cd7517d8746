"""A load test against the engine model, in virtual time."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from tuner.domain.engine_config import EngineConfig
from tuner.errors import InvalidInputError
from tuner.simulator import kernel_state as kernel
from tuner.simulator.compiled_kernel import compiled_advance, interpreted_advance
from tuner.simulator.cost import CostModel, cost_tables
from tuner.simulator.gpus import Gpu
from tuner.simulator.hardware import Hardware
from tuner.simulator.kernel_state import Costs, State
from tuner.simulator.limits import EngineLimits, engine_limits
from tuner.simulator.load_kernel import (
    NEVER,
    RAN_OUT_OF_MEMORY,
    RECORD_FULL,
    STALLED,
    Advance,
    Load,
    StepRecord,
)
from tuner.simulator.memory import MemoryAccount, memory_account
from tuner.simulator.models import ModelGeometry
from tuner.simulator.requests import EngineRequest
from tuner.simulator.scheduler import empty_state, kernel_limits
from tuner.simulator.simulated_run import Floats, Integers, Steps
from tuner.simulator.simulated_run import SimulatedRun as SimulatedRun

Backend = Literal["auto", "python", "numba"]

_warmed = threading.Event()

_FIRST_ROWS = 4096
_ROWS_BETWEEN_LOOKS = 512
"""Steps after which a run with an end looks at the clock."""
_MAX_ROWS = 10_000_000
_UNLIMITED = 2**62


@dataclass(frozen=True, slots=True)
class _Job:
    limits: EngineLimits
    memory: MemoryAccount
    costs: CostModel
    ordered: tuple[EngineRequest, ...]
    max_in_flight: int
    until_s: float
    turnaround_s: float


def simulate(
    requests: Sequence[EngineRequest],
    config: EngineConfig,
    gpu: Gpu,
    count: int,
    model: ModelGeometry,
    max_model_len: int,
    hardware: Hardware | None = None,
    *,
    concurrency: int | None = None,
    backend: Backend = "auto",
    until_s: float | None = None,
    turnaround_s: float = 0.0,
) -> SimulatedRun:
    """Serve `requests` under an effective configuration until all are done.

    Open loop by their arrival times; with `concurrency` a closed loop, in which arrival times only
    give the order; its clients take `turnaround_s` from the end of an answer to the next request
    (however short, it makes the request miss the step that starts there). With `until_s` the run
    stops some steps after that moment, whatever is left unfinished; until then nothing differs from
    the whole run. `backend` `auto` runs compiled once `warm_up` was called, interpreted before; the
    results do not depend on it. Raises InvalidInputError for a prompt that leaves no room for
    output within max_model_len.
    """
    hardware = hardware or Hardware.nominal()
    memory = memory_account(gpu, count, model, config, max_model_len, hardware)
    limits = engine_limits(config, max_model_len)
    costs = CostModel(
        gpu, model, limits.tensor_parallel, memory.kv_bytes_per_token, limits.graph_tokens, hardware
    )
    ordered = tuple(sorted(requests, key=lambda r: (r.arrival_s, r.request_id)))
    for request in ordered:
        if not 0 < request.prompt_tokens < max_model_len:
            raise InvalidInputError(
                f"request {request.request_id}: a prompt of {request.prompt_tokens} tokens leaves "
                f"no room for output within max_model_len {max_model_len}"
            )
    job = _Job(
        limits,
        memory,
        costs,
        ordered,
        _UNLIMITED if concurrency is None else concurrency,
        float("inf") if until_s is None else until_s,
        0.0 if concurrency is None else turnaround_s,
    )
    return _run(job, tuple(r.request_id for r in requests), backend)


def warm_up() -> bool:
    """Compile the kernel (seconds, unless cached) for those who will simulate many load tests.

    False where numba cannot be had: everything works all the same, slower.
    """
    if not _warmed.is_set() and compiled_advance() is not None:
        _warmed.set()
    return _warmed.is_set()


def _advance(backend: Backend) -> tuple[Advance, bool]:
    """The loop to run and whether it wants arrays."""
    if backend == "python" or (backend == "auto" and not _warmed.is_set()):
        return interpreted_advance(), False
    compiled = compiled_advance()
    if compiled is None:
        raise InvalidInputError("numba is not installed", hint="use the backend `python`")
    return compiled, True


def _run(job: _Job, ids: tuple[int, ...], backend: Backend) -> SimulatedRun:
    state = _loaded_state(job)
    load = _load(job)
    rows: list[StepRecord] = []
    status = RECORD_FULL if job.memory.failure is None else -1
    limits = kernel_limits(job.limits, job.costs.model)
    advance, arrays = _advance(backend)
    costs = _costs(job, arrays=arrays)
    if arrays:
        state, load = _as_arrays(state), _as_arrays(load)
    ends = job.until_s != float("inf")
    size = _ROWS_BETWEEN_LOOKS if ends else _FIRST_ROWS
    while status == RECORD_FULL and size <= _MAX_ROWS and load.clock[0] < job.until_s:
        record = _empty_record(size, arrays=arrays)
        status, used = advance(
            limits, costs, state, load, record, job.memory.num_blocks, job.max_in_flight
        )
        rows.append(StepRecord._make([column[:used] for column in record]))
        size = size if ends else 2 * size
    return _result(job, ids, state, load, rows, status)


def _loaded_state(job: _Job) -> State:
    """A state with every request in its slot, none of them entered."""
    requests, limits = job.ordered, job.limits
    entry_of: dict[int, int] = {}
    hash_ids: list[int] = []
    bounds = [0]
    if limits.prefix_caching:
        for request in requests:
            full = (request.prompt_tokens + request.output_tokens) // limits.block_size
            for block in request.prefix_blocks[:full]:
                hash_ids.append(entry_of.setdefault(block, len(entry_of)))  # noqa: PERF401
            bounds.append(len(hash_ids))
    else:
        bounds = [0] * (len(requests) + 1)
    state = empty_state(len(requests), len(entry_of), limits.max_num_seqs, job.memory.num_blocks)
    state.hash_ids.extend(hash_ids)
    state.hash_start[:] = bounds[:-1]
    state.hash_stop[:] = bounds[1:]
    state.hash_end[:] = bounds[1:]
    state.prompt[:] = [r.prompt_tokens for r in requests]
    state.tokens[:] = state.prompt
    state.target[:] = [
        max(1, min(r.output_tokens, limits.max_model_len - r.prompt_tokens)) for r in requests
    ]
    state.priority[:] = [r.priority for r in requests]
    return state


def _load(job: _Job) -> Load:
    nan = [float("nan")] * len(job.ordered)
    closed = job.max_in_flight != _UNLIMITED
    arrivals = [0.0 if closed else r.arrival_s for r in job.ordered]
    released = len(arrivals)
    if job.turnaround_s > 0.0:
        released = min(job.max_in_flight, released)
        arrivals[released:] = [NEVER] * (len(arrivals) - released)
    return Load(
        arrivals,
        list(nan),
        list(nan),
        list(nan),
        [0.0] * len(nan),
        [0.0],
        [0],
        [job.turnaround_s],
        [released],
    )


def _costs(job: _Job, *, arrays: bool) -> Costs:
    limit = job.memory.load_limit
    budget = job.limits.max_num_batched_tokens
    tables: Any = cost_tables(job.costs, budget) if arrays else _listed(job.costs, budget)
    return job.costs.costs_with_tables(tables, limit)


@lru_cache(maxsize=16)
def _listed(costs: CostModel, budget: int) -> tuple[list[float], list[float], list[int]]:
    linear, launch, bound = cost_tables(costs, budget)
    return linear.tolist(), launch.tolist(), bound.tolist()


def _as_arrays(columns: Any) -> Any:
    """The same columns as arrays: integers as int64, seconds as float64."""
    floats = _FLOAT_COLUMNS
    return type(columns)._make(
        [
            np.array(column, dtype=np.float64 if name in floats else np.int64)
            for name, column in zip(columns._fields, columns, strict=True)
        ]
    )


_FLOAT_COLUMNS = frozenset(
    {
        "duration",
        "arrival_s",
        "entered_s",
        "first_s",
        "last_s",
        "gap_s",
        "clock",
        "turnaround_s",
        "start_s",
        "duration_s",
    }
)


def _empty_record(size: int, *, arrays: bool) -> StepRecord:
    columns: list[Any] = []
    for name in StepRecord._fields:
        is_float = name in _FLOAT_COLUMNS
        if arrays:
            columns.append(np.zeros(size, dtype=np.float64 if is_float else np.int64))
        else:
            columns.append([0.0 if is_float else 0] * size)
    return StepRecord._make(columns)


def _result(
    job: _Job,
    ids: tuple[int, ...],
    state: State,
    load: Load,
    rows: list[StepRecord],
    status: int,
) -> SimulatedRun:
    position = {request.request_id: slot for slot, request in enumerate(job.ordered)}
    given = np.array([position[i] for i in ids], dtype=np.int64)

    def floats(column: Any) -> Floats:
        return np.array(column, dtype=np.float64)[given]

    def integers(column: Any) -> Integers:
        return np.array(column, dtype=np.int64)[given]

    generated = integers(state.generated)
    return SimulatedRun(
        request_ids=ids,
        entered_s=floats(load.entered_s),
        first_token_s=floats(load.first_s),
        last_token_s=floats(load.last_s),
        max_gap_s=floats(load.gap_s),
        output_tokens=generated,
        finished=generated == integers(state.target),
        preemptions=integers(state.preempted_count),
        steps=_steps(rows),
        memory=job.memory,
        cost_model=job.costs,
        counters={name: int(state.numbers[index]) for name, index in _COUNTERS.items()},
        out_of_memory=status == RAN_OUT_OF_MEMORY,
        stalled=status == STALLED or (status == RECORD_FULL and load.clock[0] < job.until_s),
    )


_COUNTERS = {
    "preemptions": kernel.PREEMPTIONS,
    "prompt_tokens": kernel.PROMPT_TOKENS,
    "generated_tokens": kernel.GENERATED_TOKENS,
    "computed_tokens": kernel.COMPUTED_TOKENS,
    "recomputed_tokens": kernel.RECOMPUTED_TOKENS,
    "skipped_tokens": kernel.SKIPPED_TOKENS,
    "prefix_query_tokens": kernel.PREFIX_QUERY_TOKENS,
    "prefix_hit_tokens": kernel.PREFIX_HIT_TOKENS,
    "free_blocks": kernel.FREE_BLOCKS,
    "cached_blocks": kernel.EVICTABLE_BLOCKS,
}


def _steps(rows: list[StepRecord]) -> Steps:
    columns: dict[str, Any] = {}
    for index, name in enumerate(StepRecord._fields):
        kind = np.float64 if name in _FLOAT_COLUMNS else np.int64
        parts = [np.asarray(record[index], dtype=kind) for record in rows]
        columns[name] = np.concatenate(parts) if parts else np.zeros(0, dtype=kind)
    return Steps(**columns)
