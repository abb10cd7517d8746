"""Records for tests, request by request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tuner.loadgen.load_result import (
    GeneratorHealth,
    SegmentReport,
    SegmentResult,
    SegmentWindow,
)
from tuner.loadgen.plan import ClosedLoopSegment, OpenLoopSegment, PlannedRequest, Segment
from tuner.loadgen.records import Outcome, Records

NAN = float("nan")


@dataclass(frozen=True, slots=True)
class Row:
    """One request; `frames` are arrival times, one token each unless `frame_tokens` says more."""

    due_s: float = NAN
    sent_s: float = NAN
    frames: tuple[float, ...] = ()
    frame_tokens: tuple[float, ...] | None = None
    outcome: Outcome = Outcome.COMPLETED
    ended_s: float | None = None
    prompt_tokens: int = 10

    @property
    def tokens(self) -> tuple[float, ...]:
        return (1.0,) * len(self.frames) if self.frame_tokens is None else self.frame_tokens

    @property
    def end_s(self) -> float:
        last = self.frames[-1] if self.frames else NAN
        return last if self.ended_s is None else self.ended_s


def records_of(rows: Sequence[Row]) -> Records:
    counts = [len(row.frames) for row in rows]
    received = [round(sum(row.tokens)) for row in rows]
    return Records(
        index=np.arange(len(rows)),
        prompt_tokens=np.array([row.prompt_tokens for row in rows], dtype=np.int64),
        asked_tokens=np.array(received, dtype=np.int64),
        received_tokens=np.array(received, dtype=np.int64),
        due_s=np.array([row.due_s for row in rows], dtype=np.float64),
        sent_s=np.array([row.sent_s for row in rows], dtype=np.float64),
        first_s=np.array([row.frames[0] if row.frames else NAN for row in rows]),
        last_s=np.array([row.frames[-1] if row.frames else NAN for row in rows]),
        ended_s=np.array([row.end_s for row in rows], dtype=np.float64),
        first_frame_tokens=np.array(
            [round(row.tokens[0]) if row.frames else 0 for row in rows], dtype=np.int64
        ),
        outcome=np.array([row.outcome for row in rows], dtype=np.int8),
        http_status=np.array([200] * len(rows), dtype=np.int16),
        detail=np.array([""] * len(rows), dtype=np.str_),
        frame_start=np.concatenate(([0], np.cumsum(counts, dtype=np.int64))),
        frame_s=np.array([at for row in rows for at in row.frames], dtype=np.float64),
        frame_tokens=np.array([n for row in rows for n in row.tokens], dtype=np.float64),
    )


def result_of(
    segment: Segment,
    rows: Sequence[Row],
    *,
    health: GeneratorHealth | None = GeneratorHealth(0.1, 1.0, 100),  # noqa: B008  # immutable
    list_exhausted: bool = False,
    given_up: str | None = None,
) -> SegmentResult:
    window = SegmentWindow(0.0, segment.window_s, 1e9, 1e9 + segment.window_s)
    report = SegmentReport(window, "a clock", health, list_exhausted, given_up, cache_salt=True)
    return SegmentResult(segment, records_of(rows), report)


def open_segment(
    *, warmup_s: float = 10.0, window_s: float = 10.0, drain_s: float = 5.0
) -> OpenLoopSegment:
    return OpenLoopSegment((PlannedRequest(0, 1, 1, 1, 0.0),), warmup_s, window_s, drain_s)


def closed_segment(
    *, concurrency: int = 2, warmup_s: float = 10.0, window_s: float = 10.0
) -> ClosedLoopSegment:
    return ClosedLoopSegment((PlannedRequest(0, 1, 1, 1),), concurrency, warmup_s, window_s)
