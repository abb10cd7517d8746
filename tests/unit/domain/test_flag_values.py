from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.engine_configs import ODD_TEXT, engine_configs
from tests.support.unhurried import UNHURRIED
from tuner.domain.engine_config import EngineConfig, FlagValue
from tuner.domain.flag_catalogue import FlagInfo, flag
from tuner.domain.flag_values import (
    canonical,
    describe,
    join_words,
    parse_boolean,
    parse_integer,
    parse_number,
    parse_size,
    parse_value,
    range_fault,
    split_words,
    typed_value,
    value_text,
)


def known(name: str) -> FlagInfo:
    info = flag(name)
    assert info is not None
    return info


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("8k", 8000),
        ("8K", 8192),
        ("25.6k", 25600),
        ("1.1k", 1100),
        ("2m", 2_000_000),
        ("2M", 2_097_152),
        ("1g", 10**9),
        ("1G", 2**30),
        ("1t", 10**12),
        ("1T", 2**40),
        ("0", 0),
        ("-1", -1),
        ("+4", 4),
        (" 16 ", 16),
    ],
)
def test_sizes_are_read_as_vllm_reads_them(text: str, expected: int) -> None:
    assert parse_size(text) == expected


@pytest.mark.parametrize("text", ["", "k", "8kk", "1.5K", "8 k", "1e3", "0x10", "eight", "-8k"])
def test_other_sizes_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"integer|whole numbers"):
        parse_size(text)


@UNHURRIED
@given(st.integers(0, 10**12), st.sampled_from("kmgt"))
def test_decimal_and_binary_suffixes_differ(number: int, suffix: str) -> None:
    assert parse_size(f"{number}{suffix}") <= parse_size(f"{number}{suffix.upper()}")


@pytest.mark.parametrize("text", ["", "1.0", "8k", "1_000", "९", "9" * 31, "--1"])
def test_integers_are_plain_or_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not an integer"):
        parse_integer(text)


@pytest.mark.parametrize(("text", "expected"), [("0.9", 0.9), ("1", 1.0), ("1e-3", 0.001)])
def test_numbers_are_finite_decimals(text: str, expected: float) -> None:
    assert parse_number(text) == expected


@pytest.mark.parametrize("text", ["nan", "inf", "-Infinity", "1e999", "", "90%", "0,9"])
def test_other_numbers_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="number"):
        parse_number(text)


@pytest.mark.parametrize(
    ("text", "expected"), [("true", True), ("True", True), ("FALSE", False), (" false ", False)]
)
def test_booleans_are_true_and_false(text: str, expected: bool) -> None:
    assert parse_boolean(text) is expected


@pytest.mark.parametrize("text", ["on", "1", "yes", ""])
def test_other_booleans_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="neither true nor false"):
        parse_boolean(text)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("max-num-batched-tokens", "8K", 8192),
        ("max-num-seqs", "64", 64),
        ("gpu-memory-utilization", "0.9", 0.9),
        ("enforce-eager", "true", True),
        ("max-model-len", "auto", "auto"),
        ("max-model-len", "-1", -1),
        ("dtype", "half", "half"),
        ("compilation-config", '{"mode": 3}', '{"mode": 3}'),
    ],
)
def test_a_flags_text_becomes_its_type(name: str, text: str, expected: FlagValue) -> None:
    value = parse_value(flag(name), text)
    assert value == expected
    assert type(value) is type(expected)


def test_an_unknown_flags_text_is_kept() -> None:
    assert parse_value(None, "8k") == "8k"


def test_max_num_seqs_takes_no_suffix() -> None:
    with pytest.raises(ValueError, match="is not an integer"):
        parse_value(flag("max-num-seqs"), "8k")


@pytest.mark.parametrize(
    ("value", "expected"),
    [(8192, "8192"), (0.9, "0.9"), (1.0, "1.0"), (1e-7, "1e-07"), ("a b", "a b"), ("", "")],
)
def test_values_become_plain_text(value: FlagValue, expected: str) -> None:
    assert value_text(value) == expected


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, "a\x00b"])
def test_what_no_command_line_can_carry_is_refused(value: FlagValue) -> None:
    with pytest.raises(ValueError, match=r"finite|NUL"):
        value_text(value)


@UNHURRIED
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_survives_its_text(value: float) -> None:
    assert parse_number(value_text(value)) == value


@UNHURRIED
@given(st.lists(ODD_TEXT, min_size=1, max_size=4))
def test_words_survive_their_text(words: list[str]) -> None:
    assert split_words(join_words(words)) == tuple(words)


@UNHURRIED
@given(ODD_TEXT)
def test_any_text_is_some_words(text: str) -> None:
    words = split_words(text)
    assert words
    assert split_words(join_words(words)) == words


@pytest.mark.parametrize(
    ("given_flags", "expected"),
    [
        ({"device-memory-utilization": 1}, {"gpu-memory-utilization": 1.0}),
        ({"max-num-batched-tokens": "8K"}, {"max-num-batched-tokens": 8192}),
        ({"max-num-seqs": 64.0}, {"max-num-seqs": 64}),
        ({"no-enable-chunked-prefill": True}, {"enable-chunked-prefill": False}),
        ({"no-enable-chunked-prefill": False}, {"enable-chunked-prefill": True}),
        ({"disable-chunked-prefill": True}, {"enable-chunked-prefill": False}),
        ({"max_num_seqs": 4}, {"max-num-seqs": 4}),
        ({"disable-log-stats": False}, {}),
        ({"disable-log-stats": True}, {"disable-log-stats": True}),
        ({"served-model-name": "a   b"}, {"served-model-name": "a b"}),
        ({"dtype": "half"}, {"dtype": "half"}),
        ({"enforce-eager": "true"}, {"enforce-eager": True}),
        ({"x-unknown": 3}, {"x-unknown": "3"}),
        ({"x-unknown": True}, {"x-unknown": True}),
    ],
)
def test_configurations_that_launch_the_same_engine_become_equal(
    given_flags: dict[str, FlagValue], expected: dict[str, FlagValue]
) -> None:
    result = canonical(EngineConfig.of(given_flags))
    assert result == EngineConfig.of(expected)
    assert result.digest == EngineConfig.of(expected).digest


@pytest.mark.parametrize(
    "flags",
    [
        {"max-num-seqs": True},
        {"max-num-seqs": "many"},
        {"max-num-seqs": 1.5},
        {"enable-chunked-prefill": 1},
        {"gpu-memory-utilization": math.nan},
        {"no-enable-chunked-prefill": "yes"},
        {"dtype": "a\x00"},
    ],
)
def test_a_value_that_its_flag_cannot_have_is_refused(flags: dict[str, FlagValue]) -> None:
    with pytest.raises(ValueError, match=r".+"):
        canonical(EngineConfig.of(flags))


@UNHURRIED
@given(engine_configs())
def test_canonical_configurations_stay_as_they_are(config: EngineConfig) -> None:
    assert canonical(config).flags == config.flags
    assert canonical(config).digest == config.digest


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("max-num-seqs", "an integer"),
        ("max-model-len", "an integer or auto"),
        ("gpu-memory-utilization", "a number"),
        ("enforce-eager", "true or false"),
        ("scheduling-policy", "one of fcfs, priority"),
        ("compilation-config", "a JSON string"),
    ],
)
def test_the_values_of_a_flag_are_described(name: str, words: str) -> None:
    assert describe(known(name)) == words


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max-num-seqs", 1),
        ("gpu-memory-utilization", 1.0),
        ("gpu-memory-utilization", 0.01),
        ("max-model-len", -1),
        ("max-model-len", "auto"),
        ("scheduling-policy", "fcfs"),
        ("watermark", 0.0),
        ("enforce-eager", False),
    ],
)
def test_values_at_the_limits_are_right(name: str, value: FlagValue) -> None:
    assert range_fault(known(name), value) is None


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("max-num-seqs", 0, "0 is less than 1"),
        ("gpu-memory-utilization", 1.5, "1.5 is greater than 1"),
        ("gpu-memory-utilization", 0.0, "0.0 is not greater than 0"),
        ("scheduling-policy", "lifo", "'lifo' is not one of fcfs, priority"),
        ("port", 70000, "70000 is greater than 65535"),
    ],
)
def test_values_beyond_the_limits_are_described(name: str, value: FlagValue, words: str) -> None:
    assert range_fault(known(name), value) == words


def test_a_typed_value_names_its_flag_when_it_is_wrong() -> None:
    with pytest.raises(ValueError, match="max-num-seqs: 'x' is not an integer"):
        typed_value("max-num-seqs", "x")
