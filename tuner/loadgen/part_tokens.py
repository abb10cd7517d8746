"""Tokens of each part of a saturated window, counted while it runs."""

from __future__ import annotations

from tuner.loadgen.closing import PARTS
from tuner.loadgen.plan import ClosedLoopSegment, Segment
from tuner.loadgen.segment_run import SegmentRun


class PartTokens:
    """Counts where the segment's window may close early; else it has nothing to tell."""

    def __init__(self, segment: Segment, run: SegmentRun) -> None:
        self._segment = segment
        self._run = run
        self._counts: list[int] = []

    def new(self) -> list[int]:
        """Of the parts that have ended since the last call."""
        counts, self._counts = self._counts, []
        return counts

    async def count(self) -> None:
        """Return when the whole window is over, or at once where nothing is to be counted."""
        segment, run = self._segment, self._run
        if segment.adaptive is None or not isinstance(segment, ClosedLoopSegment):
            return
        await run.begun.wait()
        part_s = segment.longest_window_s / PARTS
        await run.until(segment.warmup_s)
        before = run.log.tokens
        for part in range(1, PARTS + 1):
            await run.until(segment.warmup_s + part * part_s)
            now = run.log.tokens
            self._counts.append(now - before)
            before = now
