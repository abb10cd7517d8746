from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tuner.simulator.server.tokens import SimulatedTokenizer, prefix_hashes

TOKENIZER = SimulatedTokenizer(32000)
TOKENS = st.lists(st.integers(0, 31999), max_size=60)


@given(TOKENS)
def test_decoded_tokens_encode_back(tokens: list[int]) -> None:
    assert TOKENIZER.encode(TOKENIZER.decode(tokens)) == tokens


@given(st.text(max_size=200))
def test_every_text_becomes_known_tokens(text: str) -> None:
    tokens = TOKENIZER.encode(text)

    assert tokens == TOKENIZER.encode(text)
    assert all(0 <= token < 32000 for token in tokens)
    assert bool(tokens) == bool(text)


@given(st.integers(0, 2**32), st.integers(0, 5000), st.integers(0, 40))
def test_generated_text_counts_as_many_tokens_as_it_stands_for(
    seed: int, first: int, count: int
) -> None:
    ids = TOKENIZER.generated_ids(seed, first, count)
    text = TOKENIZER.generated_text(seed, first, count).decode()

    assert len(ids) == count
    assert TOKENIZER.encode(text) == ids


@given(st.integers(0, 2**32), st.integers(0, 20), st.integers(0, 20))
def test_generated_text_does_not_depend_on_how_it_is_cut(seed: int, one: int, two: int) -> None:
    parts = TOKENIZER.generated_text(seed, 0, one) + TOKENIZER.generated_text(seed, one, two)

    assert parts == TOKENIZER.generated_text(seed, 0, one + two)


def test_words_digits_and_symbols_are_counted_exactly() -> None:
    assert len(TOKENIZER.encode("The quick fox, 42!")) == 8


def test_a_chat_costs_markers_for_each_message_and_the_reply() -> None:
    one = TOKENIZER.encode_chat([("user", "hello")])
    two = TOKENIZER.encode_chat([("user", "hello"), ("assistant", "hello")])

    assert len(one) == 1 + 4 + 3
    assert len(two) == len(one) + 5
    assert two[:5] == one[:5]


def test_a_small_vocabulary_bounds_all_tokens() -> None:
    tiny = SimulatedTokenizer(100)

    assert max(tiny.encode("aaaa zzzz whatever 17")) < 100
    assert max(tiny.generated_ids(3, 0, 2000)) < 100


@given(TOKENS, TOKENS, st.integers(1, 16))
def test_equal_prefixes_share_hashes_and_nothing_after_a_difference_does(
    common: list[int], rest: list[int], block: int
) -> None:
    one = prefix_hashes([*common, 1, *rest], block, None)
    two = prefix_hashes([*common, 2, *rest], block, None)
    shared = len(common) // block

    assert len(one) == (len(common) + 1 + len(rest)) // block
    assert one[:shared] == two[:shared]
    assert not set(one[shared:]) & set(two[shared:])


def test_a_salt_keeps_equal_prompts_apart() -> None:
    prompt = list(range(64))

    assert prefix_hashes(prompt, 16, "a") == prefix_hashes(prompt, 16, "a")
    assert not set(prefix_hashes(prompt, 16, "a")) & set(prefix_hashes(prompt, 16, "b"))
    assert not set(prefix_hashes(prompt, 16, "a")) & set(prefix_hashes(prompt, 16, None))
