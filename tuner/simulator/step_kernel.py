"""vLLM V1's scheduler on plain columns: the one code that the online scheduler and the batch run.

Written, like `kernel_state`, `kernel_blocks` and `load_kernel`, in the subset that CPython runs on
lists and numba compiles on arrays, so that both give identical results: integers, comparisons and
the four operations on floats, which round alike everywhere. Requests are slots (indices).
"""

from __future__ import annotations

from tuner.simulator.kernel_blocks import (
    blocks_for,
    cached_prefix,
    claim,
    enqueue,
    goes_before,
    hold,
    link_waiting,
    release_blocks,
    share_full_blocks,
    take_blocks,
    unlink_waiting,
)
from tuner.simulator.kernel_state import (
    ATTENTION_PAIRS,
    BOTTLENECK,
    BUDGET_LEFT,
    COMPUTE,
    COMPUTED_TOKENS,
    DECODE_TOKENS,
    EVICTABLE_BLOCKS,
    FREE_BLOCKS,
    GENERATED_TOKENS,
    KV,
    KV_READ_TOKENS,
    N_ADMITTED,
    N_EMITTED,
    N_FINISHED,
    N_PREEMPTED,
    N_RUNNING,
    N_WAITING,
    NONE,
    OUT_OF_MEMORY,
    OVERHEAD,
    PREEMPTIONS,
    PREFILL_TOKENS,
    PREFIX_HIT_TOKENS,
    PREFIX_QUERY_TOKENS,
    PROMPT_TOKENS,
    RECOMPUTED_TOKENS,
    SEQUENCES,
    SKIPPED_TOKENS,
    STEP_BLOCKS,
    STEP_RUNNING,
    WAITING_HEAD,
    WEIGHTS,
    Costs,
    Limits,
    State,
)


def _victim(limits: Limits, state: State) -> int:
    """Index into `running` of the request to preempt: the last one, or the least urgent one."""
    last = state.numbers[N_RUNNING] - 1
    if limits.priority:
        for index in range(last):
            if goes_before(state, state.running[last], state.running[index]):
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
        link_waiting(state, slot, NONE)


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
        take_blocks(state, needed)
        state.private[slot] += needed
    hold(limits, state, slot, tokens)
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
        hits = cached_prefix(limits, state, slot)
        todo = state.tokens[slot] - hits * size
        if 0 < threshold < todo:
            todo = threshold
        if todo > numbers[BUDGET_LEFT]:
            if limits.chunked == 0:
                return
            todo = numbers[BUDGET_LEFT]
        if not claim(limits, state, slot, hits, hits * size + todo):
            return
        unlink_waiting(state, slot)
        state.running[numbers[N_RUNNING]] = slot
        numbers[N_RUNNING] += 1
        state.computed[slot] = hits * size
        state.scheduled[slot] = todo
        numbers[BUDGET_LEFT] -= todo
        _note_admission(limits, state, slot, hits * size)


def _note_admission(limits: Limits, state: State, slot: int, hit_tokens: int) -> None:
    """First admissions and prefix-cache statistics; vLLM keeps resumed requests apart."""
    numbers = state.numbers
    if limits.prefix_caching and state.preempted_count[slot] == 0:
        numbers[PREFIX_QUERY_TOKENS] += state.tokens[slot]
        numbers[PREFIX_HIT_TOKENS] += hit_tokens
    if state.preempted_count[slot] == 0:
        state.admitted[numbers[N_ADMITTED]] = slot
        state.admitted_hits[numbers[N_ADMITTED]] = hit_tokens
        numbers[N_ADMITTED] += 1
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
            share_full_blocks(limits, state, slot)
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
    numbers[N_ADMITTED] = 0
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
