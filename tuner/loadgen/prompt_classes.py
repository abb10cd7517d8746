"""Short, medium and long prompts of a workload."""

from __future__ import annotations

import numpy as np

from tuner.loadgen.lengths import IntArray

NAMES = ("short", "medium", "long")

FEWEST_REQUESTS = 20
"""In a class of fewer no percentile above the median means anything."""

PromptEdges = tuple[int, int, int, int]


def prompt_edges(prompt_tokens: IntArray) -> PromptEdges | None:
    """Shortest prompt, the last short one, the last medium one, the longest.

    Terciles of the workload's pool, so the same for every measurement of a study. None where a
    class would be empty: the prompts are too alike.
    """
    ordered, count = np.sort(prompt_tokens), prompt_tokens.size
    one, two = (int(ordered[-(-third * count // 3) - 1]) for third in (1, 2))
    low, high = int(ordered[0]), int(ordered[-1])
    return (low, one, two, high) if one < two < high else None


def class_bounds(edges: PromptEdges) -> tuple[tuple[str, int, int], ...]:
    """Name, fewest and most tokens of each class."""
    low, one, two, high = edges
    return tuple(zip(NAMES, (low, one + 1, two + 1), (one, two, high), strict=True))
