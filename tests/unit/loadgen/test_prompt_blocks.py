from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tuner.loadgen.plan import PlannedRequest
from tuner.loadgen.prompt_blocks import block_numbers, cache_blocks, fitting, scoped_seeds
from tuner.loadgen.prompts import RequestBodies

BODIES = RequestBodies("m", 50_000, 7, cache_salt=False)
Blocks = list[tuple[int, int]]
blocks_of = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 40)), max_size=5)


def prompt(blocks: Blocks, own: int, seed: int) -> list[int]:
    tokens = sum(count for _, count in blocks) + own
    request = PlannedRequest(0, tokens, 1, seed, blocks=tuple(blocks))
    return [int(each) for each in BODIES.token_ids(request)]


def common(one: list[int], other: list[int]) -> int:
    pairs = zip(one, other, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def implied(one: Blocks, other: Blocks) -> int:
    """Tokens that the blocks say both begin with, block by block."""
    tokens = 0
    for (seed, count), (seed_too, count_too) in zip(one, other, strict=False):
        if seed != seed_too:
            break
        tokens += min(count, count_too)
        if count != count_too:
            break
    return tokens


@given(one=blocks_of, other=blocks_of, seeds=st.lists(st.integers(0, 2**53 - 1), min_size=2))
def test_equal_ids_are_exactly_the_implied_shared_prefix(
    one: Blocks, other: Blocks, seeds: list[int]
) -> None:
    first, second = prompt(one, 30, seeds[0]), prompt(other, 30, seeds[0] ^ 1)
    shared, wanted = common(first, second), implied(one, other)
    # Tokens of different blocks are drawn from 9,000: three in a row are equal once in 7e11.
    assert wanted <= shared < wanted + 3


@given(one=blocks_of, other=blocks_of, size=st.sampled_from([1, 4, 16]))
def test_cache_blocks_are_equal_exactly_as_far_as_the_prompts_are(
    one: Blocks, other: Blocks, size: int
) -> None:
    first, second = cache_blocks(one, size), cache_blocks(other, size)
    assert len(first) == sum(count for _, count in one) // size
    shared = next(
        (at for at, (a, b) in enumerate(zip(first, second, strict=False)) if a != b),
        min(len(first), len(second)),
    )
    assert shared == implied(one, other) // size


@given(blocks=blocks_of, salt=st.integers(0, 2**63), tokens=st.integers(0, 300))
def test_a_cut_prompt_begins_as_the_whole_one(blocks: Blocks, salt: int, tokens: int) -> None:
    cut = fitting(blocks, tokens)
    whole = sum(count for _, count in blocks)
    assert sum(count for _, count in cut) == min(tokens, whole)
    if cut:
        numbers = block_numbers(cut, salt)
        assert numbers.tolist() == block_numbers(blocks, salt)[: numbers.size].tolist()


def test_another_salt_is_another_prompt() -> None:
    one, other = (block_numbers([(5, 100)], salt) for salt in (1, 2))
    assert not (one == other).any()


def test_the_tokens_of_a_block_are_spread_over_the_vocabulary() -> None:
    ids = block_numbers([(5, 20_000)], 3) % 100
    counts = np.bincount(ids, minlength=100)
    # 200 each on average, of a binomial spread of 14.
    assert counts.min() > 120
    assert counts.max() < 280


@given(scope=st.integers(1, 10_000), other=st.integers(1, 10_000))
def test_scopes_share_no_seed_and_keep_what_is_equal_within(scope: int, other: int) -> None:
    ids = np.array([0, 1, 2**53 - 1, 1], dtype=np.int64)
    seeds, again = scoped_seeds(ids, scope).tolist(), scoped_seeds(ids, scope).tolist()
    assert seeds == again
    assert seeds[1] == seeds[3]
    assert len(set(seeds)) == 3
    assert max(seeds) < 2**53
    if scope != other:
        assert not set(seeds) & set(scoped_seeds(ids, other).tolist())
