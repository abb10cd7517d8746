"""The scheduler that a server drives step by step."""

from __future__ import annotations

from tuner.errors import InvalidInputError
from tuner.simulator import kernel_blocks, step_kernel
from tuner.simulator import kernel_state as kernel
from tuner.simulator.kernel_state import Costs, Limits, State
from tuner.simulator.limits import EngineLimits
from tuner.simulator.models import ModelGeometry
from tuner.simulator.requests import EngineRequest, StepResult

BOTTLENECKS = ("compute", "weights_bandwidth", "kv_bandwidth", "overhead")
_FIRST_CAPACITY = 64
_SWEEP_MINIMUM = 65536


def kernel_limits(limits: EngineLimits, model: ModelGeometry) -> Limits:
    """The limits in the kernel's integers."""
    return Limits(
        max_seqs=limits.max_num_seqs,
        token_budget=limits.max_num_batched_tokens,
        chunked=int(limits.chunked_prefill),
        long_threshold=limits.long_prefill_threshold,
        priority=int(limits.priority_scheduling),
        block_size=limits.block_size,
        window_tokens=model.window_tokens or 0,
        full_layers=model.layers - model.window_layers,
        window_layers=model.window_layers,
        prefix_caching=int(limits.prefix_caching),
        reserve_full=int(limits.reserve_full_prompt),
    )


def empty_state(slots: int, entries: int, max_seqs: int, num_blocks: int) -> State:
    """A state with all blocks free, for this many requests and cached prefix blocks."""
    numbers = [0] * kernel.N_NUMBERS
    for name in (kernel.WAITING_HEAD, kernel.WAITING_TAIL):
        numbers[name] = kernel.NONE
    for name in (kernel.OLDEST_CACHED, kernel.NEWEST_CACHED):
        numbers[name] = kernel.NONE
    numbers[kernel.FREE_BLOCKS] = num_blocks
    per_slot = [[0] * slots for _ in range(_PER_SLOT)]
    per_entry = [[0] * entries for _ in range(_PER_ENTRY)]
    per_step = [[0] * max_seqs for _ in range(_PER_STEP)]
    return State._make([*per_slot, [], *per_entry, *per_step, numbers, [0.0]])


_PER_SLOT = State._fields.index("hash_ids")
_PER_ENTRY = State._fields.index("running") - _PER_SLOT - 1
_PER_STEP = State._fields.index("numbers") - State._fields.index("running")


class Scheduler:
    """vLLM's V1 scheduler over a KV pool; `step` plans and performs one engine step at once.

    Not thread-safe. `out_of_memory` turns true with the step that needed more memory than there
    is; what to do then is the caller's business (a real engine dies).
    """

    def __init__(
        self, limits: EngineLimits, model: ModelGeometry, costs: Costs, num_blocks: int
    ) -> None:
        if len(costs.linear_s) <= limits.max_num_batched_tokens:
            raise ValueError("the cost tables are shorter than the token budget")
        self.limits = limits
        self.num_blocks = num_blocks
        self._limits = kernel_limits(limits, model)
        self._costs = costs
        self._state = empty_state(0, 0, limits.max_num_seqs, num_blocks)
        self._slot_of: dict[int, int] = {}
        self._id_of: list[int] = []
        self._free_slots: list[int] = []
        self._entry_of: dict[int, int] = {}
        self._free_entries: list[int] = []
        self._arrivals = 0

    # -- requests ------------------------------------------------------------------------------

    def add(self, request: EngineRequest) -> None:
        """Queue a request; its output is cut so that prompt and output fit into max_model_len.

        Raises InvalidInputError when the prompt leaves no room for one token, and ValueError for a
        request id that is still in the engine.
        """
        if request.request_id in self._slot_of:
            raise ValueError(f"request {request.request_id} is already in the engine")
        room = self.limits.max_model_len - request.prompt_tokens
        if request.prompt_tokens < 1 or room < 1:
            raise InvalidInputError(
                f"a prompt of {request.prompt_tokens} tokens does not fit into max_model_len "
                f"{self.limits.max_model_len} with at least one token of output"
            )
        slot = self._free_slots.pop() if self._free_slots else self._new_slot()
        self._fill(slot, request, min(max(1, request.output_tokens), room))
        self._slot_of[request.request_id] = slot
        self._id_of[slot] = request.request_id
        kernel_blocks.enqueue(self._limits, self._state, slot)

    def abort(self, request_id: int) -> bool:
        """Drop a request wherever it is; False when it is not in the engine."""
        slot = self._slot_of.get(request_id)
        if slot is None:
            return False
        state = self._state
        count = state.numbers[kernel.N_RUNNING]
        if slot in state.running[:count]:
            index = state.running.index(slot, 0, count)
            state.running[index : count - 1] = state.running[index + 1 : count]
            state.numbers[kernel.N_RUNNING] = count - 1
            kernel_blocks.release_blocks(state, slot)
        else:
            kernel_blocks.unlink_waiting(state, slot)
        self._forget(slot)
        return True

    def has_work(self) -> bool:
        """Whether any request runs or waits."""
        numbers = self._state.numbers
        return numbers[kernel.N_RUNNING] + numbers[kernel.N_WAITING] > 0

    def step(self, now_s: float) -> StepResult:
        """Perform one step that starts at `now_s`; its tokens are emitted at `end_s`.

        Requests in `finished` are gone afterwards and their blocks free. `running` and
        `used_blocks` are those of the step, `waiting` those left at its end. With nothing that can
        be scheduled (`scheduled_tokens` 0) the step lasts its overhead: a real engine would spin.
        """
        state, names = self._state, self._id_of
        step_kernel.step(self._limits, self._costs, state, self.num_blocks)
        numbers = state.numbers
        finished = state.finished[: numbers[kernel.N_FINISHED]]
        result = StepResult(
            start_s=now_s,
            duration_s=state.duration[0],
            scheduled_tokens=numbers[kernel.PREFILL_TOKENS] + numbers[kernel.DECODE_TOKENS],
            prefill_tokens=numbers[kernel.PREFILL_TOKENS],
            decode_tokens=numbers[kernel.DECODE_TOKENS],
            emitted=tuple([names[s] for s in state.emitted[: numbers[kernel.N_EMITTED]]]),
            finished=tuple([names[s] for s in finished]),
            preempted=tuple([names[s] for s in state.preempted[: numbers[kernel.N_PREEMPTED]]]),
            running=numbers[kernel.STEP_RUNNING],
            waiting=numbers[kernel.N_WAITING],
            used_blocks=numbers[kernel.STEP_BLOCKS],
            bottleneck=BOTTLENECKS[numbers[kernel.BOTTLENECK]],
            admitted=self._admitted() if numbers[kernel.N_ADMITTED] else (),
        )
        for slot in finished:
            self._forget(slot)
        return result

    def _admitted(self) -> tuple[tuple[int, int], ...]:
        state, count = self._state, self._state.numbers[kernel.N_ADMITTED]
        names = [self._id_of[slot] for slot in state.admitted[:count]]
        return tuple(zip(names, state.admitted_hits[:count], strict=True))

    # -- read-outs -----------------------------------------------------------------------------

    @property
    def running(self) -> int:
        return self._state.numbers[kernel.N_RUNNING]

    @property
    def waiting(self) -> int:
        return self._state.numbers[kernel.N_WAITING]

    @property
    def used_blocks(self) -> int:
        """Blocks that some request holds; cached blocks without a user count as free."""
        numbers = self._state.numbers
        return self.num_blocks - numbers[kernel.FREE_BLOCKS] - numbers[kernel.EVICTABLE_BLOCKS]

    @property
    def cached_blocks(self) -> int:
        """Cached prefix blocks that no request uses at the moment."""
        return self._state.numbers[kernel.EVICTABLE_BLOCKS]

    @property
    def out_of_memory(self) -> bool:
        return self._state.numbers[kernel.OUT_OF_MEMORY] == 1

    @property
    def preemptions(self) -> int:
        return self._state.numbers[kernel.PREEMPTIONS]

    @property
    def prompt_tokens(self) -> int:
        """Prompt tokens of requests that have emitted their first token, cached ones included."""
        return self._state.numbers[kernel.PROMPT_TOKENS]

    @property
    def generated_tokens(self) -> int:
        return self._state.numbers[kernel.GENERATED_TOKENS]

    @property
    def computed_tokens(self) -> int:
        """Tokens that went through the model, recomputed ones included."""
        return self._state.numbers[kernel.COMPUTED_TOKENS]

    @property
    def recomputed_tokens(self) -> int:
        """Tokens computed again after a preemption."""
        return self._state.numbers[kernel.RECOMPUTED_TOKENS]

    @property
    def prefix_query_tokens(self) -> int:
        return self._state.numbers[kernel.PREFIX_QUERY_TOKENS]

    @property
    def prefix_hit_tokens(self) -> int:
        return self._state.numbers[kernel.PREFIX_HIT_TOKENS]

    def reset_prefix_cache(self) -> bool:
        """Forget cached blocks; False (and nothing done) while a request holds any block."""
        if self.used_blocks:
            return False
        numbers, state = self._state.numbers, self._state
        numbers[kernel.FREE_BLOCKS] = self.num_blocks
        numbers[kernel.EVICTABLE_BLOCKS] = 0
        numbers[kernel.OLDEST_CACHED] = numbers[kernel.NEWEST_CACHED] = kernel.NONE
        state.cached[:] = [0] * len(state.cached)
        return True

    # -- slots ---------------------------------------------------------------------------------

    def _new_slot(self) -> int:
        slot = len(self._id_of)
        self._id_of.append(0)
        for column in self._state[:_PER_SLOT]:
            column.append(0)
        return slot

    def _fill(self, slot: int, request: EngineRequest, target: int) -> None:
        state = self._state
        for column in state[:_PER_SLOT]:
            column[slot] = 0
        state.prompt[slot] = state.tokens[slot] = request.prompt_tokens
        state.target[slot] = target
        state.priority[slot] = request.priority
        state.order[slot] = self._arrivals
        self._arrivals += 1
        start = len(state.hash_ids)
        if self.limits.prefix_caching and request.prefix_blocks:
            self._sweep_when_large()
            start = len(state.hash_ids)
            full = (request.prompt_tokens + target) // self.limits.block_size
            state.hash_ids.extend(self._entry(block) for block in request.prefix_blocks[:full])
        state.hash_start[slot] = start
        state.hash_stop[slot] = state.hash_end[slot] = len(state.hash_ids)

    def _forget(self, slot: int) -> None:
        del self._slot_of[self._id_of[slot]]
        self._free_slots.append(slot)

    # -- cached prefix blocks --------------------------------------------------------------------

    def _entry(self, block_hash: int) -> int:
        """The dense number of a block hash."""
        entry = self._entry_of.get(block_hash)
        if entry is None:
            if self._free_entries:
                entry = self._free_entries.pop()
            else:
                entry = len(self._state.cached)
                for column in (
                    self._state.cached,
                    self._state.users,
                    self._state.older,
                    self._state.newer,
                ):
                    column.append(0)
            self._entry_of[block_hash] = entry
        return entry

    def _sweep_when_large(self) -> None:
        """Forget hashes that are neither cached nor wanted, so that a long life needs no memory."""
        state = self._state
        if len(state.hash_ids) < max(_SWEEP_MINIMUM, 8 * self.num_blocks):
            return
        kept: list[int] = []
        for slot in self._slot_of.values():
            first, stop, end = state.hash_start[slot], state.hash_stop[slot], state.hash_end[slot]
            state.hash_start[slot] = len(kept)
            kept.extend(state.hash_ids[first:end])
            state.hash_stop[slot] = state.hash_start[slot] + stop - first
            state.hash_end[slot] = len(kept)
        state.hash_ids[:] = kept
        wanted = set(kept)
        for block_hash, entry in list(self._entry_of.items()):
            if not state.cached[entry] and entry not in wanted:
                del self._entry_of[block_hash]
                self._free_entries.append(entry)
