"""A fixed number of requests always in flight."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from tuner.loadgen.pacing import Pacer
from tuner.loadgen.plan import ClosedLoopSegment
from tuner.loadgen.segment_run import RunSettings, SegmentRun, end_tasks

PAUSE_AFTER_FAILURE_S = 0.1
"""Engine time a slot rests after a failure, so that an engine which refuses requests at once is
not flooded with them."""

RAMP_S = 1.0
"""Engine time over which the slots are filled; all at once would be one wave."""


class ClosedLoopRun(SegmentRun):
    """Ends with the window; what is in flight then is cancelled and stays unfinished."""

    def __init__(self, segment: ClosedLoopSegment, settings: RunSettings) -> None:
        super().__init__(segment, settings)
        self._segment = segment
        self._exhausted = False

    @property
    def list_exhausted(self) -> bool:
        return self._exhausted

    async def _load(self, timer: Pacer) -> None:
        segment = self._segment
        ramp_s = min(RAMP_S, segment.warmup_s / 2)
        rows = iter(range(len(segment.requests)))
        self._begin()
        async with asyncio.TaskGroup() as group:
            slots = [
                group.create_task(self._slot(rows, ramp_s * number / segment.concurrency))
                for number in range(segment.concurrency)
            ]
            await self._watch_window()
            await end_tasks(slots)

    async def _slot(self, rows: Iterator[int], begin_s: float) -> None:
        await self._until(begin_s)
        for row in rows:
            body = self.settings.bodies.build(self._segment.requests[row])
            outcome = await self._request(row, body)
            if outcome.failed:
                await asyncio.sleep(PAUSE_AFTER_FAILURE_S / self.settings.time_scale)
        self._exhausted = True
