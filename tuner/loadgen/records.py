"""What became of each request, as columns. All times in engine seconds from the segment's start."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from enum import IntEnum
from pathlib import Path

import numpy as np
import numpy.typing as npt

FORMAT_VERSION = 1
FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


class Outcome(IntEnum):
    """How a request ended; the number is what is stored."""

    NOT_SENT = 0
    """Its turn never came: the segment ended first."""
    COMPLETED = 1
    UNFINISHED = 2
    """Cancelled by the generator at the end of the segment."""
    CONNECT_FAILED = 3
    HTTP_ERROR = 4
    """An answer other than 200."""
    ERROR_EVENT = 5
    """HTTP 200 and then an error inside the stream."""
    ABORTED = 6
    """The engine ended it with a finish reason other than stop or length."""
    WRONG_TOKEN_COUNT = 7
    """It ended well with another number of tokens than was asked for."""
    DISCONNECTED = 8
    """The connection closed before the stream's end."""
    STALLED = 9
    PROTOCOL_ERROR = 10
    """Bytes that are not a stream of events."""

    @property
    def failed(self) -> bool:
        """Whether the request was sent and ended badly through the engine."""
        return self >= Outcome.CONNECT_FAILED


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """One segment's requests in the order of the plan; NaN is a time that never came.

    Frames are the pieces of the answer that carried tokens: those of request i are
    `frame_s[frame_start[i]:frame_start[i + 1]]`. `frame_tokens` is 1 each, or the engine's own
    running count where it reports one, or the request's tokens spread evenly over its frames.
    """

    index: IntArray
    prompt_tokens: IntArray
    asked_tokens: IntArray
    received_tokens: IntArray
    """By the engine's usage report, else by counting frames."""
    due_s: FloatArray
    sent_s: FloatArray
    first_s: FloatArray
    last_s: FloatArray
    ended_s: FloatArray
    first_frame_tokens: IntArray
    outcome: npt.NDArray[np.int8]
    http_status: npt.NDArray[np.int16]
    """0 when no answer came."""
    detail: npt.NDArray[np.str_]
    """What the engine said about a failure; empty otherwise."""
    frame_start: IntArray
    frame_s: FloatArray
    frame_tokens: FloatArray

    @property
    def size(self) -> int:
        return int(self.index.size)

    @property
    def sent(self) -> npt.NDArray[np.bool_]:
        return ~np.isnan(self.sent_s)

    @property
    def completed(self) -> npt.NDArray[np.bool_]:
        return np.asarray(self.outcome == Outcome.COMPLETED)

    @property
    def failed(self) -> npt.NDArray[np.bool_]:
        return np.asarray(self.outcome >= Outcome.CONNECT_FAILED)

    @property
    def frame_request(self) -> IntArray:
        """Row of the request that each frame belongs to."""
        return np.repeat(np.arange(self.size), np.diff(self.frame_start))

    def failure_counts(self) -> dict[str, int]:
        """Number of requests per class of failure, by the class's lower-case name."""
        values, counts = np.unique(self.outcome[self.failed], return_counts=True)
        pairs = zip(values.tolist(), counts.tolist(), strict=True)
        return {Outcome(value).name.lower(): count for value, count in pairs}

    def save(self, path: Path) -> None:
        """Write compressed; the file is complete or absent, whatever happens meanwhile."""
        columns = {field.name: getattr(self, field.name) for field in fields(self)}
        partial = path.with_name(path.name + ".partial")
        with partial.open("wb") as stream:
            np.savez_compressed(stream, format_version=np.int64(FORMAT_VERSION), **columns)
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(path)

    @classmethod
    def load(cls, path: Path) -> Records:
        """Read what `save` wrote. Raises ValueError for another format."""
        with np.load(path, allow_pickle=False) as stored:
            if "format_version" not in stored or int(stored["format_version"]) != FORMAT_VERSION:
                raise ValueError(f"{path} holds no records of format {FORMAT_VERSION}")
            return cls(**{field.name: stored[field.name] for field in fields(cls)})
