"""Latencies of an open loop's measured requests, each told as soon as it is known."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np

from objectives.slo import RequestOutcome
from tuner.loadgen.closing import ATTAINMENT
from tuner.loadgen.plan import OpenLoopSegment
from tuner.loadgen.records import FloatArray, Outcome, Records
from tuner.loadgen.request_log import RequestLog
from tuner.loadgen.request_metrics import e2e_ms, tpot_ms, ttft_from_due_ms
from tuner.loadgen.verdicts import ended_outcome, measured_rows

LatencyRow = tuple[int, float, bool | None, float | None, float | None, float | None]
"""A request's index in the plan, when this was known (engine seconds from the segment's start),
whether it was completed (None: it runs, its first token has come), TTFT from when it was due, TPOT
and E2E in milliseconds (None: none)."""


class RunningLatencies:
    """Tells each measured request of a running segment twice: answered, and ended."""

    def __init__(self, segment: OpenLoopSegment, log: RequestLog) -> None:
        self._open = dict.fromkeys(measured_rows(segment), False)
        """Rows that have not been told as ended, and whether their first token was told."""
        self._segment = segment
        self._log = log

    def new(self, start_s: float, time_scale: float, now_s: float) -> list[LatencyRow]:
        """What became known since the last call; moments are of the monotonic clock."""
        found: dict[int, LatencyRow] = {}
        for row, answered in self._open.items():
            if start_s + (self._segment.requests[row].due_s or 0.0) / time_scale > now_s:
                break
            known = self._known(row, start_s, time_scale)
            if known is not None and not (answered and known[2] is None):
                found[row] = known
        for row, known in found.items():
            self._open[row] = True
            if known[2] is not None:
                del self._open[row]
        return list(found.values())

    def _known(self, row: int, start_s: float, time_scale: float) -> LatencyRow | None:
        request, stream = self._segment.requests[row], self._log.stream(row)
        if stream is None:
            return None
        waited_until_s = self._log.due_wall_s(row)
        due_s = start_s + (request.due_s or 0.0) / time_scale
        due_s = due_s if waited_until_s is None else waited_until_s
        to_ms, outcome = 1000 * time_scale, self._log.outcome(row)
        if outcome is not Outcome.NOT_SENT and stream.ended_s is not None:
            ended_s = (stream.ended_s - start_s) * time_scale
            completed = outcome is Outcome.COMPLETED
            found = ended_outcome(stream, outcome, due_s, to_ms)
            tpot, e2e = (found.tpot_ms, found.e2e_ms) if completed else (None, None)
            return request.index, ended_s, completed, found.ttft_ms, tpot, e2e
        if not stream.frame_s:
            return None
        first_s = stream.frame_s[0]
        ttft_ms = (first_s - due_s) * to_ms
        return request.index, (first_s - start_s) * time_scale, None, ttft_ms, None, None


def rows_of_records(segment: OpenLoopSegment, records: Records) -> list[LatencyRow]:
    """The same rows from the records of the finished segment."""
    columns = zip(
        records.index.tolist(),
        records.first_s.tolist(),
        records.ended_s.tolist(),
        records.completed.tolist(),
        ttft_from_due_ms(records).tolist(),
        np.where(records.completed, tpot_ms(records), np.nan).tolist(),
        e2e_ms(records).tolist(),
        strict=True,
    )
    found: list[LatencyRow] = []
    for index, first_s, ended_s, completed, *latencies in columns:
        ttft_ms, *others = (None if math.isnan(value) else value for value in latencies)
        if not math.isnan(first_s):
            found.append((index, first_s, None, ttft_ms, None, None))
        if not math.isnan(ended_s):
            tpot, e2e = others
            found.append((index, ended_s, completed, ttft_ms, tpot, e2e))
    return found


class KnownLatencies:
    """What has been told of a whole segment's requests, by however many processes it is sent."""

    def __init__(self, segment: OpenLoopSegment) -> None:
        rows = measured_rows(segment)
        requests = [segment.requests[row] for row in rows]
        self._place = {request.index: place for place, request in enumerate(requests)}
        self._slo = segment.slo
        self._due_s = np.array([request.due_s for request in requests], dtype=np.float64)
        self._answered_s = np.full(len(rows), np.inf)
        self._ended_s = np.full(len(rows), np.inf)
        self._ttft_ms = np.full(len(rows), np.inf)
        self._tpot_ms = np.full(len(rows), np.nan)
        self._good = np.zeros(len(rows))

    def add(self, rows: Iterable[LatencyRow]) -> None:
        """Take in what became known, in any order."""
        for index, known_s, completed, ttft_ms, tpot, e2e in rows:
            place = self._place.get(index)
            if place is None:
                continue
            self._answered_s[place] = min(self._answered_s[place], known_s)
            if ttft_ms is not None:
                self._ttft_ms[place] = ttft_ms
            if completed is None:
                continue
            self._ended_s[place] = known_s
            self._tpot_ms[place] = np.nan if tpot is None else tpot
            if self._slo is not None:
                outcome = RequestOutcome(completed, ttft_ms, tpot, e2e)
                self._good[place] = float(self._slo.met_by(outcome))

    def observations(self, at_s: float) -> Mapping[str, FloatArray]:
        """What was known at a moment, of the requests due before it: of each latency the unbroken
        beginning. Answers that are short are known first; who counted those would measure others
        than the workload's."""
        due = int(np.searchsorted(self._due_s, at_s))
        answered = _unbroken(self._answered_s[:due] <= at_s)
        ended = _unbroken(self._ended_s[:due] <= at_s)
        tpot_ms = self._tpot_ms[:ended]
        found = {"ttft": self._ttft_ms[:answered], "tpot": tpot_ms[~np.isnan(tpot_ms)]}
        if self._slo is not None:
            found[ATTAINMENT] = self._good[:ended]
        return found


def _unbroken(known: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> int:
    return int(known.size if known.all() else np.argmin(known))
