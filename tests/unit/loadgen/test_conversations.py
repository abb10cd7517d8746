from __future__ import annotations

import numpy as np

from tuner.loadgen.conversations import without_the_oldest
from tuner.loadgen.trace import PromptBlocks


def forget(
    prompts: list[int], outputs: list[int], blocks: list[list[tuple[int, int]]], longest: int
) -> tuple[list[int], list[list[tuple[int, int]]]]:
    kept, found = without_the_oldest(
        np.array(prompts), np.array(outputs), PromptBlocks.of(blocks), longest
    )
    return kept.tolist(), [found.of_request(row) for row in range(len(prompts))]


def test_a_prompt_that_fits_is_left_alone() -> None:
    assert forget([30], [10], [[(1, 20)]], 40) == ([30], [[(1, 20)]])


def test_the_oldest_is_forgotten_first_and_no_more_than_needed() -> None:
    blocks = [(1, 20), (2, 15), (3, 5)]
    assert forget([50], [10], [blocks], 40) == ([30], [[(2, 15), (3, 5)]])
    assert forget([50], [30], [blocks], 40) == ([15], [[(3, 5)]])


def test_what_is_said_last_is_kept_however_long() -> None:
    assert forget([100], [10], [[(1, 40), (2, 60)]], 40) == ([60], [[(2, 60)]])
    assert forget([60], [10], [[(1, 60)]], 40) == ([60], [[(1, 60)]])
