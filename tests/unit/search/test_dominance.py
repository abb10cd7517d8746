"""What one failed start says of other configurations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.domain.diagnosis import FactValue
from tuner.domain.engine_config import EngineConfig, FlagValue
from tuner.search.dominance import Region, region_of, sequence_cap


def config(
    seqs: int = 64, tokens: int = 4096, util: float = 0.9, **more: FlagValue
) -> EngineConfig:
    flags: dict[str, FlagValue] = {
        "max-num-seqs": seqs,
        "max-num-batched-tokens": tokens,
        "gpu-memory-utilization": util,
        "enable-chunked-prefill": True,
        "max-model-len": 8192,
    }
    return EngineConfig.of({**flags, **{k.replace("_", "-"): v for k, v in more.items()}})


def region(failure_class: str, facts: dict[str, FactValue] | None = None, **at: object) -> Region:
    found = region_of(3, failure_class, 0.5, config(**at), facts or {})  # type: ignore[arg-type]
    assert found is not None
    return found


def test_out_of_memory_while_profiling_rules_out_larger_budgets_at_any_utilisation() -> None:
    found = region("oom_profile")

    assert found.contains(config(tokens=8192, util=0.5))
    assert found.contains(config(tokens=4096, util=0.97))
    assert not found.contains(config(tokens=2048))
    assert not found.contains(config(tokens=8192, seqs=32))


@pytest.mark.parametrize("failure_class", ["oom_runtime", "oom_capture", "oom_sampler_warmup"])
def test_out_of_memory_beside_the_cache_rules_out_higher_utilisation(failure_class: str) -> None:
    found = region(failure_class)

    assert found.contains(config(util=0.95, tokens=512))
    assert not found.contains(config(util=0.89))
    assert not found.contains(config(util=0.95, seqs=32))


@pytest.mark.parametrize("failure_class", ["kv_none", "kv_too_small", "stalled"])
def test_a_cache_that_is_too_small_rules_out_lower_utilisation(failure_class: str) -> None:
    found = region(failure_class)

    assert found.contains(config(util=0.5))
    assert found.contains(config(util=0.9, tokens=8192))
    assert not found.contains(config(util=0.91))
    assert not found.contains(config(util=0.5, tokens=2048))


def test_blocks_of_states_cap_the_sequences() -> None:
    found = region("mamba_blocks", {"mamba_blocks": 48})

    assert found.contains(config(seqs=49, util=0.8))
    assert not found.contains(config(seqs=48))
    assert not found.contains(config(seqs=64, util=0.95))


def test_a_cache_in_bytes_is_compared_with_its_like() -> None:
    small = region("kv_too_small", kv_cache_memory_bytes=1 << 30)
    large = region("oom_runtime", kv_cache_memory_bytes=1 << 30)

    assert small.contains(config(kv_cache_memory_bytes=1 << 29, tokens=512))
    assert not small.contains(config(kv_cache_memory_bytes=1 << 31))
    assert large.contains(config(kv_cache_memory_bytes=1 << 31))
    assert not small.contains(config(util=0.1))


@pytest.mark.parametrize(
    "other", [{"max_model_len": 4096}, {"enforce_eager": True}, {"tensor_parallel_size": 2}]
)
def test_nothing_follows_for_another_rest(other: dict[str, int]) -> None:
    assert not region("oom_profile").contains(config(tokens=8192, **other))


def test_faults_that_are_not_of_memory_say_nothing() -> None:
    for name in ("nccl", "hang", "port_in_use", "unknown", "gpu_memory_busy", "oom_weights"):
        assert region_of(1, name, 0.5, config(), {}) is None


def test_an_absurd_estimate_says_nothing_of_the_configuration() -> None:
    assert region_of(1, "kv_none", 0.5, config(), {"graph_estimate_absurd": True}) is None


def test_the_reason_names_trial_class_and_bounds() -> None:
    told = region("oom_profile").prediction()

    assert told.failure_class == "oom_profile"
    assert "trial 3" in told.reason
    assert "max-num-batched-tokens 4096 or more" in told.reason


CLASSES = st.sampled_from(["oom_profile", "oom_runtime", "oom_capture", "kv_none", "kv_too_small"])
POINTS = st.builds(
    config, st.integers(1, 512), st.integers(512, 16384), st.floats(0.3, 1.0, allow_nan=False)
)


@given(failure_class=CLASSES, failed=POINTS, other=POINTS)
def test_a_region_holds_what_failed_and_whatever_fails_there_lies_within(
    failure_class: str, failed: EngineConfig, other: EngineConfig
) -> None:
    found = region_of(1, failure_class, 0.5, failed, {})

    assert found is not None
    assert found.contains(failed)
    if found.contains(other):
        inner = region_of(2, failure_class, 0.5, other, {})
        assert inner is not None
        assert all(dict(inner.at_least)[flag] >= value for flag, value in found.at_least)
        assert all(dict(inner.at_most)[flag] <= value for flag, value in found.at_most)


class TestSequenceCap:
    def test_sequences_that_the_cache_cannot_hold_are_capped(self) -> None:
        cap = sequence_cap(5, config(seqs=64), running_peak=26, waiting_peak=30, kv_usage_peak=0.99)

        assert cap is not None
        assert cap.most == 32
        assert cap.covers(config(seqs=256))
        assert cap.covers(config(seqs=48, util=0.8))
        assert not cap.covers(config(seqs=32))
        assert not cap.covers(config(seqs=256, util=0.95))
        assert not cap.covers(config(seqs=256, tokens=2048))
        assert "26 requests" in cap.reason

    @pytest.mark.parametrize(
        ("running", "waiting", "usage"),
        [(64.0, 9.0, 0.99), (26.0, 0.0, 0.99), (26.0, 9.0, 0.6), (None, 9.0, 0.99), (50, 9, 0.99)],
    )
    def test_what_the_cache_did_not_bind_is_not(
        self, running: float | None, waiting: float, usage: float
    ) -> None:
        found = sequence_cap(
            5, config(), running_peak=running, waiting_peak=waiting, kv_usage_peak=usage
        )

        assert found is None
