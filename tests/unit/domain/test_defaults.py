from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.engine_configs import engine_configs
from tests.support.unhurried import UNHURRIED
from tuner.domain.defaults import SchedulerTier, effective, engine_defaults, scheduler_tier
from tuner.domain.engine_config import EngineConfig, FlagValue
from tuner.domain.flag_values import canonical
from tuner.domain.rules import violations


@pytest.mark.parametrize(
    ("gpu_memory_gib", "gpu_name", "seqs", "tokens"),
    [
        (179.0, "NVIDIA B200", 1024, 16384),
        (268.0, "NVIDIA B300", 1024, 16384),
        (160.0, "some new GPU", 1024, 16384),
        (159.9, "some new GPU", 1024, 8192),
        (141.0, "NVIDIA H200", 1024, 8192),
        (79.6, "NVIDIA H100 80GB HBM3", 1024, 8192),
        (70.0, "some GPU", 1024, 8192),
        (69.9, "some GPU", 256, 2048),
        (79.3, "NVIDIA A100-SXM4-80GB", 256, 2048),
        (119.0, "NVIDIA GB10", 256, 2048),
        (185.0, "NVIDIA GB200", 1024, 16384),
        (44.5, "NVIDIA L40S", 256, 2048),
        (22.5, "NVIDIA L4", 256, 2048),
        (23.6, None, 256, 2048),
        (39.5, "NVIDIA H100 MIG 3g.40gb", 256, 2048),
        (None, "NVIDIA H100 80GB HBM3", 256, 2048),
        (None, None, 256, 2048),
        (None, "cpu", 128, 2048),
        (188.0, "CPU", 128, 2048),
    ],
)
def test_the_hardware_decides_the_scheduler_limits(
    gpu_memory_gib: float | None, gpu_name: str | None, seqs: int, tokens: int
) -> None:
    assert scheduler_tier(gpu_memory_gib, gpu_name) == SchedulerTier(seqs, tokens)
    defaults = engine_defaults(gpu_memory_gib, gpu_name)
    assert defaults.max_num_seqs == seqs
    assert defaults.max_num_batched_tokens == tokens


def test_the_newest_versions_defaults_are_used() -> None:
    defaults = engine_defaults(80.0, "H100")
    assert defaults.gpu_memory_utilization == 0.92
    assert defaults.enable_chunked_prefill is True
    assert defaults.get("enable-prefix-caching") is True
    assert defaults.get("kv-cache-dtype") == "auto"
    assert defaults.get("block-size") == 16
    assert defaults.get("tensor-parallel-size") == 1
    assert defaults.get("long-prefill-token-threshold") == 0
    assert defaults.get("enforce-eager") is False


def test_flags_that_are_gone_have_no_default() -> None:
    defaults = engine_defaults(80.0, "H100").as_dict()
    assert not {"swap-space", "max-num-partial-prefills", "num-scheduler-steps"} & defaults.keys()


def test_defaults_are_canonical_and_break_no_rule() -> None:
    for memory, name in ((180.0, "B200"), (80.0, "H100"), (24.0, "L4"), (None, "cpu")):
        defaults = engine_defaults(memory, name)
        assert canonical(defaults) == defaults
        assert violations(defaults, 8192) == ()


def test_cpu_limits_grow_with_the_ranks() -> None:
    config = EngineConfig.of({"tensor-parallel-size": 2, "pipeline-parallel-size": 2})
    filled = effective(config, None, "cpu", 8192)
    assert (filled.max_num_seqs, filled.max_num_batched_tokens) == (512, 8192)
    assert filled.get("block-size") == 128


def test_gpu_limits_do_not_grow_with_the_ranks() -> None:
    filled = effective(EngineConfig.of({"tensor-parallel-size": 8}), 80.0, "H100", 8192)
    assert (filled.max_num_seqs, filled.max_num_batched_tokens) == (1024, 8192)


@pytest.mark.parametrize(
    ("flags", "max_model_len", "seqs", "tokens"),
    [
        ({}, 32768, 256, 2048),
        ({"max-num-seqs": 64}, 32768, 64, 2048),
        ({"max-num-batched-tokens": 4096}, 32768, 256, 4096),
        # seqs <= tokens when seqs was not given
        ({"max-num-batched-tokens": 100}, 32768, 100, 100),
        # both given: left as they are, even where vLLM refuses them
        ({"max-num-batched-tokens": 64, "max-num-seqs": 128}, 32768, 128, 64),
        # no chunked prefill: a whole prompt fits
        ({"enable-chunked-prefill": False}, 32768, 256, 32768),
        ({"enable-chunked-prefill": False}, 1024, 256, 2048),
        ({"enable-chunked-prefill": False, "max-num-batched-tokens": 512}, 2048, 256, 512),
        # tokens <= seqs * max_model_len when tokens were not given
        ({"max-num-seqs": 2}, 512, 2, 1024),
        ({"max-num-seqs": 2, "max-num-batched-tokens": 8192}, 512, 2, 8192),
        ({"max-num-seqs": 0}, 512, 0, 0),
        # the flag's length wins over the model's
        ({"enable-chunked-prefill": False, "max-model-len": 4096}, 32768, 256, 4096),
        ({"enable-chunked-prefill": False, "max-model-len": -1}, 32768, 256, 32768),
        ({"enable-chunked-prefill": False, "max-model-len": "auto"}, 32768, 256, 32768),
        # performance mode doubles what was not given
        ({"performance-mode": "throughput"}, 32768, 512, 4096),
        ({"performance-mode": "throughput", "max-num-seqs": 100}, 32768, 100, 4096),
        ({"performance-mode": "throughput", "max-num-batched-tokens": 300}, 32768, 300, 300),
        ({"performance-mode": "interactivity"}, 32768, 256, 2048),
        # unknown length: the rules that need it are left out
        ({"enable-chunked-prefill": False}, None, 256, 2048),
        ({"max-num-seqs": 1}, None, 1, 2048),
    ],
)
def test_absent_limits_are_processed_as_vllm_does(
    flags: dict[str, FlagValue], max_model_len: int | None, seqs: int, tokens: int
) -> None:
    filled = effective(EngineConfig.of(flags), 24.0, "NVIDIA L4", max_model_len)
    assert (filled.max_num_seqs, filled.max_num_batched_tokens) == (seqs, tokens)


def test_the_length_that_applies_is_filled_in() -> None:
    assert effective(EngineConfig(), 24.0, "L4", 4096).max_model_len == 4096
    given_flag = EngineConfig.of({"max-model-len": 1024})
    assert effective(given_flag, 24.0, "L4", 4096).max_model_len == 1024
    assert effective(EngineConfig(), 24.0, "L4", None).max_model_len is None


@UNHURRIED
@given(engine_configs(), st.sampled_from([24.0, 80.0, 180.0, None]), st.integers(1, 10**6))
def test_what_is_given_is_never_changed(
    config: EngineConfig, gpu_memory_gib: float | None, max_model_len: int
) -> None:
    filled = effective(config, gpu_memory_gib, "GPU", max_model_len).as_dict()
    kept = {name: value for name, value in config.flags if name != "max-model-len"}
    assert {name: filled[name] for name in kept} == kept


@UNHURRIED
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "max-num-seqs": st.integers(1, 4096),
            "enable-chunked-prefill": st.booleans(),
            "performance-mode": st.sampled_from(["balanced", "throughput"]),
        },
    ),
    st.sampled_from([24.0, 80.0, 180.0]),
    st.integers(1, 200_000),
)
def test_a_default_token_budget_breaks_no_rule_unless_the_sequences_do(
    flags: dict[str, FlagValue], gpu_memory_gib: float, max_model_len: int
) -> None:
    filled = effective(EngineConfig.of(flags), gpu_memory_gib, "GPU", max_model_len)
    broken = {violation.rule for violation in violations(filled, max_model_len)}
    assert broken <= {"tokens_below_seqs"}
    if "max-num-seqs" not in flags:
        assert broken == set()


@UNHURRIED
@given(engine_configs(), st.integers(1, 10**6))
def test_filling_in_twice_changes_nothing(config: EngineConfig, max_model_len: int) -> None:
    once = effective(config, 80.0, "H100", max_model_len)
    assert effective(once, 80.0, "H100", max_model_len) == once
