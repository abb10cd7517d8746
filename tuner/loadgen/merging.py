"""What the processes of one load report, put together as if one process had sent it all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from tuner.loadgen.load_result import GeneratorHealth, LoadProgress, SegmentReport
from tuner.loadgen.partition import owners
from tuner.loadgen.plan import OpenLoopSegment, Segment
from tuner.loadgen.prefix import Look, PrefixRow
from tuner.loadgen.records import IntArray, Records
from tuner.loadgen.verdicts import VerdictRow

FRAME_COLUMNS = ("frame_start", "frame_s", "frame_tokens")


def merged_records(parts: Sequence[Records]) -> Records:
    """All requests in the order of the plan. The parts must count time from one moment."""
    index = np.concatenate([part.index for part in parts])
    order = np.argsort(index, kind="stable")
    counts = np.concatenate([np.diff(part.frame_start) for part in parts])
    frames = _frame_order(counts, order)
    columns = {
        field.name: np.concatenate([getattr(part, field.name) for part in parts])[order]
        for field in fields(Records)
        if field.name not in FRAME_COLUMNS
    }
    return Records(
        **columns,
        frame_start=np.concatenate(([0], np.cumsum(counts[order]))),
        frame_s=np.concatenate([part.frame_s for part in parts])[frames],
        frame_tokens=np.concatenate([part.frame_tokens for part in parts])[frames],
    )


def _frame_order(counts: IntArray, order: IntArray) -> IntArray:
    """Where the frames of the reordered requests lie among those of the requests as they were."""
    begins = np.concatenate(([0], np.cumsum(counts)[:-1])) if counts.size else counts
    placed = counts[order]
    before = np.concatenate(([0], np.cumsum(placed)[:-1])) if placed.size else placed
    return np.repeat(begins[order] - before, placed) + np.arange(placed.sum())


def merged_report(parts: Sequence[SegmentReport]) -> SegmentReport:
    """Of each property what the worst of the processes says."""
    clocks = sorted({part.clock for part in parts})
    # All are told to close at one moment; one that was over before it heard of it measured longer.
    first = next((part for part in parts if part.closing is not None), parts[0])
    return replace(
        first,
        clock=clocks[-1],  # "user space" comes after "kernel"
        health=_merged_health([part.health for part in parts]),
        list_exhausted=any(part.list_exhausted for part in parts),
        given_up=next((part.given_up for part in parts if part.given_up), None),
        cache_salt=all(part.cache_salt for part in parts),
        clock_step_ms=max(part.clock_step_ms for part in parts),
        processes=len(parts),
    )


def _merged_health(parts: Sequence[GeneratorHealth | None]) -> GeneratorHealth | None:
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    return GeneratorHealth(
        cpu_share=max(part.cpu_share for part in known),
        loop_stall_max_ms=max(part.loop_stall_max_ms for part in known),
        reads=sum(part.reads for part in known),
    )


class MergedProgress:
    """Progress of a load of several processes, told at the pace of the first of them."""

    def __init__(self, processes: int, views: Sequence[LookedAt | None]) -> None:
        """`views` holds the look at each segment of the whole plan; None where there is none."""
        self._latest: list[LoadProgress | None] = [None] * processes
        self._views = views
        self._prefixes: dict[int, dict[int, Sequence[PrefixRow]]] = {}
        self._verdicts: dict[int, list[VerdictRow]] = {}

    def take(self, part: int, progress: LoadProgress) -> LoadProgress | None:
        """The whole load's progress, when there is something to tell."""
        self._latest[part] = progress
        if progress.prefix is not None:
            self._prefixes.setdefault(progress.segment, {})[part] = progress.prefix
        self._verdicts.setdefault(progress.segment, []).extend(progress.verdicts)
        latest = [each for each in self._latest if each is not None]
        if part != 0 or len(latest) < len(self._latest):
            return None
        last = min(latest, key=lambda each: (each.segment, each.elapsed_s))
        here = [each for each in latest if each.segment == last.segment]
        return replace(
            last,
            completed=sum(each.completed for each in here),
            failed=sum(each.failed for each in here),
            in_flight=sum(each.in_flight for each in here),
            prefix=self._prefix(last.segment),
            verdicts=tuple(self._verdicts.pop(last.segment, ())),
            unanswered=sum(each.unanswered for each in here),
        )

    def _prefix(self, segment: int) -> list[PrefixRow] | None:
        """Once, when every process has told its part."""
        parts, view = self._prefixes.get(segment, {}), self._views[segment]
        if view is None or len(parts) < len(self._latest):
            return None
        del self._prefixes[segment]
        rows: list[Iterator[PrefixRow]] = [iter(parts[part]) for part in range(len(parts))]
        return [next(rows[owner]) for owner in view.owners]


@dataclass(frozen=True, slots=True)
class LookedAt:
    """The rows of a segment that are looked at, by the process which sends each."""

    owners: tuple[int, ...]

    @classmethod
    def of(cls, segment: Segment, processes: int) -> LookedAt | None:
        """None for a segment that is not looked at."""
        if not isinstance(segment, OpenLoopSegment):
            return None
        sent_by = owners(segment.requests, processes)
        return cls(tuple(sent_by[row] for row in Look.of(segment).rows))
