"""Requests of one segment while they run, and their records afterwards."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from tuner.loadgen.plan import PlannedRequest
from tuner.loadgen.records import Outcome, Records
from tuner.loadgen.response_stream import ResponseStream


class RequestLog:
    """One row per planned request. Rows of a closed loop that were never sent are left out."""

    def __init__(self, requests: Sequence[PlannedRequest]) -> None:
        self._requests = requests
        self._streams: list[ResponseStream | None] = [None] * len(requests)
        self._outcomes = [Outcome.NOT_SENT] * len(requests)
        self._details = [""] * len(requests)
        self._active: dict[int, ResponseStream] = {}
        self._due_wall_s: dict[int, float] = {}
        self.completed = 0
        self.failed = 0
        self.failed_in_a_row = 0
        self._last_token_s: float | None = None
        self._ended_tokens = 0

    @property
    def tokens(self) -> int:
        """Tokens received so far."""
        return self._ended_tokens + sum(stream.tokens for stream in self._active.values())

    @property
    def last_token_s(self) -> float | None:
        """When any request last received a token."""
        stamps = [stream.last_token_s for stream in self._active.values()]
        return max((s for s in (*stamps, self._last_token_s) if s is not None), default=None)

    @property
    def in_flight(self) -> int:
        return len(self._active)

    @property
    def unanswered(self) -> int:
        """Requests in flight that have had no token."""
        return sum(stream.last_token_s is None for stream in self._active.values())

    def stream(self, row: int) -> ResponseStream | None:
        """The row's answer so far; None while it was not sent."""
        return self._streams[row]

    def outcome(self, row: int) -> Outcome:
        """How the row's request ended; NOT_SENT while it has not."""
        return self._outcomes[row]

    def active_streams(self) -> Iterator[ResponseStream]:
        return iter(list(self._active.values()))

    def wait(self, row: int) -> None:
        """The row's moment has come, but it waits for another; it is not due until then."""
        self._due_wall_s[row] = math.nan

    def due(self, row: int, wall_s: float) -> None:
        """What the row was waiting for has ended."""
        self._due_wall_s[row] = wall_s

    def due_wall_s(self, row: int) -> float | None:
        """When a row that had to wait for another was due; None for one that had not, NaN while it
        waits."""
        return self._due_wall_s.get(row)

    def begin(self, row: int) -> ResponseStream:
        """The row's request is about to be sent."""
        stream = ResponseStream(self._requests[row].output_tokens)
        self._streams[row] = stream
        self._active[row] = stream
        return stream

    def end(self, row: int, outcome: Outcome, ended_s: float, detail: str = "") -> None:
        """The row's request is over."""
        stream = self._active.pop(row)
        stream.ended_s = ended_s
        self._ended_tokens += stream.tokens
        if stream.last_token_s is not None:
            self._last_token_s = max(self._last_token_s or 0.0, stream.last_token_s)
        self._outcomes[row] = outcome
        self._details[row] = detail
        if outcome is Outcome.COMPLETED:
            self.completed += 1
            self.failed_in_a_row = 0
        elif outcome.failed:
            self.failed += 1
            self.failed_in_a_row += 1

    def records(self, start_s: float, time_scale: float, *, only_sent: bool) -> Records:
        """Columns in engine seconds since `start_s` of the monotonic clock."""
        rows = [
            row for row, stream in enumerate(self._streams) if stream is not None or not only_sent
        ]
        requests = [self._requests[row] for row in rows]
        streams = [self._streams[row] or ResponseStream(0) for row in rows]
        frames = [np.frombuffer(stream.frame_s, dtype=np.float64) for stream in streams]
        counts = np.array([frame.size for frame in frames], dtype=np.int64)

        def engine_s(stamps: Sequence[float | None]) -> npt.NDArray[np.float64]:
            return (np.array(stamps, dtype=np.float64) - start_s) * time_scale

        return Records(
            index=_integers([request.index for request in requests]),
            prompt_tokens=_integers([request.prompt_tokens for request in requests]),
            asked_tokens=_integers([request.output_tokens for request in requests]),
            received_tokens=_integers([stream.received_tokens for stream in streams]),
            due_s=self._due_s(rows, start_s, time_scale),
            sent_s=engine_s([stream.sent_s for stream in streams]),
            first_s=engine_s([stream.frame_s[0] if stream.frame_s else None for stream in streams]),
            last_s=engine_s([stream.last_token_s for stream in streams]),
            ended_s=engine_s([stream.ended_s for stream in streams]),
            first_frame_tokens=_integers(
                [stream.frame_tokens[0] if stream.frame_s else 0 for stream in streams]
            ),
            outcome=np.array([self._outcomes[row] for row in rows], dtype=np.int8),
            http_status=np.array([stream.http_status for stream in streams], dtype=np.int16),
            detail=np.array([self._details[row] for row in rows], dtype=np.str_),
            frame_start=np.concatenate(([0], np.cumsum(counts))),
            frame_s=(_joined(frames) - start_s) * time_scale,
            frame_tokens=_joined([_tokens_per_frame(stream) for stream in streams]),
        )

    def _due_s(
        self, rows: Sequence[int], start_s: float, time_scale: float
    ) -> npt.NDArray[np.float64]:
        """As planned; of one that had to wait, when that was over, NaN where it never was."""
        due_s = np.array([self._requests[row].due_s for row in rows], dtype=np.float64)
        for place, row in enumerate(rows):
            if row in self._due_wall_s:
                due_s[place] = (self._due_wall_s[row] - start_s) * time_scale
        return due_s


def _tokens_per_frame(stream: ResponseStream) -> npt.NDArray[np.float64]:
    tokens = np.array(stream.frame_tokens, dtype=np.float64)
    if stream.running_count or stream.usage_tokens is None or tokens.size == 0:
        return tokens
    # Without a running count nobody knows which frame held how many.
    return tokens * (stream.usage_tokens / tokens.size)


def _integers(values: Sequence[int]) -> npt.NDArray[np.int64]:
    return np.array(values, dtype=np.int64)


def _joined(parts: Sequence[npt.NDArray[np.float64]]) -> npt.NDArray[np.float64]:
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.float64)
