"""A fixed number of requests in flight: saturation, or users who wait for their answers."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from itertools import islice

from tuner.loadgen.pacing import Pacer
from tuner.loadgen.plan import ClosedLoopSegment, UserLoopSegment
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

    def __init__(self, segment: ClosedLoopSegment | UserLoopSegment, settings: RunSettings) -> None:
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
        self._build(segment.concurrency)
        await self.settings.transport.prepare(segment.concurrency)
        await self._begin()
        moments_s = [self._wall_s(first_s) for first_s in self._first_moments_s()]
        async with asyncio.TaskGroup() as group:
            ramp = group.create_task(timer.pace(moments_s, lambda _: self._send_next()))
            await self._watch_window()
            await self._after_window()
            await end_tasks([ramp])

    def _first_moments_s(self) -> Sequence[float]:
        """When each slot is filled first, ascending."""
        ramp_s = min(RAMP_S, self._segment.warmup_s / 2)
        slots = self._segment.concurrency
        return [ramp_s * slot / slots for slot in range(slots)]

    async def _after_window(self) -> None:
        """The load ends with its window."""

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


class UserLoopRun(ClosedLoopRun):
    """Users who wait for their answers; ends when every measured request has ended, at the latest
    with the drain. Until then all of them go on.

    A request is due when its user's turn has come: what may pass until it is sent is ours.
    """

    def __init__(self, segment: UserLoopSegment, settings: RunSettings) -> None:
        super().__init__(segment, settings)
        self._users = segment
        self._measured: set[int] = set()
        self._measured_done = asyncio.Event()
        self._closed = False

    def _first_moments_s(self) -> Sequence[float]:
        """Users who think are met thinking: all at once in need of an answer, they would be a wave
        that is no part of the load."""
        pairs = zip(super()._first_moments_s(), self._users.requests, strict=False)
        return sorted(at_s + request.pause_after_s for at_s, request in pairs)

    async def _after_window(self) -> None:
        self._closed = True
        self._note_end()
        await self.until(self._users.window_end_s + self._users.drain_s, self._measured_done)
        # Users go on until the measured requests of every process have ended.
        await self.settings.rendezvous.meet()

    def _send(self, row: int, body: bytes) -> None:
        now_s = time.monotonic()
        self.log.due(row, now_s)
        due_s = (now_s - self.start_s) * self.settings.time_scale
        if self._window[0] <= due_s < self._window[1]:
            self._measured.add(row)
        super()._send(row, body)

    def _send_next(self, ended: int | None = None) -> None:
        if not self._stop.is_set():
            super()._send_next(ended)

    def _ended(self, row: int, outcome: Outcome) -> None:
        self._measured.discard(row)
        self._note_end()
        pause_s = self._users.requests[row].pause_after_s
        if outcome.failed:
            pause_s = max(pause_s, PAUSE_AFTER_FAILURE_S)
        if pause_s > 0:
            wall_s = pause_s / self.settings.time_scale
            asyncio.get_running_loop().call_later(wall_s, self._send_next, row)
        else:
            self._send_next(row)

    def _note_end(self) -> None:
        if self._closed and not self._measured:
            self._measured_done.set()
