"""A trace with fewer requests, or replayed faster."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tuner.errors import InvalidTraceError
from tuner.loadgen.trace import (
    ALONE,
    IntArray,
    PromptBlocks,
    Trace,
    conversation_starts,
    gaps_between,
)


def scaled(trace: Trace, scale: float | None) -> Trace:
    """The same requests at `scale` times the recorded rate."""
    if trace.gaps_s is None or scale is None:
        return trace
    return replace(trace, gaps_s=trace.gaps_s / scale)


def thinned(trace: Trace, keep: float, rng: np.random.Generator) -> Trace:
    """Each request with the probability `keep`, whole conversations together.

    Independent thinning: the rate becomes `keep` times the recorded one, bursts grow milder.
    """
    if keep >= 1.0:
        return trace
    alone = np.full(trace.size, ALONE, dtype=np.int64)
    conversation = conversation_starts(alone if trace.previous is None else trace.previous)
    kept = np.flatnonzero((rng.random(trace.size) < keep)[conversation])
    stamps = None if trace.gaps_s is None else np.cumsum(trace.gaps_s)[kept]
    gaps = None if stamps is None else gaps_between(stamps)
    if kept.size == 0 or (stamps is not None and gaps is None):
        message = f"keep {keep:g} leaves {kept.size} of {trace.size:,} requests"
        raise InvalidTraceError(message, where=trace.source)
    return replace(
        trace,
        prompt_tokens=trace.prompt_tokens[kept],
        output_tokens=trace.output_tokens[kept],
        gaps_s=gaps,
        blocks=_blocks_of(trace.blocks, kept),
        previous=_previous_of(trace.previous, kept),
        token_ids=None
        if trace.token_ids is None
        else tuple(trace.token_ids[row] for row in kept.tolist()),
    )


def _blocks_of(blocks: PromptBlocks | None, kept: IntArray) -> PromptBlocks | None:
    if blocks is None:
        return None
    return PromptBlocks.of([blocks.of_request(row) for row in kept.tolist()])


def _previous_of(previous: IntArray | None, kept: IntArray) -> IntArray | None:
    if previous is None:
        return None
    place = np.full(previous.size + 1, ALONE, dtype=np.int64)
    place[kept] = np.arange(kept.size)
    return np.asarray(place[previous[kept]], dtype=np.int64)
