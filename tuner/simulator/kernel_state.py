"""The state that the scheduling kernel works on: plain integers and floats in columns."""

from __future__ import annotations

from typing import NamedTuple

# Indices into State.numbers; from N_EMITTED to ATTENTION_PAIRS they are of the last step.
N_RUNNING = 0
N_WAITING = 1
WAITING_HEAD = 2
WAITING_TAIL = 3
FREE_BLOCKS = 4
EVICTABLE_BLOCKS = 5
OLDEST_CACHED = 6
NEWEST_CACHED = 7
BUDGET_LEFT = 8
N_EMITTED = 9
N_FINISHED = 10
N_PREEMPTED = 11
PREFILL_TOKENS = 12
DECODE_TOKENS = 13
SEQUENCES = 14
KV_READ_TOKENS = 15
ATTENTION_PAIRS = 16
STEP_BLOCKS = 17
BOTTLENECK = 18
OUT_OF_MEMORY = 19
PREEMPTIONS = 20
PROMPT_TOKENS = 21
GENERATED_TOKENS = 22
RECOMPUTED_TOKENS = 23
PREFIX_QUERY_TOKENS = 24
PREFIX_HIT_TOKENS = 25
COMPUTED_TOKENS = 26
SKIPPED_TOKENS = 27
STEP_RUNNING = 28
N_ADMITTED = 29
N_NUMBERS = 30

COMPUTE = 0
WEIGHTS = 1
KV = 2
OVERHEAD = 3
NONE = -1


class Limits(NamedTuple):
    """What one step may hold; switches are 0 or 1."""

    max_seqs: int
    token_budget: int
    chunked: int
    long_threshold: int
    priority: int
    block_size: int
    window_tokens: int
    full_layers: int
    window_layers: int
    prefix_caching: int
    reserve_full: int


class Costs(NamedTuple):
    """Seconds. Tables are indexed by the step's tokens; `oom_*` are bytes (LoadLimit)."""

    linear_s: list[float]
    launch_s: list[float]
    weights_bound: list[int]
    kv_s_per_token: float
    pair_s: float
    logits_s: float
    overhead_s: float
    sequence_s: float
    mixed_penalty: float
    oom_base: float
    oom_per_token: float
    oom_per_sequence: float
    oom_margin: float


class State(NamedTuple):
    """Everything that changes. The first group is per slot, the second per cached prefix block."""

    prompt: list[int]
    target: list[int]
    generated: list[int]
    tokens: list[int]
    computed: list[int]
    reached: list[int]
    capacity: list[int]
    private: list[int]
    shared: list[int]
    hash_start: list[int]
    hash_stop: list[int]
    hash_end: list[int]
    priority: list[int]
    order: list[int]
    preempted_count: list[int]
    scheduled: list[int]
    before: list[int]
    after: list[int]

    hash_ids: list[int]
    cached: list[int]
    users: list[int]
    older: list[int]
    newer: list[int]

    running: list[int]
    emitted: list[int]
    finished: list[int]
    preempted: list[int]
    admitted: list[int]
    admitted_hits: list[int]
    numbers: list[int]
    duration: list[float]
