"""Which requests of an open loop's window met an SLO, as soon as that is certain of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from objectives.slo import RequestOutcome, Slo
from tuner.loadgen.plan import OpenLoopSegment, PlannedRequest
from tuner.loadgen.records import FloatArray, IntArray, Outcome, Records
from tuner.loadgen.request_log import RequestLog
from tuner.loadgen.request_metrics import BoolArray, e2e_ms, tpot_ms, ttft_from_due_ms
from tuner.loadgen.response_stream import ResponseStream

BAD = 2.0
"""The strain of a bad request: by how much it is bad is often not known before it ends."""

VerdictRow = tuple[int, float, float | None, float | None]
"""A request's index in the plan, its strain, how late it was sent, engine seconds (None: not at
all), and its TTFT from due, engine ms: of one without a token the wait so far, of one that ended
without any None."""


def strain(outcome: RequestOutcome, slo: Slo) -> float:
    """The used share of the limit that was nearest to being exceeded, at most 1; `BAD` beyond."""
    if not slo.met_by(outcome):
        return BAD
    return max(
        _share(outcome.ttft_ms, slo.ttft_ms),
        _share(outcome.tpot_ms, slo.tpot_ms),
        _share(outcome.e2e_ms, slo.e2e_ms),
    )


def strains_of(records: Records, measured: BoolArray, slo: Slo) -> FloatArray:
    """Of the `measured` requests, in the order in which they were due."""
    rows = np.flatnonzero(measured)
    rows = rows[np.argsort(records.due_s[rows], kind="stable")]
    return np.array([strain(outcome, slo) for outcome in _outcomes(records, rows)])


def verdicts_of(records: Records, measured: BoolArray, slo: Slo) -> BoolArray:
    """Of the `measured` requests, in the records' order, which met the SLO."""
    rows = np.flatnonzero(measured)
    return np.array([slo.met_by(outcome) for outcome in _outcomes(records, rows)], dtype=np.bool_)


def _outcomes(records: Records, rows: IntArray) -> Iterator[RequestOutcome]:
    columns = (ttft_from_due_ms(records), tpot_ms(records), e2e_ms(records))
    table = zip(
        records.completed[rows].tolist(),
        *(column[rows].tolist() for column in columns),
        strict=True,
    )
    for completed, *latencies in table:
        yield RequestOutcome(completed, *(_number(value) for value in latencies))


class RunningVerdicts:
    """Tells each measured request of a running segment once, when nothing can change it any more.

    A request that is late for its first token, or whose answer lasts too long, is bad before it
    ends; the others are judged at their end, as `verdicts_of` judges their records.
    """

    def __init__(self, segment: OpenLoopSegment, slo: Slo, log: RequestLog) -> None:
        self._open = dict.fromkeys(measured_rows(segment))
        self._segment = segment
        self._slo = slo
        self._log = log

    def new(self, start_s: float, time_scale: float, now_s: float) -> list[VerdictRow]:
        """Those that became certain since the last call; moments are of the monotonic clock."""
        found: dict[int, VerdictRow] = {}
        for row in self._open:
            request = self._segment.requests[row]
            due_s = start_s + _due_s(request) / time_scale
            if due_s > now_s:
                break
            used = self._strain(row, due_s, time_scale, now_s)
            if used is not None:
                lag_s = self._lag_s(row, due_s, time_scale)
                waited_ms = self._waited_ms(row, due_s, 1000 * time_scale, now_s)
                found[row] = (request.index, used, lag_s, waited_ms)
        for row in found:
            del self._open[row]
        return list(found.values())

    def _lag_s(self, row: int, due_s: float, time_scale: float) -> float | None:
        stream = self._log.stream(row)
        if stream is None or stream.sent_s is None:
            return None
        return round((stream.sent_s - due_s) * time_scale, 6)

    def _waited_ms(self, row: int, due_s: float, to_ms: float, now_s: float) -> float | None:
        stream, ended = self._log.stream(row), self._log.outcome(row) is not Outcome.NOT_SENT
        if stream is not None and stream.frame_s:
            return round((stream.frame_s[0] - due_s) * to_ms, 3)
        return None if ended else round((now_s - due_s) * to_ms, 3)

    def _strain(self, row: int, due_s: float, time_scale: float, now_s: float) -> float | None:
        stream, outcome = self._log.stream(row), self._log.outcome(row)
        to_ms = 1000 * time_scale
        first_s = stream.frame_s[0] if stream is not None and stream.frame_s else None
        if outcome is not Outcome.NOT_SENT and stream is not None:
            return strain(ended_outcome(stream, outcome, due_s, to_ms), self._slo)
        if _exceeds(((first_s or now_s) - due_s) * to_ms, self._slo.ttft_ms):
            return BAD
        sent_s = None if stream is None else stream.sent_s
        if sent_s is not None and _exceeds((now_s - sent_s) * to_ms, self._slo.e2e_ms):
            return BAD
        return None


class VerdictSequence:
    """Verdicts put back into the order in which the requests were due.

    Only the unbroken beginning counts: answers that are short, or bad, are certain first, and
    whoever tested those alone would test other requests than the workload's.
    """

    def __init__(self, segment: OpenLoopSegment) -> None:
        """Of a whole segment, by however many processes it is sent."""
        self._order = [segment.requests[row].index for row in measured_rows(segment)]
        self._by_index: dict[int, VerdictRow] = {}
        self._in_order: list[VerdictRow] = []

    def add(self, rows: Sequence[VerdictRow]) -> None:
        """Take in what became certain, in any order."""
        self._by_index.update((row[0], row) for row in rows)
        for index in self._order[len(self._in_order) :]:
            row = self._by_index.pop(index, None)
            if row is None:
                break
            self._in_order.append(row)

    @property
    def strains(self) -> FloatArray:
        """Of the unbroken beginning."""
        return np.array([row[1] for row in self._in_order], dtype=np.float64)

    @property
    def waits_ms(self) -> dict[int, float]:
        """TTFT so far by index in the plan, of those of it that have one or wait for it."""
        return {row[0]: row[3] for row in self._in_order if row[3] is not None}

    @property
    def lags_s(self) -> FloatArray:
        """Of those of it that were sent."""
        return np.array([row[2] for row in self._in_order if row[2] is not None])


def measured_rows(segment: OpenLoopSegment) -> list[int]:
    """Those due in the window, in that order."""
    end_s = segment.window_end_s
    rows = [
        row
        for row, request in enumerate(segment.requests)
        if segment.warmup_s <= _due_s(request) < end_s
    ]
    return sorted(rows, key=lambda row: _due_s(segment.requests[row]))


def ended_outcome(
    stream: ResponseStream, outcome: Outcome, due_s: float, to_ms: float
) -> RequestOutcome:
    """What a request that has ended was like; `due_s` is of the monotonic clock."""
    if not stream.frame_s or stream.sent_s is None or stream.last_token_s is None:
        return RequestOutcome(completed=False)
    first_s, last_s = stream.frame_s[0], stream.last_token_s
    later_tokens = stream.received_tokens - stream.frame_tokens[0]
    defined = later_tokens > 0 and last_s > first_s
    return RequestOutcome(
        completed=outcome is Outcome.COMPLETED,
        ttft_ms=(first_s - due_s) * to_ms,
        tpot_ms=(last_s - first_s) * to_ms / later_tokens if defined else None,
        e2e_ms=(last_s - stream.sent_s) * to_ms,
    )


def _share(value_ms: float | None, limit_ms: float | None) -> float:
    return 0.0 if value_ms is None or limit_ms is None else min(1.0, value_ms / limit_ms)


def _exceeds(so_far_ms: float, limit_ms: float | None) -> bool:
    return limit_ms is not None and so_far_ms > limit_ms


def _due_s(request: PlannedRequest) -> float:
    return request.due_s or 0.0


def _number(value: float) -> float | None:
    return None if np.isnan(value) else value
