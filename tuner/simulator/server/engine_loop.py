"""The engine: one task that lets the scheduler step and hands out each step's tokens when due."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from tuner.simulator.requests import StepResult
from tuner.simulator.scheduler import Scheduler
from tuner.simulator.server.alarm import Alarm
from tuner.simulator.server.metrics import EngineMetrics
from tuner.simulator.server.rejections import ENGINE_DEAD
from tuner.simulator.server.sequence import Sequence
from tuner.simulator.server.truth import Truth
from tuner.simulator.server.virtual_clock import VirtualClock
from tuner.simulator.simulator_options import Faults

_LATE_S = 0.002
_MAX_HELD_S = 0.005
_STALL_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class Death:
    """Why the engine ended by itself (`crash`, `vanished`, `oom`), and the server's exit code."""

    kind: str
    exit_code: int


class EngineLoop:
    """Drives a `Scheduler` on the virtual clock.

    The step's tokens go out at the wall time of the step's virtual end. While there is work a step
    begins where the last one ended, and sees only requests that had arrived by then, so that the
    engine's own times do not depend on how punctual this process is.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        clock: VirtualClock,
        metrics: EngineMetrics,
        faults: Faults,
        truth: Truth | None = None,
    ) -> None:
        self.clock = clock
        self.metrics = metrics
        self.truth = truth
        self.death: asyncio.Future[Death] = asyncio.get_running_loop().create_future()
        self._scheduler = scheduler
        self._faults = faults
        self._alarm = Alarm()
        self._wake = asyncio.Event()
        self._arrivals: deque[Sequence] = deque()
        self._sequences: dict[int, Sequence] = {}
        self._undelivered: dict[Sequence, None] = {}
        self._idle = asyncio.Event()
        self._idle.set()
        self._next_id = 0
        self._engine_s = 0.0
        self._delivered_at_s = 0.0

    # -- requests ------------------------------------------------------------------------------

    def next_id(self) -> int:
        self._next_id += 1
        return self._next_id

    @property
    def in_flight(self) -> int:
        return len(self._sequences)

    def submit(self, sequence: Sequence) -> None:
        """Queue a sequence whose arrival is now or in the past."""
        if self.death.done():
            sequence.sink.fail(ENGINE_DEAD)
            return
        self._sequences[sequence.request.request_id] = sequence
        self._arrivals.append(sequence)
        self._idle.clear()
        self._wake.set()

    def abort(self, sequences: Iterable[Sequence]) -> None:
        """Drop what has not finished, without a word to its sink: the client is gone."""
        for sequence in sequences:
            if sequence.finish_reason is None:
                self._end(sequence, "abort")

    def abort_all(self) -> None:
        """End everything with finish reason `abort`, tokens so far delivered: the server stops."""
        self._deliver()
        for sequence in list(self._sequences.values()):
            self._end(sequence, "abort")
            sequence.sink.deliver(sequence, sequence.generated - sequence.delivered)

    async def drain(self, timeout_s: float) -> None:
        """Wait until nothing is in flight, at most `timeout_s` wall seconds."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), timeout_s)

    def reset_prefix_cache(self) -> bool:
        return self._scheduler.reset_prefix_cache()

    def _end(self, sequence: Sequence, reason: str) -> None:
        request_id = sequence.request.request_id
        sequence.finish_reason = reason
        self._scheduler.abort(request_id)
        self._forget(sequence, self.clock.now_s())
        self._undelivered.pop(sequence, None)
        self._wake.set()

    def _forget(self, sequence: Sequence, end_s: float) -> None:
        if self._sequences.pop(sequence.request.request_id, None) is None:
            return
        if not self._sequences:
            self._idle.set()
        self.metrics.ended(sequence, end_s)
        if self.truth is not None:
            self.truth.record(sequence, end_s)

    # -- steps ---------------------------------------------------------------------------------

    async def run(self) -> None:
        """Serve until the engine dies; cancel to stop it."""
        try:
            while not self.death.done():
                self._admit(await self._next_start_s())
                if self._scheduler.has_work():
                    await self._step()
        finally:
            self._alarm.close()

    async def _next_start_s(self) -> float:
        """Where the next step starts: at the last one's end, or when the next request arrives."""
        while not self._scheduler.has_work() and not self._arrivals:
            self._deliver()
            self.metrics.gauges.running = self.metrics.gauges.waiting = 0
            self.metrics.gauges.used_blocks = self._scheduler.used_blocks
            self._wake.clear()
            await self._wake.wait()
        if not self._scheduler.has_work():
            self._engine_s = max(self._engine_s, self._arrivals[0].arrival_s)
        return self._engine_s

    def _admit(self, start_s: float) -> None:
        arrivals = self._arrivals
        while arrivals and arrivals[0].arrival_s <= start_s:
            sequence = arrivals.popleft()
            if sequence.finish_reason is None:
                self._scheduler.add(sequence.request)

    async def _step(self) -> None:
        result = self._scheduler.step(self._engine_s)
        await self._injected_fault()
        if self.death.done():
            return
        deadline_s = self.clock.wall_deadline_s(result.end_s)
        if deadline_s > time.monotonic():
            self._deliver()
        await self._alarm.wait_until(deadline_s)
        self._engine_s = result.end_s
        self._account(result)
        if result.scheduled_tokens == 0:
            await self._stalled()
            return
        now_s = time.monotonic()
        if self.truth is not None:
            self.truth.step_ended(now_s - deadline_s)
        if now_s - deadline_s < _LATE_S or now_s - self._delivered_at_s > _MAX_HELD_S:
            self._deliver()

    async def _stalled(self) -> None:
        """Nothing fits until a request comes or goes; a real engine spins here, this one waits."""
        self._deliver()
        self._wake.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), _STALL_POLL_S)
        self._engine_s = max(self._engine_s, self.clock.now_s())

    def _account(self, result: StepResult) -> None:
        """Bring every sequence of the step up to its end."""
        sequences, end_s = self._sequences, result.end_s
        for request_id, cached_tokens in result.admitted:
            admitted = sequences.get(request_id)
            if admitted is not None:
                admitted.scheduled_s = result.start_s
                admitted.cached_tokens = cached_tokens
                self.metrics.scheduled(admitted, self._scheduler.limits.prefix_caching)
        for request_id in result.preempted:
            if request_id in sequences:
                sequences[request_id].preemptions += 1
        self.metrics.stepped(result, self._advance(result.emitted, end_s))
        for request_id in result.finished:
            ended = sequences.get(request_id)
            if ended is not None:
                ended.finish_reason = "stop" if ended.stops_naturally else "length"
                self._forget(ended, end_s)

    def _advance(self, emitted: Iterable[int], end_s: float) -> list[Sequence]:
        """One token more for each; returns those whose first it was."""
        first_tokens: list[Sequence] = []
        gaps: dict[float, int] = {}
        for request_id in emitted:
            sequence = self._sequences.get(request_id)
            if sequence is None:
                continue
            sequence.generated += 1
            last_s = sequence.last_token_s
            if last_s is None:
                sequence.first_token_s = end_s
                first_tokens.append(sequence)
            else:
                gaps[last_s] = gaps.get(last_s, 0) + 1
            sequence.last_token_s = end_s
            if self.truth is not None:
                sequence.token_times_s.append(end_s)
            self._undelivered[sequence] = None
        for last_s, times in gaps.items():
            self.metrics.token_gap(end_s - last_s, times)
        return first_tokens

    def _deliver(self) -> None:
        """Hand out this step's tokens or, when late, those of the steps since: vLLM merges too."""
        undelivered, self._undelivered = self._undelivered, {}
        self._delivered_at_s = time.monotonic()
        for sequence in undelivered:
            sequence.sink.deliver(sequence, sequence.generated - sequence.delivered)

    # -- faults --------------------------------------------------------------------------------

    async def _injected_fault(self) -> None:
        step = self.metrics.steps + 1
        faults = self._faults
        if step == faults.kill_at_step:
            os.kill(os.getpid(), signal.SIGKILL)
        if step == faults.crash_at_step:
            self._die(Death("crash", 1))
        elif step == faults.exit_zero_at_step:
            self._die(Death("vanished", 0))
        elif step == faults.oom_at_step or self._scheduler.out_of_memory:
            self._die(Death("oom", 0))
        elif faults.hang_after_step is not None and step > faults.hang_after_step:
            self._deliver()
            await asyncio.Event().wait()

    def _die(self, death: Death) -> None:
        """Nothing of the running step arrives; every open answer ends with an error."""
        self.death.set_result(death)
        self._deliver()
        for sequence in list(self._sequences.values()):
            sequence.finish_reason = "error"
            self._forget(sequence, self._engine_s)
            sequence.sink.fail(ENGINE_DEAD)
