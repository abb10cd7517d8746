"""The kernel's waiting list and paged KV blocks with a prefix cache, on plain columns."""

from __future__ import annotations

from tuner.simulator.kernel_state import (
    EVICTABLE_BLOCKS,
    FREE_BLOCKS,
    N_WAITING,
    NEWEST_CACHED,
    NONE,
    OLDEST_CACHED,
    WAITING_HEAD,
    WAITING_TAIL,
    Limits,
    State,
)


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
        while position != NONE and goes_before(state, slot, position):
            position = state.before[position]
    link_waiting(state, slot, position)


def goes_before(state: State, one: int, other: int) -> bool:
    if state.priority[one] != state.priority[other]:
        return state.priority[one] < state.priority[other]
    return state.order[one] < state.order[other]


def link_waiting(state: State, slot: int, after: int) -> None:
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


def take_blocks(state: State, count: int) -> None:
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


def hold(limits: Limits, state: State, slot: int, tokens: int) -> None:
    """Record how many tokens fit into the blocks that a request holds for `tokens`."""
    if limits.window_layers:
        state.capacity[slot] = tokens
    else:
        state.capacity[slot] = (state.private[slot] + state.shared[slot]) * limits.block_size


def cached_prefix(limits: Limits, state: State, slot: int) -> int:
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


def claim(limits: Limits, state: State, slot: int, hits: int, tokens: int) -> bool:
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
    take_blocks(state, needed)
    state.shared[slot] = hits
    state.private[slot] = needed
    hold(limits, state, slot, tokens)
    return True


def share_full_blocks(limits: Limits, state: State, slot: int) -> None:
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
