"""Short, medium and long prompts before a window: an engine compiles what it has not met yet."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tuner.loadgen.lengths import IntArray
from tuner.loadgen.prompt_classes import class_bounds, prompt_edges
from tuner.loadgen.request_order import Order


def with_every_class(prompt_tokens: IntArray, order: Order, warmup_requests: int) -> Order:
    """The order with a prompt of each class among its first `warmup_requests`.

    Where a class is missing by chance, the middle one of its prompts takes the place of an early
    request of a class that has several; where there are fewer requests than classes, long prompts
    come first. No other request changes. The very longest prompt is not sent for it: its prefill
    alone may take as long as the warm-up, and would be felt in the window.
    """
    edges = prompt_edges(prompt_tokens)
    if edges is None or warmup_requests == 0:
        return order
    chosen = order.pool_index.copy()
    found = _class_of(prompt_tokens[chosen[:warmup_requests]], edges[1], edges[2])
    wanted = [2, 0, 1][:warmup_requests]
    for number in (each for each in wanted if each not in found):
        counts = np.bincount(found, minlength=3)
        spare = [place for place in range(warmup_requests) if _is_spare(found[place], counts)]
        unwanted = [place for place in range(warmup_requests) if found[place] not in wanted]
        place = (unwanted or spare)[0]
        chosen[place] = _middle(prompt_tokens, *class_bounds(edges)[number][1:])
        found[place] = number
    return replace(order, pool_index=chosen)


def _class_of(tokens: IntArray, last_short: int, last_medium: int) -> IntArray:
    """0 for short, 1 for medium, 2 for long prompts."""
    return np.searchsorted(np.array([last_short, last_medium]), tokens, side="left").astype(
        np.int64
    )


def _is_spare(number: int, counts: IntArray) -> bool:
    return bool(counts[number] > 1)


def _middle(prompt_tokens: IntArray, fewest: int, most: int) -> int:
    """Entry of the pool in the middle of those with so many tokens, by length."""
    entries = np.flatnonzero((prompt_tokens >= fewest) & (prompt_tokens <= most))
    ordered = entries[np.argsort(prompt_tokens[entries], kind="stable")]
    return int(ordered[ordered.size // 2])
