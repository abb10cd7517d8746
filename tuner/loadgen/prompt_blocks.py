"""Blocks that prompts share: which tokens they stand for, and which of an engine's cache blocks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Blocks = Sequence[tuple[int, int]]
Words = npt.NDArray[np.uint64]
_ODD = (0x9E3779B97F4A7C15, 0xD1B54A32D192ED03, 0x8CB92BA72F3D8DD7)
_WORD = 2**64
SEED_BITS = 53
"""Seeds stay exact in JSON."""


def mixed(words: Words) -> Words:
    """SplitMix64's finaliser: a bijection of words whose output looks random (Steele 2014)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def block_numbers(blocks: Blocks, salt: int) -> npt.NDArray[np.int64]:
    """A number below 2^53 for each token of the blocks, by seed, place in the block, and salt.

    A shorter block begins as a longer one of its seed does.
    """
    seeds = np.array([seed for seed, _ in blocks], dtype=np.uint64)
    counts = np.array([tokens for _, tokens in blocks], dtype=np.int64)
    places = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    salted = mixed(seeds * np.uint64(_ODD[0]) + np.uint64(salt * _ODD[2] % _WORD))
    words = mixed(np.repeat(salted, counts) + places.astype(np.uint64) * np.uint64(_ODD[1]))
    return (words >> np.uint64(64 - SEED_BITS)).astype(np.int64)


def scoped_seeds(ids: npt.NDArray[np.int64], scope: int) -> npt.NDArray[np.int64]:
    """Seeds of blocks within a scope: equal for equal ids, and others in every other scope."""
    words = mixed(ids.astype(np.uint64) * np.uint64(_ODD[0]) + np.uint64(scope * _ODD[1] % _WORD))
    return (words >> np.uint64(64 - SEED_BITS)).astype(np.int64)


def fitting(blocks: Blocks, tokens: int) -> tuple[tuple[int, int], ...]:
    """The blocks that a prompt of so many tokens begins with; the last one is cut."""
    kept, left = [], tokens
    for seed, count in blocks:
        if left <= 0:
            break
        kept.append((seed, min(count, left)))
        left -= count
    return tuple(kept)


def cache_blocks(blocks: Blocks, block_size: int) -> tuple[int, ...]:
    """A chained hash for each full block of an engine's cache that these tokens fill.

    Equal for two prompts exactly as far as their blocks are.
    """
    found: list[int] = []
    chain, before = 0, 0
    for seed, tokens in blocks:
        first = (before + block_size) // block_size
        last = (before + tokens) // block_size
        found.extend(
            hash((chain, seed, end * block_size - before)) for end in range(first, last + 1)
        )
        chain, before = hash((chain, seed, tokens)), before + tokens
    return tuple(found)
