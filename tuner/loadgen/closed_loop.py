"""A fixed number of requests always in flight."""

from __future__ import annotations

import asyncio
from collections import deque
from itertools import islice

from tuner.loadgen.pacing import Pacer
from tuner.loadgen.plan import ClosedLoopSegment
from tuner.loadgen.records import Outcome
from tuner.loadgen.segment_run import RunSettings, SegmentRun, end_tasks
from tuner.loadgen.turns import Turns

PAUSE_AFTER_FAILURE_S = 0.1
"""Engine time a slot rests after a failure, so that an engine which refuses requests at once is
not flooded with them."""

RAMP_S = 1.0
"""Engine time over which the slots are filled; all at once would be one wave."""


class ClosedLoopRun(SegmentRun):
    """Ends with the window; what is in flight then is cancelled and stays unfinished.

    A slot that has ended a turn goes on with the next turn of that conversation.
    """

    def __init__(self, segment: ClosedLoopSegment, settings: RunSettings) -> None:
        super().__init__(segment, settings)
        self._segment = segment
        self._turns = Turns(segment.requests)
        self._rows = (row for row in range(len(segment.requests)) if self._turns.begins(row))
        self._next_turns: dict[int, bytes] = {}
        self._built: deque[tuple[int, bytes]] = deque()
        self._exhausted = False

    @property
    def list_exhausted(self) -> bool:
        return self._exhausted

    async def _load(self, timer: Pacer) -> None:
        segment = self._segment
        ramp_s = min(RAMP_S, segment.warmup_s / 2)
        self._build(segment.concurrency)
        await self.settings.transport.prepare(segment.concurrency)
        await self._begin()
        moments_s = [
            self._wall_s(ramp_s * slot / segment.concurrency) for slot in range(segment.concurrency)
        ]
        async with asyncio.TaskGroup() as group:
            ramp = group.create_task(timer.pace(moments_s, lambda _: self._send_next()))
            await self._watch_window()
            await end_tasks([ramp])

    def _build(self, count: int) -> None:
        """Bodies are built this far ahead, so that none is built between an end and a send."""
        for row in islice(self._rows, count):
            self._built.append((row, self._body(row)))

    def _body(self, row: int) -> bytes:
        return self.settings.bodies.build(self._segment.requests[row])

    def _send_next(self, ended: int | None = None) -> None:
        """Send in the place of the row that has ended; None for a slot that is filled first."""
        if self._ending:
            return
        turn = None if ended is None else self._turns.following(ended)
        if turn is not None:
            self._send(turn, self._next_turns.pop(turn))
            self._build_turn_after(turn)
        elif self._built:
            row, body = self._built.popleft()
            self._send(row, body)
            self._build(1)
            self._build_turn_after(row)
        else:
            self._exhausted = True

    def _build_turn_after(self, row: int) -> None:
        turn = self._turns.following(row)
        if turn is not None:
            self._next_turns[turn] = self._body(turn)

    def _ended(self, row: int, outcome: Outcome) -> None:
        if outcome.failed:
            pause_s = PAUSE_AFTER_FAILURE_S / self.settings.time_scale
            asyncio.get_running_loop().call_later(pause_s, self._send_next, row)
        else:
            self._send_next(row)
