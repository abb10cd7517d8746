"""Requests sent at their due times, whatever the engine does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import numpy as np

from tuner.loadgen.closing import Closing
from tuner.loadgen.pacing import Pacer
from tuner.loadgen.plan import OpenLoopSegment, PlannedRequest
from tuner.loadgen.records import Outcome
from tuner.loadgen.segment_run import RunSettings, SegmentRun, end_tasks
from tuner.loadgen.turns import Turns

REPLENISHED_S = 0.1
"""Wall time within which connections that were taken have been replaced, generously."""

MOST_KEPT = 1024


class OpenLoopRun(SegmentRun):
    """Ends when every measured request has ended, at the latest with the drain."""

    def __init__(self, segment: OpenLoopSegment, settings: RunSettings) -> None:
        super().__init__(segment, settings)
        self._requests = segment.requests
        self._drain_s = segment.drain_s
        self._measured_left = sum(self._is_measured(request) for request in segment.requests)
        self._measured_done = asyncio.Event()
        self._turns = Turns(segment.requests)
        self._bodies: list[bytes] = []

    async def _load(self, timer: Pacer) -> None:
        # Before the first moment: nothing is serialised while requests are timed.
        self._bodies = [self.settings.bodies.build(request) for request in self._requests]
        if self._measured_left == 0:
            self._measured_done.set()
        at_once = most_due_within(self._requests, REPLENISHED_S * self.settings.time_scale)
        connections = min(at_once + 1, MOST_KEPT)
        await self.settings.transport.prepare(connections, keep=connections)
        await self._begin()
        moments_s = [self._wall_s(_due_s(request)) for request in self._requests]
        async with asyncio.TaskGroup() as group:
            sender = group.create_task(timer.pace(moments_s, self._due))
            await self._watch_window()
            await self.until(self.window_end_s + self._drain_s, self._measured_done)
            if self._stop.is_set():
                await end_tasks([sender])
            # The load stays up until the measured requests of every process have ended.
            await self.settings.rendezvous.meet()
            await end_tasks([sender])

    def close(self, closing: Closing) -> None:
        super().close(closing)
        left = (
            self._is_measured(request) and self.log.outcome(row) is Outcome.NOT_SENT
            for row, request in enumerate(self._requests)
        )
        self._measured_left = sum(left)
        if self._measured_left == 0:
            self._measured_done.set()

    def _due(self, row: int) -> None:
        """Send, unless the turn before is still being answered: then with its end."""
        if self._turns.may_begin(row):
            self._send(row, self._bodies[row])
        else:
            self.log.wait(row)

    def _ended(self, row: int, outcome: Outcome) -> None:
        following = self._turns.ended(row)
        if following is not None:
            self.log.due(following, time.monotonic())
            self._send(following, self._bodies[following])
        if self._is_measured(self._requests[row]):
            self._measured_left -= 1
            if self._measured_left == 0:
                self._measured_done.set()

    def _is_measured(self, request: PlannedRequest) -> bool:
        return self._window[0] <= _due_s(request) < self._window[1]


def _due_s(request: PlannedRequest) -> float:
    if request.due_s is None:
        raise ValueError(f"request {request.index} of an open loop has no due time")
    return request.due_s


def most_due_within(requests: Sequence[PlannedRequest], span_s: float) -> int:
    """The largest number of requests due within any span of that many engine seconds."""
    due_s = np.array(sorted(_due_s(request) for request in requests), dtype=np.float64)
    after = np.searchsorted(due_s, due_s + span_s, side="right")
    return int((after - np.arange(due_s.size)).max(initial=0))
