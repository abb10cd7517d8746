"""Recorded requests, whatever file they came from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

ALONE = -1
"""In `Trace.previous`: a request that waits for no other."""


@dataclass(frozen=True, slots=True, eq=False)
class PromptBlocks:
    """What prompts have in common: they begin with blocks, and equal ids are equal tokens.

    The blocks of request i are `ids[start[i]:start[i + 1]]`, in order, of as many `tokens` each;
    what they leave of its prompt belongs to it alone.
    """

    start: IntArray
    ids: IntArray
    tokens: IntArray

    @classmethod
    def of(cls, requests: list[list[tuple[int, int]]]) -> PromptBlocks:
        """From (id, tokens) pairs per request."""
        counts = [len(pairs) for pairs in requests]
        pairs = [pair for request in requests for pair in request]
        columns = np.array(pairs, dtype=np.int64).reshape(len(pairs), 2)
        start = np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))
        return cls(start.astype(np.int64), columns[:, 0].copy(), columns[:, 1].copy())

    def of_request(self, row: int) -> list[tuple[int, int]]:
        """(id, tokens) of one request's leading blocks."""
        chosen = slice(int(self.start[row]), int(self.start[row + 1]))
        return list(zip(self.ids[chosen].tolist(), self.tokens[chosen].tolist(), strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Requests in order of arrival.

    `gaps_s[i]` lies before request i, the first being the mean; None where only lengths were
    recorded. `previous[i]` is the turn of the same conversation before request i, or ALONE; prompts
    of later turns contain the earlier turns. `token_ids` are prompts given literally.
    """

    source: str
    format: str
    prompt_tokens: IntArray
    output_tokens: IntArray
    gaps_s: FloatArray | None = None
    blocks: PromptBlocks | None = None
    previous: IntArray | None = None
    token_ids: tuple[IntArray, ...] | None = None
    notes: tuple[str, ...] = ()
    """What a reader must know: what was estimated, spread or left out."""

    @property
    def size(self) -> int:
        return int(self.prompt_tokens.size)


def gaps_between(stamps_s: FloatArray) -> FloatArray | None:
    """Gaps before each request from ascending stamps; None where they span no time."""
    if stamps_s.size < 2 or stamps_s[-1] == stamps_s[0]:
        return None
    gaps = np.diff(stamps_s)
    return np.concatenate(([gaps.mean()], gaps))


def conversation_starts(previous: IntArray) -> IntArray:
    """For each request the row that its conversation begins with; of one alone its own."""
    first = np.arange(previous.size, dtype=np.int64)
    for row, before in enumerate(previous.tolist()):
        if before != ALONE:
            first[row] = first[before]
    return first
