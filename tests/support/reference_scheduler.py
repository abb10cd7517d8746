"""vLLM V1's scheduling written a second time, as plainly as possible, to check the kernel against.

Objects and lists instead of columns and links; no prefix cache, no sliding window, no time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tuner.simulator.limits import EngineLimits
from tuner.simulator.requests import EngineRequest


@dataclass
class Running:
    """A request in the engine."""

    request: EngineRequest
    arrival: int
    target: int
    generated: int = 0
    computed: int = 0
    blocks: int = 0

    @property
    def tokens(self) -> int:
        return self.request.prompt_tokens + self.generated

    @property
    def urgency(self) -> tuple[int, int]:
        return self.request.priority, self.arrival


@dataclass
class Outcome:
    """What one step did."""

    scheduled: dict[int, int] = field(default_factory=dict)
    emitted: list[int] = field(default_factory=list)
    finished: list[int] = field(default_factory=list)
    preempted: list[int] = field(default_factory=list)
    used_blocks: int = 0


class ReferenceScheduler:
    """The same contract as `Scheduler.add` and `Scheduler.step`."""

    def __init__(self, limits: EngineLimits, num_blocks: int) -> None:
        self.limits = limits
        self.free = num_blocks
        self.num_blocks = num_blocks
        self.running: list[Running] = []
        self.waiting: list[Running] = []
        self.arrivals = 0

    def add(self, request: EngineRequest) -> None:
        room = self.limits.max_model_len - request.prompt_tokens
        self._queue(Running(request, self.arrivals, min(request.output_tokens, room)))
        self.arrivals += 1

    def has_work(self) -> bool:
        return bool(self.running or self.waiting)

    def step(self) -> Outcome:
        outcome = Outcome()
        budget = self._schedule_running(self.limits.max_num_batched_tokens, outcome)
        if not outcome.preempted:
            self._schedule_waiting(budget, outcome)
        outcome.used_blocks = self.num_blocks - self.free
        self._finish(outcome)
        return outcome

    def _queue(self, one: Running) -> None:
        self.waiting.append(one)
        if self.limits.priority_scheduling:
            self.waiting.sort(key=lambda w: w.urgency)

    def _blocks(self, tokens: int) -> int:
        return -(-tokens // self.limits.block_size)

    def _chunk(self, one: Running, budget: int) -> int:
        wanted = one.tokens - one.computed
        threshold = self.limits.long_prefill_threshold
        if threshold and wanted > threshold:
            wanted = threshold
        return min(wanted, budget)

    def _schedule_running(self, budget: int, outcome: Outcome) -> int:
        for one in list(self.running):
            if budget == 0:
                break
            if one not in self.running:
                continue
            chunk = self._chunk(one, budget)
            while self.free < self._blocks(one.computed + chunk) - one.blocks:
                victim = self.running[-1]
                if self.limits.priority_scheduling:
                    victim = max(self.running, key=lambda r: r.urgency)
                budget += outcome.scheduled.pop(victim.request.request_id, 0)
                self._preempt(victim, outcome)
                if victim is one:
                    break
            if one not in self.running:
                # Nothing is left to preempt for those behind it either.
                break
            self._hold(one, one.computed + chunk)
            outcome.scheduled[one.request.request_id] = chunk
            budget -= chunk
        return budget

    def _preempt(self, victim: Running, outcome: Outcome) -> None:
        self.running.remove(victim)
        self.free += victim.blocks
        victim.blocks = victim.computed = 0
        outcome.preempted.append(victim.request.request_id)
        if self.limits.priority_scheduling:
            self._queue(victim)
        else:
            self.waiting.insert(0, victim)

    def _hold(self, one: Running, tokens: int) -> None:
        more = max(0, self._blocks(tokens) - one.blocks)
        self.free -= more
        one.blocks += more

    def _schedule_waiting(self, budget: int, outcome: Outcome) -> None:
        while self.waiting and budget and len(self.running) < self.limits.max_num_seqs:
            one = self.waiting[0]
            chunk = self._chunk(one, one.tokens)
            if chunk > budget:
                if not self.limits.chunked_prefill:
                    return
                chunk = budget
            must_fit = one.tokens if self.limits.reserve_full_prompt else chunk
            if self._blocks(must_fit) > self.free:
                return
            self._hold(one, chunk)
            self.running.append(self.waiting.pop(0))
            outcome.scheduled[one.request.request_id] = chunk
            budget -= chunk

    def _finish(self, outcome: Outcome) -> None:
        for one in list(self.running):
            one.computed += outcome.scheduled.get(one.request.request_id, 0)
            if one.request.request_id not in outcome.scheduled or one.computed < one.tokens:
                continue
            one.generated += 1
            outcome.emitted.append(one.request.request_id)
            if one.generated == one.target:
                outcome.finished.append(one.request.request_id)
                self.free += one.blocks
                self.running.remove(one)
