"""One request's answer as it comes in."""

from __future__ import annotations

from array import array
from collections.abc import Callable

from tuner.loadgen.records import Outcome
from tuner.loadgen.sse import (
    CONTENT,
    EMPTY,
    FrameSplitter,
    is_next_token,
    quick_count,
    read_frame,
)
from tuner.loadgen.stream_fault import StreamFault

DONE = b"[DONE]"
GOOD_FINISH_REASONS = ("length", "stop")


class ResponseStream:
    """Collects token arrivals of one request. Stamps are seconds of the monotonic clock.

    A frame with tokens is one in which the engine's running count grew; for an engine that does
    not report one, one with text, reasoning or a tool call. The usage-only event is not a frame.
    """

    __slots__ = (
        "asked_tokens",
        "close_connection",
        "done",
        "ended_s",
        "fault",
        "finish_reason",
        "frame_s",
        "frame_tokens",
        "http_status",
        "last_token_s",
        "running_count",
        "sent_s",
        "splitter",
        "tokens",
        "usage_tokens",
    )

    def __init__(self, asked_tokens: int) -> None:
        self.asked_tokens = asked_tokens
        self.sent_s: float | None = None
        self.ended_s: float | None = None
        self.last_token_s: float | None = None
        self.http_status = 0
        self.frame_s = array("d")
        self.frame_tokens = array("q")
        self.tokens = 0
        self.usage_tokens: int | None = None
        self.running_count = False
        self.finish_reason: str | None = None
        self.done = False
        self.fault: StreamFault | None = None
        self.splitter = FrameSplitter()
        self.close_connection: Callable[[], None] | None = None

    def feed(self, stamp_s: float, data: bytes) -> None:
        """Take in bytes read at `stamp_s`. Raises StreamFault when they are no event stream."""
        if not self.splitter.rest and is_next_token(data, self.tokens + 1):
            self.running_count = True
            self._add_frame(stamp_s, 1)
            return
        for payload in self.splitter.feed(data):
            count = quick_count(payload)
            if count >= 0:
                self._counted(stamp_s, count)
            elif count == CONTENT:
                self._add_frame(stamp_s, 1)
            elif count != EMPTY:
                self._feed_unclear(stamp_s, payload)

    def fail(self, fault: StreamFault) -> None:
        """End the request from outside with this fault, unless it has one already."""
        self.fault = self.fault or fault
        if self.close_connection is not None:
            self.close_connection()

    def _counted(self, stamp_s: float, total_tokens: int) -> None:
        self.running_count = True
        if total_tokens > self.tokens:
            self._add_frame(stamp_s, total_tokens - self.tokens)

    def _add_frame(self, stamp_s: float, tokens: int) -> None:
        self.frame_s.append(stamp_s)
        self.frame_tokens.append(tokens)
        self.tokens += tokens
        self.last_token_s = stamp_s

    def _feed_unclear(self, stamp_s: float, payload: bytes) -> None:
        if payload == DONE:
            self.done = True
            return
        frame = read_frame(payload)
        if frame.error is not None:
            raise StreamFault(frame.error, Outcome.ERROR_EVENT)
        if not frame.has_choice:
            self.usage_tokens = frame.total_tokens
            return
        if frame.total_tokens is not None:
            self._counted(stamp_s, frame.total_tokens)
        elif frame.has_content:
            self._add_frame(stamp_s, 1)
        self.finish_reason = frame.finish_reason or self.finish_reason

    @property
    def received_tokens(self) -> int:
        """Generated tokens by the engine's final usage, else by its running count or frames."""
        return self.tokens if self.usage_tokens is None else self.usage_tokens

    def conclude(self) -> None:
        """Judge an answer whose connection ended without an error. Raises StreamFault."""
        finished = self.finish_reason in GOOD_FINISH_REASONS
        if self.finish_reason is not None and not finished:
            raise StreamFault(f"finish_reason {self.finish_reason!r}", Outcome.ABORTED)
        if self.splitter.rest.strip():
            raise StreamFault(f"the answer ended inside an event: {self.splitter.rest[:120]!r}")
        if not self.done and not finished:
            raise StreamFault("the answer ended before its last event", Outcome.DISCONNECTED)
        if self.received_tokens != self.asked_tokens:
            counts = f"{self.received_tokens} tokens instead of {self.asked_tokens}"
            raise StreamFault(counts, Outcome.WRONG_TOKEN_COUNT)
