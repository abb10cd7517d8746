"""How many prefix-cache hits a segment's plan explains."""

from __future__ import annotations

import numpy as np

from tuner.loadgen.load_result import SegmentResult
from tuner.loadgen.prefix_share import shared_tokens

COUNTED_APART_S = 2.0
"""Engine seconds by which a counter between two readings may be off, generously."""


def implied_hit_rate(result: SegmentResult, asked: float | None) -> float:
    """Share of what was asked of the cache in the window that the plan says is in it.

    At most: of every request that may have been admitted in the window, what another that was sent
    before begins with, too. Without the engine's count of what was asked, of those sent in it.
    """
    segment, records = result.segment, result.records
    if not any(request.blocks for request in segment.requests):
        return 0.0
    planned = {request.index: request for request in segment.requests}
    sent = np.argsort(records.sent_s, kind="stable")[: int(np.count_nonzero(records.sent))]
    shared = np.array(shared_tokens(planned[int(records.index[row])].blocks for row in sent))
    begin_s, end_s = segment.warmup_s, segment.window_end_s
    sent_s, first_s = records.sent_s[sent], records.first_s[sent]
    if asked:
        late = ~(first_s < begin_s - COUNTED_APART_S) & (sent_s < end_s + COUNTED_APART_S)
        return float(shared[late].sum()) / asked
    inside = (sent_s >= begin_s) & (sent_s < end_s)
    prompts = float(records.prompt_tokens[sent][inside].sum())
    return float(shared[inside].sum()) / prompts if prompts > 0 else 0.0
