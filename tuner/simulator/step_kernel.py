"""vLLM V1's scheduler on plain arrays: the one code that the online scheduler and the batch run.

Written in the subset that CPython runs on lists and numba compiles on arrays, so that both give
identical results. Requests are slots (indices); `numbers` holds the scalars that change. Floating
point is limited to + − × ÷ and comparisons, which round alike everywhere.
"""

from __future__ import annotations

from typing import NamedTuple

# Indices into State.numbers.
N_RUNNING = 0
N_WAITING = 1
WAITING_HEAD = 2
WAITING_TAIL = 3
FREE_BLOCKS = 4
EVICTABLE_BLOCKS = 5
OLDEST_CACHED = 6
NEWEST_CACHED = 7
BUDGET_LEFT = 8
N_EMITTED = 9  # from here to ATTENTION_PAIRS: of the last step
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
N_NUMBERS = 29

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
    numbers: list[int]
    duration: list[float]


def blocks_for(limits: Limits, tokens: int) -> int:
    """KV blocks that hold `tokens` tokens; sliding-window layers keep their window only."""
    size = limits.block_size
    if limits.window_layers == 0 or tokens <= limits.window_tokens:
        return (tokens + size - 1) // size
    layers = limits.full_layers + limits.window_layers
    weighted = limits.full_layers * tokens + limits.window_layers * limits.window_tokens
    return (weighted + layers * size - 1) // (layers * size)


def enqueue(limits: Limits, state: State, slot: int) -> None:
    """Put a request behind those that go before it."""
    position = state.numbers[WAITING_TAIL]
    if limits.priority:
        while position != NONE and _goes_before(state, slot, position):
            position = state.before[position]
    _link_waiting(state, slot, position)


def _goes_before(state: State, one: int, other: int) -> bool:
    if state.priority[one] != state.priority[other]:
        return state.priority[one] < state.priority[other]
    return state.order[one] < state.order[other]


def _link_waiting(state: State, slot: int, after: int) -> None:
    """Insert into the waiting list behind `after`, or at its head for NONE."""
    numbers = state.numbers
    following = numbers[WAITING_HEAD] if after == NONE else state.after[after]
    state.before[slot] = after
    state.after[slot] = following
    if after == NONE:
        numbers[WAITING_HEAD] = slot
    else:
        state.after[after] = slot
    if following == NONE:
        numbers[WAITING_TAIL] = slot
    else:
        state.before[following] = slot
    numbers[N_WAITING] += 1


def unlink_waiting(state: State, slot: int) -> None:
    """Take a request out of the waiting list."""
    numbers = state.numbers
    previous, following = state.before[slot], state.after[slot]
    if previous == NONE:
        numbers[WAITING_HEAD] = following
    else:
        state.after[previous] = following
    if following == NONE:
        numbers[WAITING_TAIL] = previous
    else:
        state.before[following] = previous
    numbers[N_WAITING] -= 1


def _retire_cached(state: State, entry: int) -> None:
    """A cached block lost its last user: it stays, newest in line for eviction."""
    numbers = state.numbers
    last = numbers[NEWEST_CACHED]
    state.older[entry] = last
    state.newer[entry] = NONE
    if last == NONE:
        numbers[OLDEST_CACHED] = entry
    else:
        state.newer[last] = entry
    numbers[NEWEST_CACHED] = entry
    numbers[EVICTABLE_BLOCKS] += 1


def _revive_cached(state: State, entry: int) -> None:
    """A cached block without users is wanted again, or goes."""
    numbers = state.numbers
    older, newer = state.older[entry], state.newer[entry]
    if older == NONE:
        numbers[OLDEST_CACHED] = newer
    else:
        state.newer[older] = newer
    if newer == NONE:
        numbers[NEWEST_CACHED] = older
    else:
        state.older[newer] = older
    numbers[EVICTABLE_BLOCKS] -= 1


def _take_blocks(state: State, count: int) -> None:
    """Take `count` blocks that are known to be there: free ones, then the oldest cached ones."""
    numbers = state.numbers
    while numbers[FREE_BLOCKS] < count:
        oldest = numbers[OLDEST_CACHED]
        _revive_cached(state, oldest)
        state.cached[oldest] = 0
        numbers[FREE_BLOCKS] += 1
    numbers[FREE_BLOCKS] -= count


def release_blocks(state: State, slot: int) -> None:
    """Give back a request's blocks; shared ones stay cached, its last ones to be evicted first."""
    state.numbers[FREE_BLOCKS] += state.private[slot]
    start = state.hash_start[slot]
    for index in range(start + state.shared[slot] - 1, start - 1, -1):
        entry = state.hash_ids[index]
        state.users[entry] -= 1
        if state.users[entry] == 0:
            _retire_cached(state, entry)
    state.private[slot] = 0
    state.shared[slot] = 0
    state.capacity[slot] = 0
    state.hash_stop[slot] = state.hash_end[slot]


def _hold(limits: Limits, state: State, slot: int, tokens: int) -> None:
    """Record how many tokens fit into the blocks that a request holds for `tokens`."""
    if limits.window_layers:
        state.capacity[slot] = tokens
    else:
        state.capacity[slot] = (state.private[slot] + state.shared[slot]) * limits.block_size


def _cached_prefix(limits: Limits, state: State, slot: int) -> int:
    """Leading blocks of the prompt that are cached; at least one token is always computed."""
    if limits.prefix_caching == 0:
        return 0
    size = limits.block_size
    start = state.hash_start[slot]
    longest = min(state.hash_stop[slot] - start, (state.tokens[slot] - 1) // size)
    if limits.window_layers:
        longest = min(longest, limits.window_tokens // size)
    count = 0
    while count < longest and state.cached[state.hash_ids[start + count]]:
        count += 1
    return count


def _claim(limits: Limits, state: State, slot: int, hits: int, tokens: int) -> bool:
    """Take the blocks for a request's first chunk, which ends at `tokens`; False when short.

    vLLM 0.19+ admits a request only when its whole prompt would fit, though it takes no more than
    the chunk needs.
    """
    numbers = state.numbers
    start = state.hash_start[slot]
    idle_hits = 0
    for index in range(start, start + hits):
        if state.users[state.hash_ids[index]] == 0:
            idle_hits += 1
    available = numbers[FREE_BLOCKS] + numbers[EVICTABLE_BLOCKS] - idle_hits
    must_fit = state.tokens[slot] if limits.reserve_full else tokens
    if blocks_for(limits, must_fit) - hits > available:
        return False
    for index in range(start, start + hits):
        entry = state.hash_ids[index]
        if state.users[entry] == 0:
            _revive_cached(state, entry)
        state.users[entry] += 1
    needed = blocks_for(limits, tokens) - hits
    _take_blocks(state, needed)
    state.shared[slot] = hits
    state.private[slot] = needed
    _hold(limits, state, slot, tokens)
    return True


def _share_full_blocks(limits: Limits, state: State, slot: int) -> None:
    """Cache the blocks that have become full; stops where another request was faster."""
    start = state.hash_start[slot]
    full = state.computed[slot] // limits.block_size
    if limits.window_layers:
        full = min(full, limits.window_tokens // limits.block_size)
    index = start + state.shared[slot]
    last = min(start + full, state.hash_stop[slot])
    while index < last:
        entry = state.hash_ids[index]
        if state.cached[entry]:
            state.hash_stop[slot] = index
            return
        state.cached[entry] = 1
        state.users[entry] = 1
        state.private[slot] -= 1
        state.shared[slot] += 1
        index += 1


def _victim(limits: Limits, state: State) -> int:
    """Index into `running` of the request to preempt: the last one, or the least urgent one."""
    last = state.numbers[N_RUNNING] - 1
    if limits.priority:
        for index in range(last):
            if _goes_before(state, state.running[last], state.running[index]):
                last = index
    return last


def _preempt(limits: Limits, state: State, index: int) -> None:
    """Send a running request back to the waiting ones; all it has computed is lost."""
    numbers = state.numbers
    slot = state.running[index]
    for later in range(index + 1, numbers[N_RUNNING]):
        state.running[later - 1] = state.running[later]
    numbers[N_RUNNING] -= 1
    numbers[BUDGET_LEFT] += state.scheduled[slot]
    state.scheduled[slot] = 0
    release_blocks(state, slot)
    state.computed[slot] = 0
    state.preempted_count[slot] += 1
    state.preempted[numbers[N_PREEMPTED]] = slot
    numbers[N_PREEMPTED] += 1
    numbers[PREEMPTIONS] += 1
    if limits.priority:
        enqueue(limits, state, slot)
    else:
        _link_waiting(state, slot, NONE)


def _make_room(limits: Limits, state: State, index: int, tokens: int) -> int:
    """Blocks for a running request up to `tokens`, by preemption if need be.

    Returns its index in `running`, which moves when an earlier request is preempted, or NONE when
    the request itself had to go.
    """
    numbers = state.numbers
    slot = state.running[index]
    needed = blocks_for(limits, tokens) - state.private[slot] - state.shared[slot]
    while numbers[FREE_BLOCKS] + numbers[EVICTABLE_BLOCKS] < needed:
        victim = _victim(limits, state)
        _preempt(limits, state, victim)
        if victim == index:
            return NONE
        if victim < index:
            index -= 1
    if needed > 0:
        _take_blocks(state, needed)
        state.private[slot] += needed
    _hold(limits, state, slot, tokens)
    return index


def _schedule_running(limits: Limits, state: State) -> None:
    """Running requests first, in their order: one token for decodes, a chunk for prefills."""
    numbers, running, scheduled = state.numbers, state.running, state.scheduled
    tokens, computed, capacity = state.tokens, state.computed, state.capacity
    threshold = limits.long_threshold
    index = 0
    while index < numbers[N_RUNNING] and numbers[BUDGET_LEFT] > 0:
        slot = running[index]
        done = computed[slot]
        todo = tokens[slot] - done
        if todo > 1:
            if 0 < threshold < todo:
                todo = threshold
            todo = min(todo, numbers[BUDGET_LEFT])
        if done + todo > capacity[slot]:
            index = _make_room(limits, state, index, done + todo)
            if index == NONE:
                return
        scheduled[slot] = todo
        numbers[BUDGET_LEFT] -= todo
        index += 1


def _schedule_waiting(limits: Limits, state: State) -> None:
    """Admit waiting requests in order while budget, sequences and blocks last."""
    numbers = state.numbers
    size, threshold = limits.block_size, limits.long_threshold
    while (
        numbers[N_WAITING] > 0 and numbers[BUDGET_LEFT] > 0 and numbers[N_RUNNING] < limits.max_seqs
    ):
        slot = numbers[WAITING_HEAD]
        hits = _cached_prefix(limits, state, slot)
        todo = state.tokens[slot] - hits * size
        if 0 < threshold < todo:
            todo = threshold
        if todo > numbers[BUDGET_LEFT]:
            if limits.chunked == 0:
                return
            todo = numbers[BUDGET_LEFT]
        if not _claim(limits, state, slot, hits, hits * size + todo):
            return
        unlink_waiting(state, slot)
        state.running[numbers[N_RUNNING]] = slot
        numbers[N_RUNNING] += 1
        state.computed[slot] = hits * size
        state.scheduled[slot] = todo
        numbers[BUDGET_LEFT] -= todo
        _count_prefix(limits, state, slot, hits * size)


def _count_prefix(limits: Limits, state: State, slot: int, hit_tokens: int) -> None:
    """Prefix-cache statistics, in tokens; vLLM keeps those of resumed requests apart."""
    numbers = state.numbers
    if limits.prefix_caching and state.preempted_count[slot] == 0:
        numbers[PREFIX_QUERY_TOKENS] += state.tokens[slot]
        numbers[PREFIX_HIT_TOKENS] += hit_tokens
    if hit_tokens > state.reached[slot]:
        numbers[SKIPPED_TOKENS] += hit_tokens - state.reached[slot]
        state.reached[slot] = hit_tokens


def _charge_prefill(limits: Limits, state: State, slot: int, todo: int) -> None:
    """Account for a chunk of a prompt: attention work, tokens computed a second time."""
    numbers = state.numbers
    done = state.computed[slot]
    numbers[PREFILL_TOKENS] += todo
    context, pairs = done, todo * done + todo * (todo + 1) // 2
    if limits.window_layers:
        window, layers = limits.window_tokens, limits.full_layers + limits.window_layers
        seen = min(done, window)
        near = min(pairs, todo * window)
        context = (limits.full_layers * done + limits.window_layers * seen) // layers
        pairs = (limits.full_layers * pairs + limits.window_layers * near) // layers
    numbers[KV_READ_TOKENS] += context
    numbers[ATTENTION_PAIRS] += pairs
    again = min(done + todo, state.reached[slot]) - done
    if again > 0:
        numbers[RECOMPUTED_TOKENS] += again
    state.reached[slot] = max(state.reached[slot], done + todo)


def _decode_context(limits: Limits, tokens: int) -> int:
    """Tokens of full-attention KV that a decode at this length reads."""
    if limits.window_layers == 0 or tokens <= limits.window_tokens:
        return tokens
    layers = limits.full_layers + limits.window_layers
    return (limits.full_layers * tokens + limits.window_layers * limits.window_tokens) // layers


def _emit(state: State, slot: int) -> bool:
    """Give a request its next token; True when that was its last."""
    numbers = state.numbers
    if state.generated[slot] == 0:
        numbers[PROMPT_TOKENS] += state.prompt[slot]
    state.generated[slot] += 1
    state.tokens[slot] += 1
    state.emitted[numbers[N_EMITTED]] = slot
    numbers[N_EMITTED] += 1
    if state.generated[slot] < state.target[slot]:
        return False
    state.finished[numbers[N_FINISHED]] = slot
    numbers[N_FINISHED] += 1
    release_blocks(state, slot)
    return True


def _complete(limits: Limits, state: State) -> None:
    """Do what was scheduled: advance every request, emit tokens, let finished ones go."""
    numbers, running, scheduled = state.numbers, state.running, state.scheduled
    tokens, computed = state.tokens, state.computed
    count = numbers[N_RUNNING]
    windowed = limits.window_layers
    decodes = context = kept = sequences = 0
    for index in range(count):
        slot = running[index]
        todo = scheduled[slot]
        if todo == 0:
            running[kept] = slot
            kept += 1
            continue
        scheduled[slot] = 0
        sequences += 1
        done = computed[slot]
        if todo == 1 and state.generated[slot] > 0 and done + 1 == tokens[slot]:
            decodes += 1
            context += _decode_context(limits, done + 1) if windowed else done + 1
            if state.reached[slot] <= done:
                state.reached[slot] = done + 1
            else:
                numbers[RECOMPUTED_TOKENS] += 1
        else:
            _charge_prefill(limits, state, slot, todo)
        computed[slot] = done + todo
        if state.shared[slot] < state.hash_stop[slot] - state.hash_start[slot]:
            _share_full_blocks(limits, state, slot)
        if done + todo == tokens[slot] and _emit(state, slot):
            continue
        running[kept] = slot
        kept += 1
    numbers[N_RUNNING] = kept
    numbers[DECODE_TOKENS] = decodes
    numbers[KV_READ_TOKENS] += context
    numbers[SEQUENCES] = sequences


def _time(costs: Costs, state: State) -> None:
    """The step's duration and what bounded it."""
    numbers = state.numbers
    tokens = numbers[PREFILL_TOKENS] + numbers[DECODE_TOKENS]
    linear = costs.linear_s[tokens]
    kv = costs.kv_s_per_token * numbers[KV_READ_TOKENS]
    pairs = costs.pair_s * numbers[ATTENTION_PAIRS]
    if numbers[PREFILL_TOKENS] > 0 and numbers[DECODE_TOKENS] > 0:
        kv = kv * (1.0 + costs.mixed_penalty)
        pairs = pairs * (1.0 + costs.mixed_penalty)
    logits = costs.logits_s * numbers[SEQUENCES]
    busy = linear + kv + pairs + logits
    overhead = costs.overhead_s + costs.sequence_s * numbers[SEQUENCES]
    launch = costs.launch_s[tokens]
    if busy < launch:
        overhead += launch - busy
    state.duration[0] = busy + overhead
    weights = linear if costs.weights_bound[tokens] else 0.0
    compute = linear + pairs + logits - weights
    largest, name = compute, COMPUTE
    if weights > largest:
        largest, name = weights, WEIGHTS
    if kv > largest:
        largest, name = kv, KV
    if overhead > largest:
        name = OVERHEAD
    numbers[BOTTLENECK] = name


def step(limits: Limits, costs: Costs, state: State, num_blocks: int) -> None:
    """One engine step; results are in `numbers`, `duration` and the lists of slots.

    A step that can schedule nothing has no prefill and no decode tokens and lasts its overhead.
    """
    numbers = state.numbers
    numbers[BUDGET_LEFT] = limits.token_budget
    for index in range(N_EMITTED, ATTENTION_PAIRS + 1):
        numbers[index] = 0
    _schedule_running(limits, state)
    if numbers[N_PREEMPTED] == 0:
        _schedule_waiting(limits, state)
    numbers[STEP_BLOCKS] = num_blocks - numbers[FREE_BLOCKS] - numbers[EVICTABLE_BLOCKS]
    numbers[STEP_RUNNING] = numbers[N_RUNNING]
    _complete(limits, state)
    numbers[GENERATED_TOKENS] += numbers[N_EMITTED]
    tokens = numbers[PREFILL_TOKENS] + numbers[DECODE_TOKENS]
    numbers[COMPUTED_TOKENS] += tokens
    needed = costs.oom_base + costs.oom_per_token * tokens
    needed += costs.oom_per_sequence * numbers[SEQUENCES]
    if needed > costs.oom_margin:
        numbers[OUT_OF_MEMORY] = 1
    _time(costs, state)
