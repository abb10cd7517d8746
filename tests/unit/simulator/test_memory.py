from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.engine_model import H100, L4, LLAMA_7B, LLAMA_8B, MISTRAL_7B, config, flags
from tuner.domain.diagnosis import Phase
from tuner.domain.engine_config import EngineConfig
from tuner.errors import InvalidInputError
from tuner.simulator.gpus import Gpu, gpu_preset, known_gpus
from tuner.simulator.hardware import Hardware
from tuner.simulator.memory import (
    CONTEXT_GIB,
    GIB,
    LoadLimit,
    MemoryAccount,
    max_safe_utilization,
    memory_account,
)
from tuner.simulator.memory_parts import activation_bytes
from tuner.simulator.models import ModelGeometry, model_preset

HARDWARE = st.one_of(st.none(), st.integers(0, 1000)).map(Hardware.of_seed)


def account(
    engine: EngineConfig,
    *,
    gpu: Gpu = H100,
    model: ModelGeometry = LLAMA_8B,
    max_model_len: int = 4096,
    count: int = 1,
    hardware: Hardware | None = None,
) -> MemoryAccount:
    return memory_account(gpu, count, model, engine, max_model_len, hardware)


def failure_class(made: MemoryAccount) -> str | None:
    return None if made.failure is None else made.failure.failure_class


def test_the_pool_is_what_utilisation_leaves_of_the_total() -> None:
    made = account(config(256, 2048))
    spent = (
        made.weights_bytes
        + made.activation_bytes
        + made.logits_bytes
        + made.non_torch_bytes
        + made.graph_estimate_bytes
    )
    assert made.requested_bytes == pytest.approx(0.9 * made.total_bytes)
    assert made.kv_cache_bytes == pytest.approx(made.requested_bytes - spent)
    assert made.failure is None


def test_blocks_are_whole_and_tokens_fill_them() -> None:
    made = account(config(256, 2048))
    assert made.num_blocks == int(made.kv_cache_bytes / (128 * 1024 * 16))
    assert made.kv_cache_tokens == 16 * made.num_blocks
    assert made.max_concurrency == pytest.approx(made.kv_cache_tokens / 4096)


def test_weights_are_those_of_the_model() -> None:
    assert account(config(256, 2048)).weights_gib == pytest.approx(14.96, abs=0.02)


def test_sizes_are_near_what_such_engines_report() -> None:
    made = account(config(256, 8192))
    assert 0.8 < made.activation_gib < 2.5
    assert 0.1 < made.graph_gib < 1.0
    assert 400_000 < made.kv_cache_tokens < 480_000


def test_how_many_requests_fit_follows_from_the_pool() -> None:
    # P5: 512 KiB per token, 4096 tokens: 2 GiB per request.
    made = account(config(64, 2048), model=LLAMA_7B)
    assert made.requests_that_fit(4096) == pytest.approx(made.kv_cache_gib / 2, rel=0.01)


@pytest.mark.parametrize("name", known_gpus())
def test_an_8b_model_starts_on_every_gpu_with_the_default_budget(name: str) -> None:
    made = account(config(256, 2048), gpu=gpu_preset(name))
    assert failure_class(made) is None
    assert made.survives_load


@settings(deadline=None)
@given(
    hardware=HARDWARE,
    seqs=st.integers(1, 512),
    tokens=st.integers(512, 16384),
    utilization=st.floats(0.4, 0.95),
    name=st.sampled_from(known_gpus()),
)
def test_more_utilisation_never_shrinks_and_a_larger_batch_never_grows_the_pool(
    hardware: Hardware, seqs: int, tokens: int, utilization: float, name: str
) -> None:
    gpu = gpu_preset(name)
    base = account(
        config(seqs, tokens, gpu_memory_utilization=utilization), gpu=gpu, hardware=hardware
    )
    more = account(
        config(seqs, tokens, gpu_memory_utilization=min(1.0, utilization + 0.03)),
        gpu=gpu,
        hardware=hardware,
    )
    longer = account(
        config(seqs, 2 * tokens, gpu_memory_utilization=utilization), gpu=gpu, hardware=hardware
    )
    wider = account(
        config(2 * seqs, tokens, gpu_memory_utilization=utilization), gpu=gpu, hardware=hardware
    )
    assert more.num_blocks >= base.num_blocks
    assert longer.num_blocks <= base.num_blocks
    assert wider.num_blocks <= base.num_blocks
    assert more.load_limit.margin_bytes <= base.load_limit.margin_bytes


@settings(deadline=None)
@given(hardware=HARDWARE, tokens=st.integers(256, 32768))
def test_what_is_handed_out_fits_into_the_device(hardware: Hardware, tokens: int) -> None:
    made = account(config(128, tokens), hardware=hardware)
    used = (
        made.weights_bytes
        + made.activation_bytes
        + made.logits_bytes
        + made.non_torch_bytes
        + made.graph_bytes
        + made.num_blocks * 16 * made.kv_bytes_per_token
    )
    if made.failure is None:
        assert used <= made.total_bytes - CONTEXT_GIB * GIB
        assert made.num_blocks * made.block_size >= 4096


def test_activations_grow_linearly_in_the_forecast_and_not_in_a_hidden_machine() -> None:
    nominal, hidden = Hardware.nominal(), Hardware.hidden(1)
    one, two = (activation_bytes(LLAMA_8B, n, 1, nominal) for n in (4096, 8192))
    assert two == pytest.approx(2 * one)
    other, twice = (activation_bytes(LLAMA_8B, n, 1, hidden) for n in (4096, 8192))
    assert other < twice < 1.99 * other


@given(
    st.sampled_from(["Qwen/Qwen2.5-72B-Instruct-AWQ", "meta-llama/Llama-3.1-8B-Instruct"]),
    st.integers(1, 4096),
    st.integers(64, 65536),
    st.floats(0.05, 1.0),
)
def test_how_far_off_is_always_more_than_fits(
    model: str, seqs: int, tokens: int, utilization: float
) -> None:
    engine = config(seqs, tokens, gpu_memory_utilization=utilization)
    made = account(engine, gpu=L4, model=model_preset(model))
    assert made.failure is None or made.failure.severity >= 1.0


def test_weights_that_do_not_fit_fail_while_loading() -> None:
    made = account(config(8, 2048), gpu=L4, model=model_preset("Qwen/Qwen2.5-72B-Instruct-AWQ"))
    assert made.failure is not None
    assert made.failure.failure_class == "oom_weights"
    assert made.failure.phase is Phase.LOAD
    assert made.failure.severity == pytest.approx(38.6 / 21.2, abs=0.05)
    assert made.failure.requested_bytes > made.failure.free_bytes


def test_a_72b_int4_model_runs_on_80_gib() -> None:
    model = model_preset("Qwen/Qwen2.5-72B-Instruct-AWQ")
    assert failure_class(account(config(64, 2048), model=model)) is None


def test_a_huge_budget_fails_while_profiling() -> None:
    made = account(config(8, 65536), gpu=L4, max_model_len=65536)
    assert failure_class(made) == "oom_profile"
    assert made.failure is not None
    assert made.failure.phase is Phase.PROFILE
    assert "Tried to allocate" in made.failure.message


def test_too_many_sequences_fail_in_the_sampler() -> None:
    made = account(config(8192, 8192), gpu=L4, model=LLAMA_8B)
    assert failure_class(made) == "oom_sampler_warmup"
    assert made.failure is not None
    assert "with 8192 dummy requests" in made.failure.message


def test_profiling_does_not_depend_on_utilisation() -> None:
    for utilization in (0.3, 0.9):
        made = account(
            config(8, 65536, gpu_memory_utilization=utilization), gpu=L4, max_model_len=65536
        )
        assert failure_class(made) == "oom_profile"


def test_low_utilisation_leaves_no_cache() -> None:
    made = account(config(64, 2048, gpu_memory_utilization=0.6), gpu=L4)
    assert failure_class(made) == "kv_none"
    assert made.failure is not None
    assert made.failure.message.startswith("No available memory for the cache blocks.")
    assert made.num_blocks == 0


def test_a_pool_under_one_request_names_the_length_that_would_fit() -> None:
    made = account(config(64, 2048), gpu=L4, max_model_len=131072)
    assert failure_class(made) == "kv_too_small"
    assert made.failure is not None
    estimate = made.failure.estimated_max_len
    assert estimate == made.kv_cache_tokens
    assert f"estimated maximum model length is {estimate}" in made.failure.message
    retried = account(config(64, 2048), gpu=L4, max_model_len=estimate)
    assert failure_class(retried) is None


def test_the_estimate_is_the_last_length_that_starts() -> None:
    made = account(config(64, 2048), gpu=L4, max_model_len=131072)
    assert made.failure is not None
    assert made.failure.estimated_max_len is not None
    too_long = account(config(64, 2048), gpu=L4, max_model_len=made.failure.estimated_max_len + 1)
    assert failure_class(too_long) == "kv_too_small"


def test_more_than_what_is_free_at_start_is_refused_at_once() -> None:
    made = account(config(64, 2048, gpu_memory_utilization=1.0), gpu=L4)
    assert failure_class(made) == "gpu_memory_busy"
    assert made.failure is not None
    assert "(21.65/22.00 GiB) on startup" in made.failure.message
    assert "(1, 22.00 GiB)" in made.failure.message


def test_graphs_larger_than_their_estimate_fail_at_capture() -> None:
    surprising = Hardware(graph_estimate_error=4.0)
    made = account(config(256, 2048, gpu_memory_utilization=0.98), gpu=L4, hardware=surprising)
    assert failure_class(made) == "oom_capture"
    assert made.failure is not None
    assert made.failure.phase is Phase.CAPTURE
    lower = account(config(256, 2048, gpu_memory_utilization=0.9), gpu=L4, hardware=surprising)
    assert failure_class(lower) is None


def test_a_fixed_pool_overrides_utilisation() -> None:
    made = account(config(64, 2048, kv_cache_memory_bytes=4 * GIB))
    assert made.kv_cache_bytes == 4 * GIB
    assert made.num_blocks == 4 * GIB // (128 * 1024 * 16)


def test_a_fixed_pool_that_is_not_there_fails_when_it_is_allocated() -> None:
    made = account(config(64, 2048, kv_cache_memory_bytes=100 * GIB))
    assert failure_class(made) == "oom_kv_allocation"


def test_a_block_override_sets_the_number_of_blocks() -> None:
    assert account(config(64, 2048, num_gpu_blocks_override=300)).num_blocks == 300
    small = account(config(64, 2048, num_gpu_blocks_override=3))
    assert failure_class(small) == "kv_too_small"


def test_a_byte_per_value_doubles_the_tokens() -> None:
    half = account(config(256, 2048))
    small = account(config(256, 2048, kv_cache_dtype="fp8"))
    assert small.kv_cache_tokens == pytest.approx(2 * half.kv_cache_tokens, rel=1e-4)


def test_eager_mode_turns_graphs_into_cache() -> None:
    graphs, eager = account(config(256, 2048)), account(config(256, 2048, enforce_eager=True))
    assert eager.graph_bytes == 0.0
    assert eager.kv_cache_bytes - graphs.kv_cache_bytes == pytest.approx(
        graphs.graph_estimate_bytes
    )


def test_two_devices_share_weights_and_cache() -> None:
    one, two = account(config(64, 2048)), account(config(64, 2048, tensor_parallel_size=2), count=2)
    assert two.weights_bytes == pytest.approx(one.weights_bytes / 2)
    assert two.kv_bytes_per_token == one.kv_bytes_per_token / 2
    assert two.kv_cache_tokens > 2 * one.kv_cache_tokens
    assert two.non_torch_bytes == pytest.approx(1.5 * one.non_torch_bytes), "NCCL's buffers"


def test_more_devices_than_there_are_is_refused_in_the_engine_words() -> None:
    with pytest.raises(InvalidInputError, match=r"World size \(4\) is larger than the number"):
        account(config(64, 2048, tensor_parallel_size=4), count=2)


def test_a_window_caps_what_one_request_holds() -> None:
    short, long = (
        account(config(64, 2048), model=MISTRAL_7B, max_model_len=n) for n in (4096, 32768)
    )
    assert short.num_blocks == long.num_blocks
    assert short.max_concurrency == pytest.approx(long.max_concurrency)
    # What the engine reports as cache size is in tokens of full-length requests.
    assert long.kv_cache_tokens == pytest.approx(8 * short.kv_cache_tokens, rel=1e-4)


def test_pressure_is_linear_in_tokens_and_sequences() -> None:
    limit = LoadLimit(100.0, 2.0, 3.0, margin_bytes=200.0)
    assert limit.pressure(0, 0) == -100.0
    assert limit.pressure(20, 20) == 0.0
    assert limit.pressure(21, 20) == 2.0


def test_a_configuration_that_starts_need_not_survive_its_largest_step() -> None:
    # F03: 0.98 starts and dies in the benchmark.
    made = account(config(256, 32768, gpu_memory_utilization=0.98))
    assert failure_class(made) is None
    assert not made.survives_load
    assert made.load_limit.pressure(1024, 64) < 0 < made.load_limit.pressure(32768, 256)


@settings(deadline=None, max_examples=40)
@given(
    hardware=HARDWARE,
    seqs=st.sampled_from([16, 256, 1024]),
    tokens=st.sampled_from([1024, 8192, 16384]),
    name=st.sampled_from(known_gpus()),
)
def test_the_safe_utilisation_is_the_last_that_starts_and_survives(
    hardware: Hardware, seqs: int, tokens: int, name: str
) -> None:
    gpu = gpu_preset(name)
    engine = config(seqs, tokens)
    found = max_safe_utilization(gpu, 1, LLAMA_8B, engine, 4096, hardware)
    if found is None:
        made = account(engine, gpu=gpu, hardware=hardware)
        assert made.failure is not None or not made.survives_load
        return
    for utilization, expected in ((found, True), (found + 0.001, False)):
        changed = engine.with_flags({"gpu-memory-utilization": utilization})
        made = account(changed, gpu=gpu, hardware=hardware)
        assert (made.failure is None and made.survives_load) is expected


def test_no_utilisation_is_safe_for_a_model_that_does_not_fit() -> None:
    model = model_preset("Qwen/Qwen2.5-72B-Instruct-AWQ")
    assert max_safe_utilization(L4, 1, model, config(8, 2048), 4096) is None


def test_the_safe_utilisation_ignores_a_fixed_pool() -> None:
    free = max_safe_utilization(L4, 1, LLAMA_8B, config(8, 2048), 4096)
    fixed = config(8, 2048, kv_cache_memory_bytes=GIB)
    assert max_safe_utilization(L4, 1, LLAMA_8B, fixed, 4096) == free


def test_nothing_set_means_the_engine_defaults() -> None:
    made = account(flags())
    assert made.requested_bytes == pytest.approx(0.92 * made.total_bytes)


def test_the_memory_law_of_a_budget_of_32768() -> None:
    """P12: the pool shrinks by exactly what activations grow, until there is nothing left."""
    small, large = (account(config(256, tokens), gpu=H100) for tokens in (8192, 32768))
    grown = large.activation_bytes - small.activation_bytes
    assert small.kv_cache_bytes - large.kv_cache_bytes == pytest.approx(grown)
    assert grown == pytest.approx(3 * small.activation_bytes)
    assert failure_class(account(config(256, 32768), gpu=L4)) == "kv_none"
