"""The first requests of an open loop's window at one moment: enough to see that it is hopeless.

The generator's process reports them while the segment runs, a finished segment's records give the
same numbers afterwards: both look at the same requests as they stood at the same moment.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from objectives.measurement import PrefixSummary
from tuner.loadgen.plan import OpenLoopSegment
from tuner.loadgen.records import FloatArray, Records
from tuner.loadgen.request_log import RequestLog
from tuner.loadgen.statistics import distribution

REQUESTS_SHARE = 0.25
"""Of the window: requests due in this part of it are looked at."""

LOOK_SHARE = 0.35
"""Of the window: when they are looked at. The last of them had a tenth of the window by then."""

MOST_REQUESTS = 1_000
"""More would take the generator longer to report than it may stand still."""

FEWEST_FRAMES = 8
"""A request with fewer has no mean gap worth the name yet."""

PrefixRow = tuple[float, float | None, float | None, float | None, int]
"""Due, sent, first and last frame until the look (seconds from the segment's start; None: not yet)
and the number of frames until then."""


@dataclass(frozen=True, slots=True)
class Look:
    """Which rows of an open-loop segment are looked at, and when."""

    rows: tuple[int, ...]
    window_s: float
    at_s: float

    @classmethod
    def of(cls, segment: OpenLoopSegment) -> Look:
        window_s = REQUESTS_SHARE * segment.longest_window_s
        end_s = segment.warmup_s + window_s
        rows = [
            row
            for row, request in enumerate(segment.requests)
            # A turn that may wait for the one before it is due when that has ended, not as planned.
            if request.due_s is not None
            and request.after is None
            and segment.warmup_s <= request.due_s < end_s
        ]
        at_s = segment.warmup_s + LOOK_SHARE * segment.longest_window_s
        return cls(tuple(rows[:MOST_REQUESTS]), window_s, at_s)


def rows_of_log(
    look: Look, segment: OpenLoopSegment, log: RequestLog, start_s: float, time_scale: float
) -> list[PrefixRow]:
    """The rows of a running segment that began at `start_s` of the monotonic clock."""
    look_wall_s = start_s + look.at_s / time_scale
    found: list[PrefixRow] = []
    for row in look.rows:
        due_s, stream = segment.requests[row].due_s or 0.0, log.stream(row)
        if stream is None or stream.sent_s is None or stream.sent_s > look_wall_s:
            found.append((due_s, None, None, None, 0))
            continue
        frames = bisect_right(stream.frame_s, look_wall_s)
        ends = (stream.frame_s[0], stream.frame_s[frames - 1]) if frames else (None, None)
        sent_s, first_s, last_s = (
            None if wall_s is None else round((wall_s - start_s) * time_scale, 6)
            for wall_s in (stream.sent_s, *ends)
        )
        found.append((due_s, sent_s, first_s, last_s, frames))
    return found


def rows_of_records(look: Look, segment: OpenLoopSegment, records: Records) -> list[PrefixRow]:
    """The same rows, from the records of the finished segment."""
    place_of = {int(index): place for place, index in enumerate(records.index)}
    found: list[PrefixRow] = []
    for row in look.rows:
        request = segment.requests[row]
        due_s, place = request.due_s or 0.0, place_of.get(request.index)
        sent_s = np.nan if place is None else float(records.sent_s[place])
        if place is None or not sent_s <= look.at_s:
            found.append((due_s, None, None, None, 0))
            continue
        begin, end = int(records.frame_start[place]), int(records.frame_start[place + 1])
        frame_s = records.frame_s[begin:end]
        frames = int(np.searchsorted(frame_s, look.at_s, side="right"))
        ends = (float(frame_s[0]), float(frame_s[frames - 1])) if frames else (None, None)
        found.append((due_s, sent_s, *ends, frames))
    return found


def prefix_summary(look: Look, rows: Sequence[PrefixRow], *, seed: int = 0) -> PrefixSummary:
    """What is known of these requests at the look."""
    due_s, _, first_s, last_s, frames = _columns(rows)
    answered = ~np.isnan(first_s)
    waited_ms = (np.where(answered, first_s, look.at_s) - due_s) * 1000
    unanswered = int(np.count_nonzero(~answered))
    decoding = frames >= FEWEST_FRAMES
    gaps_ms = ((last_s - first_s) * 1000)[decoding] / (frames[decoding] - 1)
    return PrefixSummary(
        window_s=look.window_s,
        looked_at_s=look.at_s,
        requests=len(rows),
        unanswered=unanswered,
        ttft_ms=distribution(waited_ms, seed=seed, censored=unanswered),
        tpot_ms=distribution(gaps_ms, seed=seed),
    )


def send_lags_s(rows: Sequence[PrefixRow]) -> FloatArray:
    """Due to sent in engine seconds, of the requests that were sent."""
    due_s, sent_s, *_ = _columns(rows)
    sent = ~np.isnan(sent_s)
    return np.asarray((sent_s - due_s)[sent], dtype=np.float64)


def mean_gap_ms(rows: Sequence[PrefixRow]) -> float | None:
    """Mean gap between frames over all these requests' frames; None where none has two."""
    _, _, first_s, last_s, frames = _columns(rows)
    several = frames > 1
    gaps = float((frames[several] - 1).sum())
    return float((last_s - first_s)[several].sum()) * 1000 / gaps if gaps else None


def _columns(rows: Sequence[PrefixRow]) -> tuple[FloatArray, ...]:
    table = np.array(rows, dtype=np.float64).reshape(len(rows), 5)
    return tuple(table.T)
