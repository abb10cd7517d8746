from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.loadgen.plan import PlannedRequest
from tuner.loadgen.prompts import RequestBodies, request_name, safe_token_range

MODEL = 'odd "name"/é'


def bodies(*, salt: int = 1, vocabulary: int = 32_000, cache_salt: bool = True) -> RequestBodies:
    return RequestBodies(MODEL, vocabulary, salt, cache_salt=cache_salt)


def request(*, prompt_tokens: int = 64, seed: int = 7) -> PlannedRequest:
    return PlannedRequest(0, prompt_tokens, 20, seed)


@given(
    prompt_tokens=st.integers(1, 3000),
    vocabulary=st.integers(4, 300_000),
    salt=st.integers(-(2**40), 2**40),
    seed=st.integers(0, 2**53 - 1),
)
def test_a_body_is_json_with_exactly_the_planned_prompt(
    prompt_tokens: int, vocabulary: int, salt: int, seed: int
) -> None:
    planned = PlannedRequest(0, prompt_tokens, 20, seed)
    builder = bodies(salt=salt, vocabulary=vocabulary)
    document = json.loads(builder.build(planned))
    assert document["prompt"] == builder.token_ids(planned).tolist()
    assert len(document["prompt"]) == prompt_tokens
    assert all(0 < token < vocabulary for token in document["prompt"])


def test_a_body_forces_the_planned_output_length() -> None:
    document = json.loads(bodies().build(request()))
    del document["prompt"]
    assert document == {
        "model": MODEL,
        "max_tokens": 20,
        "min_tokens": 20,
        "ignore_eos": True,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        "cache_salt": "servetune-1",
    }


def test_the_cache_salt_is_left_out_where_the_engine_refuses_it() -> None:
    assert "cache_salt" not in json.loads(bodies(cache_salt=False).build(request()))


def test_a_named_request_carries_its_name_and_is_otherwise_the_same() -> None:
    named = RequestBodies(MODEL, 32_000, -3, cache_salt=True, named=True)
    document = json.loads(named.build(request()))
    assert document.pop("request_id") == request_name(-3, 7) == "servetune-3-7"
    assert document == json.loads(bodies(salt=-3).build(request()))


def test_equal_salt_and_seed_give_equal_prompts() -> None:
    assert bodies().build(request()) == bodies().build(request())


def test_prompts_of_other_seeds_and_other_salts_share_no_leading_block() -> None:
    own = bodies().token_ids(request())[:16].tolist()
    assert bodies().token_ids(request(seed=8))[:16].tolist() != own
    assert bodies(salt=2).token_ids(request())[:16].tolist() != own


def test_a_longer_prompt_of_the_same_seed_starts_alike() -> None:
    short, long = request(prompt_tokens=10), request(prompt_tokens=20)
    assert bodies().token_ids(long)[:10].tolist() == bodies().token_ids(short).tolist()


def test_a_prompt_begins_with_its_blocks_and_goes_on_alone() -> None:
    one = PlannedRequest(0, 64, 20, 7, blocks=((5, 20), (6, 12)))
    other = PlannedRequest(1, 80, 20, 8, blocks=((5, 20), (6, 12)))
    first, second = (bodies().token_ids(each).tolist() for each in (one, other))
    assert (len(first), len(second)) == (64, 80)
    assert first[:32] == second[:32]
    assert first[32:40] != second[32:40]
    document = json.loads(bodies().build(one))
    assert document["prompt"] == first
    assert document["cache_salt"] == "servetune-1"


@given(
    vocabulary=st.integers(4, 300_000),
    blocks=st.lists(st.tuples(st.integers(0, 2**53 - 1), st.integers(1, 50)), max_size=4),
)
def test_the_tokens_of_blocks_are_ordinary_ones(
    vocabulary: int, blocks: list[tuple[int, int]]
) -> None:
    tokens = sum(count for _, count in blocks) + 5
    planned = PlannedRequest(0, tokens, 20, 7, blocks=tuple(blocks))
    prompt = json.loads(bodies(vocabulary=vocabulary).build(planned))["prompt"]
    chosen = safe_token_range(vocabulary)
    assert len(prompt) == tokens
    assert all(chosen.low <= token < chosen.high for token in prompt)


def test_a_literal_prompt_is_sent_as_it_is_and_repeats_only_within_its_scope() -> None:
    planned = PlannedRequest(0, 3, 20, 7, token_ids=(5, 123_456, 7), scope=4)
    document = json.loads(bodies().build(planned))
    assert document["prompt"] == [5, 123_456, 7]
    assert document["cache_salt"] == "servetune-1-4"
    assert "cache_salt" not in json.loads(bodies(cache_salt=False).build(planned))


@pytest.mark.parametrize(
    ("vocabulary", "low", "high"),
    [
        (151_643, 1000, 10_000),
        (32_000, 1000, 10_000),
        (5000, 1000, 4500),
        (1200, 100, 1000),
        (512, 100, 460),
        (50, 10, 45),
        (4, 1, 3),
    ],
)
def test_ids_are_equally_long_and_away_from_both_ends_of_the_vocabulary(
    vocabulary: int, low: int, high: int
) -> None:
    chosen = safe_token_range(vocabulary)
    assert (chosen.low, chosen.high) == (low, high)
    assert len(str(high - 1)) == chosen.digits


def test_a_vocabulary_of_three_tokens_is_refused() -> None:
    with pytest.raises(ValueError, match="too small"):
        safe_token_range(3)
