from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.engine_configs import engine_configs
from tests.support.unhurried import UNHURRIED
from tuner.domain.engine_config import EngineConfig, FlagValue


def test_the_order_of_flags_does_not_matter() -> None:
    one = EngineConfig.of({"seed": 1, "dtype": "half"})
    other = EngineConfig.of({"dtype": "half", "seed": 1})
    assert one == other
    assert one.digest == other.digest
    assert hash(one) == hash(other)


def test_a_digest_is_sixteen_hex_digits_and_stable_between_runs() -> None:
    assert EngineConfig().digest == "4f53cda18c2baa0c"
    assert len(EngineConfig.of({"seed": 1}).digest) == 16


@UNHURRIED
@given(engine_configs(), engine_configs())
def test_digests_are_equal_for_equal_configurations_only(
    one: EngineConfig, other: EngineConfig
) -> None:
    same_types = [type(v) for _, v in one.flags] == [type(v) for _, v in other.flags]
    if one == other and same_types and repr(one) == repr(other):
        assert one.digest == other.digest
    elif one != other:
        assert one.digest != other.digest


@UNHURRIED
@given(engine_configs(), engine_configs())
def test_overriding_flags_win_and_the_rest_stays(one: EngineConfig, other: EngineConfig) -> None:
    merged = one.with_flags(other.as_dict())
    assert merged.as_dict() == {**one.as_dict(), **other.as_dict()}
    assert list(merged.flags) == sorted(merged.flags, key=lambda item: item[0])


@UNHURRIED
@given(engine_configs(), st.data())
def test_flags_taken_out_are_left_to_the_engine(config: EngineConfig, data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from([*config.as_dict(), "never-there"])))
    left = config.without(*names)
    assert left.as_dict() == {k: v for k, v in config.flags if k not in names}
    assert all(left.get(name) is None for name in names)


def test_the_four_knobs_and_the_length_are_typed() -> None:
    config = EngineConfig.of(
        {
            "max-num-seqs": 64,
            "max-num-batched-tokens": 4096,
            "enable-chunked-prefill": False,
            "gpu-memory-utilization": 1,
            "max-model-len": 8192,
        }
    )
    assert config.max_num_seqs == 64
    assert config.max_num_batched_tokens == 4096
    assert config.enable_chunked_prefill is False
    assert config.gpu_memory_utilization == 1.0
    assert isinstance(config.gpu_memory_utilization, float)
    assert config.max_model_len == 8192


def test_absent_knobs_are_none() -> None:
    config = EngineConfig()
    assert config.max_num_seqs is None
    assert config.max_num_batched_tokens is None
    assert config.enable_chunked_prefill is None
    assert config.gpu_memory_utilization is None
    assert config.max_model_len is None


@pytest.mark.parametrize(
    ("name", "value", "attribute"),
    [
        ("max-num-seqs", True, "max_num_seqs"),
        ("max-num-seqs", "64", "max_num_seqs"),
        ("max-num-batched-tokens", 1.5, "max_num_batched_tokens"),
        ("enable-chunked-prefill", 1, "enable_chunked_prefill"),
        ("gpu-memory-utilization", True, "gpu_memory_utilization"),
        ("gpu-memory-utilization", "0.9", "gpu_memory_utilization"),
        ("max-model-len", "auto", "max_model_len"),
    ],
)
def test_knobs_of_another_type_are_unknown(name: str, value: FlagValue, attribute: str) -> None:
    config = EngineConfig.of({name: value})
    assert getattr(config, attribute) is None
    assert config.get(name) == value
