"""What each version makes of a configuration, by the catalogue alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.domain.argv import from_argv, to_argv
from tuner.domain.defaults import default_utilization, effective, scheduler_tier
from tuner.domain.document_flags import flag_faults
from tuner.domain.engine_config import EngineConfig, FlagValue
from tuner.domain.flag_catalogue import catalogue, has_flag
from tuner.domain.version_fit import Circumstances, fitted, ignored

VERSIONS = st.builds("0.{}.{}".format, st.integers(8, 34), st.integers(0, 3))


def config(**flags: FlagValue) -> EngineConfig:
    return EngineConfig.of({name.replace("_", "-"): value for name, value in flags.items()})


def test_what_a_version_no_longer_has_is_left_out_where_that_changes_nothing() -> None:
    old = from_argv(["--disable-log-requests", "--swap-space", "4", "--max-num-seqs", "96"])

    found = fitted(old, "0.28.0")

    assert to_argv(found.config) == ("--max-num-seqs", "96")
    assert dict(found.dropped) == {
        "disable-log-requests": "removed in 0.17 (off is the default)",
        "swap-space": "removed in 0.18 (no effect in V1)",
    }
    assert found.refused == ()


def test_what_would_change_the_server_is_refused_and_kept() -> None:
    found = fitted(config(max_num_partial_prefills=4), "0.29.0")

    assert found.refused == (("max-num-partial-prefills", "removed in 0.27"),)
    assert found.config.get("max-num-partial-prefills") == 4
    assert fitted(config(max_num_partial_prefills=4), "0.26.1").refused == ()
    assert fitted(config(max_num_partial_prefills=1), "0.29.0").refused == ()


def test_a_flag_from_a_later_version_is_refused() -> None:
    found = fitted(config(max_num_active_seqs=8), "0.30.2")

    assert found.refused == (("max-num-active-seqs", "new in 0.31"),)


def test_a_flag_whose_beginning_is_not_recorded_is_refused_nowhere() -> None:
    assert fitted(config(offload_group_size=2), "0.20.0").refused == ()
    assert fitted(config(task="generate"), "0.32.0").refused == (
        ("task", "no longer there in 0.32"),
    )
    assert fitted(config(task="generate"), "0.10.0").refused == ()


def test_flags_change_their_names_in_both_directions() -> None:
    assert fitted(config(cuda_graph_sizes="8"), "0.20.0").config == config(
        cudagraph_capture_sizes="8"
    )
    assert fitted(config(cudagraph_capture_sizes="8"), "0.10.2").config == config(
        cuda_graph_sizes="8"
    )
    assert fitted(config(cuda_graph_sizes="8"), "0.8.5").refused == (
        ("cuda-graph-sizes", "new in 0.9"),
    )


@pytest.mark.parametrize(
    ("value", "version", "accepted"),
    [
        ("fp8", "0.8.5", True),
        ("fp8_inc", "0.9.2", False),
        ("fp8_inc", "0.10.0", True),
        ("turboquant_4bit", "0.19.0", False),
        ("turboquant_4bit", "0.20.0", True),
        ("octave_3", "0.32.0", False),
        ("octave_3", "0.33.0", True),
    ],
)
def test_values_have_versions_too(value: str, version: str, accepted: bool) -> None:
    faults = list(flag_faults("engine.flags", {"kv-cache-dtype": value}, version))

    assert (not faults) is accepted
    assert (not fitted(config(kv_cache_dtype=value), version).refused) is accepted


def test_block_sizes_are_free_since_0_18() -> None:
    assert fitted(config(block_size=48), "0.17.1").refused
    assert not fitted(config(block_size=48), "0.18.0").refused
    assert fitted(config(block_size=256), "0.11.0").refused


@pytest.mark.parametrize(
    ("version", "placebo"), [("0.8.5", True), ("0.11.0", True), ("0.11.1", False), (None, False)]
)
def test_chunked_prefill_is_a_placebo_until_0_11_0(version: str | None, placebo: bool) -> None:
    assert (ignored("enable-chunked-prefill", version, Circumstances()) is not None) is placebo


def test_the_older_engine_of_that_time_listened() -> None:
    older = Circumstances(env=(("VLLM_USE_V1", "0"),))

    assert ignored("enable-chunked-prefill", "0.10.2", older) is None


def test_utilisation_does_not_size_a_cache_that_is_given_in_bytes() -> None:
    sized = Circumstances(config(kv_cache_memory_bytes=20 << 30))

    assert "bytes" in (ignored("gpu-memory-utilization", "0.30.0", sized) or "")
    assert ignored("gpu-memory-utilization", "0.30.0", Circumstances()) is None


def test_asynchronous_scheduling_does_nothing_on_cpus() -> None:
    assert ignored("async-scheduling", "0.32.0", Circumstances(gpu_name="CPU"))
    assert ignored("async-scheduling", "0.32.0", Circumstances(gpu_name="H100")) is None


@pytest.mark.parametrize(("version", "value"), [("0.19.1", 0.9), ("0.20.0", 0.92), (None, 0.92)])
def test_the_default_utilisation_rose_in_0_20(version: str | None, value: float) -> None:
    assert default_utilization(version) == value


@pytest.mark.parametrize(
    ("version", "gpu", "memory", "seqs", "tokens"),
    [
        ("0.8.2", "RTX 4090", 24.0, 1024, 2048),
        ("0.8.2", "H100", 80.0, 1024, 8192),
        ("0.8.5", "RTX 4090", 24.0, 256, 2048),
        ("0.8.5", "A100", 80.0, 1024, 8192),
        ("0.9.0", "A100", 80.0, 256, 2048),
        ("0.27.0", "B200", 180.0, 1024, 8192),
        ("0.28.0", "B200", 180.0, 1024, 16384),
        ("0.33.0", "GB10", 120.0, 256, 2048),
        ("0.32.0", "CPU", None, 128, 2048),
    ],
)
def test_default_limits_by_version_and_hardware(
    version: str, gpu: str, memory: float | None, seqs: int, tokens: int
) -> None:
    tier = scheduler_tier(memory, gpu, version)
    full = effective(EngineConfig(), memory, gpu, 32768, version)

    assert (tier.max_num_seqs, tier.max_num_batched_tokens) == (seqs, tokens)
    assert (full.max_num_seqs, full.max_num_batched_tokens) == (seqs, tokens)


@given(
    version=VERSIONS,
    names=st.lists(st.sampled_from(sorted(catalogue().flags)), max_size=6, unique=True),
)
def test_what_is_fitted_needs_no_fitting_and_loses_nothing_unsaid(
    version: str, names: list[str]
) -> None:
    given_ = EngineConfig.of({name: _value(name) for name in names})

    found = fitted(given_, version)

    again = fitted(found.config, version)
    assert again.config == found.config
    assert not again.dropped
    assert not again.renamed
    spoken_of = dict(found.dropped) | dict(found.renamed)
    kept = {name for name, _ in found.config.flags}
    assert all(name in kept or name in spoken_of for name in names)
    refused = dict(found.refused)
    for name in kept:
        info = catalogue().flags[name]
        assert has_flag(info, version) is not False or name in refused


def _value(name: str) -> FlagValue:
    info = catalogue().flags[name]
    if info.is_boolean:
        return True
    return 3 if info.is_integer else "x"
