"""The scheduler, with what a server must know about each request's admission."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.simulator import kernel_state as kernel
from tuner.simulator.kernel_state import Costs
from tuner.simulator.limits import EngineLimits
from tuner.simulator.models import ModelGeometry
from tuner.simulator.requests import EngineRequest, StepResult
from tuner.simulator.scheduler import Scheduler


@dataclass(frozen=True, slots=True)
class Admission:
    """A request that ran for the first time in the last step, and what its prefix cost nothing."""

    request_id: int
    cached_tokens: int


class ObservedScheduler(Scheduler):
    """Reports first admissions; schedules exactly as its base does."""

    def __init__(
        self, limits: EngineLimits, model: ModelGeometry, costs: Costs, num_blocks: int
    ) -> None:
        super().__init__(limits, model, costs, num_blocks)
        self.admitted: tuple[Admission, ...] = ()
        self._unscheduled: dict[int, int] = {}
        """Slots of the requests that have never run, by request."""

    def add(self, request: EngineRequest) -> None:
        super().add(request)
        self._unscheduled[request.request_id] = self._slot_of[request.request_id]

    def abort(self, request_id: int) -> bool:
        self._unscheduled.pop(request_id, None)
        return super().abort(request_id)

    def step(self, now_s: float) -> StepResult:
        if not self._unscheduled:
            self.admitted = ()
            return super().step(now_s)
        cached = self._cached_of_waiting()
        result = super().step(now_s)
        self.admitted = self._newly_admitted(result, cached)
        return result

    def _newly_admitted(self, result: StepResult, cached: dict[int, int]) -> tuple[Admission, ...]:
        state = self._state
        running = set(state.running[: state.numbers[kernel.N_RUNNING]])
        ended = set(result.finished)
        admitted = [
            (request_id, slot)
            for request_id, slot in self._unscheduled.items()
            if slot in running or request_id in ended
        ]
        for request_id, _ in admitted:
            del self._unscheduled[request_id]
        return tuple(Admission(request_id, cached.get(slot, 0)) for request_id, slot in admitted)

    def _cached_of_waiting(self) -> dict[int, int]:
        """Cached prompt tokens of the waiting requests that one step's budget can reach."""
        if not self.limits.prefix_caching:
            return {}
        state = self._state
        budget = self.limits.max_num_batched_tokens
        found: dict[int, int] = {}
        slot = state.numbers[kernel.WAITING_HEAD]
        while slot != kernel.NONE and budget > 0:
            hits = self._cached_blocks_of(slot) * self.limits.block_size
            found[slot] = hits
            budget -= max(1, state.tokens[slot] - hits)
            slot = state.after[slot]
        return found

    def _cached_blocks_of(self, slot: int) -> int:
        """Leading blocks in the cache; the last token is always computed."""
        state = self._state
        start = state.hash_start[slot]
        longest = min(
            state.hash_stop[slot] - start, (state.tokens[slot] - 1) // self.limits.block_size
        )
        count = 0
        while count < longest and state.cached[state.hash_ids[start + count]]:
            count += 1
        return count
