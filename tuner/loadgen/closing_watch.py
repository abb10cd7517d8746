"""Watches windows that may close before their time, and decides when they do.

The decision is taken where the load was ordered, not in the processes that send it: they only tell
what became known, and are told when to close.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from tuner.loadgen.closing import PARTS, THROUGHPUT, Closing, closing_at, looks
from tuner.loadgen.load_result import LoadProgress
from tuner.loadgen.plan import OpenLoopSegment, Segment
from tuner.loadgen.records import FloatArray, Records
from tuner.loadgen.request_metrics import tokens_within
from tuner.loadgen.running_latencies import KnownLatencies, rows_of_records


class ClosingWatch:
    """Hears every process of a load; of the whole plan's `segments`."""

    def __init__(self, segments: Sequence[Segment], processes: int) -> None:
        self._watches = [
            None if segment.adaptive is None else _SegmentWatch(segment, processes)
            for segment in segments
        ]

    def hear(self, part: int, progress: LoadProgress) -> Closing | None:
        """The end of this segment's window, once, when it is found to have come."""
        watch = self._watches[progress.segment]
        return None if watch is None else watch.hear(part, progress)


class _SegmentWatch:
    def __init__(self, segment: Segment, processes: int) -> None:
        self._segment = segment
        self._looks: Iterator[tuple[int, float]] = iter(_looks(segment))
        self._next = next(self._looks, None)
        self._known = KnownLatencies(segment) if isinstance(segment, OpenLoopSegment) else None
        self._elapsed_s = [0.0] * processes
        self._tokens: list[list[int]] = [[] for _ in range(processes)]

    def hear(self, part: int, progress: LoadProgress) -> Closing | None:
        self._elapsed_s[part] = progress.elapsed_s
        self._tokens[part].extend(progress.part_tokens)
        if self._known is not None:
            self._known.add(progress.latencies)
        rule = self._segment.adaptive
        while rule is not None and self._next is not None and self._is_told(*self._next):
            parts, at_s = self._next
            closing = closing_at(rule, at_s, self._observations(parts, at_s))
            self._next = next(self._looks, None) if closing is None else None
            if closing is not None:
                return closing
        return None

    def _is_told(self, parts: int, at_s: float) -> bool:
        """Whether every process has told what it knew at the look."""
        if self._known is not None:
            return min(self._elapsed_s) >= at_s
        return all(len(tokens) >= parts for tokens in self._tokens)

    def _observations(self, parts: int, at_s: float) -> Mapping[str, FloatArray]:
        if self._known is not None:
            return self._known.observations(at_s)
        tokens = np.array([each[:parts] for each in self._tokens], dtype=np.float64)
        return {THROUGHPUT: tokens.sum(axis=0)}


def closing_of(segment: Segment, records: Records) -> Closing | None:
    """What the watch would have decided, from the records of the whole window."""
    if segment.adaptive is None:
        return None
    known, tokens = None, np.empty(0)
    if isinstance(segment, OpenLoopSegment):
        known = KnownLatencies(segment)
        known.add(rows_of_records(segment, records))
    else:
        tokens = tokens_within(records, segment.warmup_s, segment.window_end_s, PARTS)
    for parts, at_s in _looks(segment):
        seen = {THROUGHPUT: tokens[:parts]} if known is None else known.observations(at_s)
        closing = closing_at(segment.adaptive, at_s, seen)
        if closing is not None:
            return closing
    return None


def _looks(segment: Segment) -> tuple[tuple[int, float], ...]:
    if segment.adaptive is None:
        return ()
    return looks(segment.adaptive, segment.warmup_s, segment.longest_window_s)
