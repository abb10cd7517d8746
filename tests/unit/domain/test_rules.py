from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.engine_configs import engine_configs
from tests.support.unhurried import UNHURRIED
from tuner.domain.engine_config import EngineConfig, FlagValue
from tuner.domain.rules import violations, warnings

HEALTHY: dict[str, FlagValue] = {
    "max-num-seqs": 64,
    "max-num-batched-tokens": 4096,
    "enable-chunked-prefill": True,
    "gpu-memory-utilization": 0.9,
}


def broken(max_model_len: int | None = 2048, **flags: FlagValue) -> tuple[str, ...]:
    changes = {name.replace("_", "-"): value for name, value in flags.items()}
    config = EngineConfig.of({**HEALTHY, **changes})
    return tuple(violation.message for violation in violations(config, max_model_len))


def test_a_healthy_configuration_breaks_nothing() -> None:
    assert broken() == ()


def test_an_empty_configuration_breaks_nothing() -> None:
    assert violations(EngineConfig(), 2048) == ()


def test_fewer_tokens_than_sequences_in_vllms_words() -> None:
    assert broken(max_num_batched_tokens=32) == (
        "max_num_batched_tokens (32) must be greater than or equal to max_num_seqs (64).",
    )


def test_unchunked_tokens_below_the_length_in_vllms_words() -> None:
    assert broken(max_num_batched_tokens=512, enable_chunked_prefill=False) == (
        "max_num_batched_tokens (512) is smaller than max_model_len (2048). This effectively "
        "limits the maximum sequence length to max_num_batched_tokens and makes vLLM reject "
        "longer sequences. Please increase max_num_batched_tokens or decrease max_model_len.",
    )


def test_the_unchunked_rule_is_checked_before_the_sequences() -> None:
    config = EngineConfig.of(
        {"max-num-batched-tokens": 32, "max-num-seqs": 64, "enable-chunked-prefill": False}
    )
    rules = [violation.rule for violation in violations(config, 2048)]
    assert rules == ["unchunked_tokens_below_model_len", "tokens_below_seqs"]


@pytest.mark.parametrize(
    ("flag", "value", "message"),
    [
        ("gpu_memory_utilization", 1.5, "Input should be less than or equal to 1"),
        ("gpu_memory_utilization", 0.0, "Input should be greater than 0"),
        ("gpu_memory_utilization", -1.0, "Input should be greater than 0"),
        ("gpu_memory_utilization", math.nan, "Input should be greater than 0"),
        ("max_num_seqs", 0, "Input should be greater than or equal to 1"),
        ("max_num_seqs", -5, "Input should be greater than or equal to 1"),
        ("long_prefill_token_threshold", -1, "Input should be greater than or equal to 0"),
    ],
)
def test_ranges_name_their_field_in_vllms_words(flag: str, value: FlagValue, message: str) -> None:
    config = EngineConfig.of({**HEALTHY, flag.replace("_", "-"): value})
    (violation,) = violations(config, 2048)
    assert violation.message == message
    assert violation.field == flag
    assert violation.flags == (flag.replace("_", "-"),)


def test_no_tokens_break_the_range_and_the_relation() -> None:
    config = EngineConfig.of({"max-num-batched-tokens": 0, "max-num-seqs": 4})
    assert [violation.rule for violation in violations(config, None)] == [
        "max_num_batched_tokens_range",
        "tokens_below_seqs",
    ]


@pytest.mark.parametrize("value", [1.0, 0.5, 0.01, 1])
def test_every_share_of_the_memory_is_allowed(value: FlagValue) -> None:
    assert broken(gpu_memory_utilization=value) == ()


def test_more_active_than_possible_sequences_in_vllms_words() -> None:
    assert broken(max_num_active_seqs=65) == (
        "max_num_active_seqs (65) cannot be greater than max_num_seqs (64).",
    )
    assert broken(max_num_active_seqs=64) == ()


def test_a_long_prefill_threshold_beyond_the_length_in_vllms_words() -> None:
    assert broken(long_prefill_token_threshold=2049) == (
        "long_prefill_token_threshold (2049) cannot be greater than the max_model_len (2048).",
    )
    assert broken(long_prefill_token_threshold=2048) == ()


def test_the_flags_own_length_wins() -> None:
    flags: dict[str, FlagValue] = {"enable_chunked_prefill": False, "max_num_batched_tokens": 512}
    assert broken(max_model_len=2048, **{**flags, "max-model-len": 512}) == ()
    assert len(broken(max_model_len=512, **{**flags, "max-model-len": 1024})) == 1


@pytest.mark.parametrize("length", [-1, "auto"])
def test_a_length_left_to_vllm_is_the_models(length: FlagValue) -> None:
    config = EngineConfig.of(
        {
            "max-model-len": length,
            "enable-chunked-prefill": False,
            "max-num-batched-tokens": 512,
        }
    )
    assert len(violations(config, 2048)) == 1
    assert violations(config, 512) == ()


def test_rules_with_unknown_values_are_not_judged() -> None:
    assert broken(max_model_len=None, enable_chunked_prefill=False, max_num_batched_tokens=64) == ()
    assert violations(EngineConfig.of({"max-num-batched-tokens": 1}), None) == ()
    assert violations(EngineConfig.of({"max-num-seqs": 10**6}), None) == ()


@pytest.mark.parametrize(
    ("flags", "factor"),
    [
        ({"max-num-batched-tokens": 32, "max-num-seqs": 64}, 2.0),
        ({"max-num-batched-tokens": 64, "max-num-seqs": 1024}, 16.0),
        ({"gpu-memory-utilization": 1.5}, 1.5),
        ({"max-num-seqs": 0}, 2.0),
        ({"gpu-memory-utilization": 0.0}, 100.0),
    ],
)
def test_the_grade_is_the_logarithm_of_the_factor(
    flags: dict[str, FlagValue], factor: float
) -> None:
    (violation,) = violations(EngineConfig.of(flags), None)
    assert violation.grade == pytest.approx(math.log(factor))


@UNHURRIED
@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_tokens_must_reach_the_sequences_and_nothing_else(tokens: int, seqs: int) -> None:
    config = EngineConfig.of({"max-num-batched-tokens": tokens, "max-num-seqs": seqs})
    assert bool(violations(config, None)) == (tokens < seqs)


@UNHURRIED
@given(st.integers(1, 10**5), st.integers(1, 10**5), st.integers(1, 10**5))
def test_worse_configurations_have_higher_grades(seqs: int, first: int, second: int) -> None:
    def grade(tokens: int) -> float:
        config = EngineConfig.of({"max-num-batched-tokens": tokens, "max-num-seqs": seqs})
        return sum(violation.grade for violation in violations(config, None))

    fewer, more = sorted((first, second))
    assert grade(fewer) >= grade(more)
    if fewer < more <= seqs:
        assert grade(fewer) > grade(more)


@UNHURRIED
@given(engine_configs(), st.none() | st.integers(1, 10**6))
def test_every_violation_has_a_positive_grade_and_names_given_flags(
    config: EngineConfig, max_model_len: int | None
) -> None:
    for violation in violations(config, max_model_len):
        assert violation.grade > 0
        assert violation.message
        assert all(config.get(name) is not None for name in violation.flags)


def test_too_many_tokens_are_only_warned_about() -> None:
    config = EngineConfig.of({"max-num-batched-tokens": 8192, "max-num-seqs": 2})
    assert violations(config, 512) == ()
    assert warnings(config, 512) == (
        "max_num_batched_tokens (8192) exceeds max_num_seqs * max_model_len (1024). "
        "This may lead to unexpected behavior.",
    )
    assert warnings(config, 4096) == ()
    assert warnings(config, None) == ()
