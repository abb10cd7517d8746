from __future__ import annotations

import pytest

from tuner.domain.engine_config import EngineConfig, FlagValue
from tuner.errors import InvalidInputError
from tuner.simulator.limits import EngineLimits, engine_limits


def limits(**flags: FlagValue) -> EngineLimits:
    named = {name.replace("_", "-"): value for name, value in flags.items()}
    return engine_limits(EngineConfig.of(named), 4096)


def test_what_is_left_open_has_the_newest_engine_defaults() -> None:
    found = limits()
    assert found.max_num_seqs == 256
    assert found.max_num_batched_tokens == 2048
    assert found.chunked_prefill
    assert found.prefix_caching
    assert found.utilization == 0.92
    assert found.block_size == 16
    assert found.graph_tokens == 512
    assert found.tensor_parallel == 1
    assert found.kv_value_bytes is None
    assert not found.priority_scheduling


def test_flags_override_the_defaults() -> None:
    found = limits(
        max_num_seqs=8,
        max_num_batched_tokens=4096,
        enable_chunked_prefill=False,
        enable_prefix_caching=False,
        gpu_memory_utilization=0.5,
        block_size=32,
        long_prefill_token_threshold=512,
        scheduling_policy="priority",
        tensor_parallel_size=2,
    )
    assert found.max_num_seqs == 8
    assert not found.chunked_prefill
    assert not found.prefix_caching
    assert found.utilization == 0.5
    assert found.block_size == 32
    assert found.long_prefill_threshold == 512
    assert found.priority_scheduling
    assert found.tensor_parallel == 2


@pytest.mark.parametrize(
    ("seqs", "tokens", "top"), [(8, 2048, 16), (256, 2048, 512), (1024, 8192, 512), (64, 100, 100)]
)
def test_graphs_are_captured_up_to_twice_the_sequences(seqs: int, tokens: int, top: int) -> None:
    assert limits(max_num_seqs=seqs, max_num_batched_tokens=tokens).graph_tokens == top


@pytest.mark.parametrize(("top", "sizes"), [(1, 1), (4, 3), (16, 5), (256, 35), (512, 51)])
def test_captured_sizes_follow_the_engine_list(top: int, sizes: int) -> None:
    # 1, 2, 4, every 8 up to 256, every 16 beyond.
    assert limits(max_num_seqs=1024, max_cudagraph_capture_size=top).graph_sizes == sizes


@pytest.mark.parametrize("flags", [{"enforce_eager": True}, {"optimization_level": 0}])
def test_eager_mode_captures_nothing(flags: dict[str, FlagValue]) -> None:
    found = limits(**flags)
    assert (found.graph_tokens, found.graph_sizes) == (0, 0)


@pytest.mark.parametrize(
    ("dtype", "size"),
    [
        ("auto", None),
        ("fp8", 1.0),
        ("fp8_e5m2", 1.0),
        ("int8_per_token_head", 1.0),
        ("nvfp4", 0.5),
        ("bfloat16", 2.0),
        ("unheard-of", None),
    ],
)
def test_the_cache_dtype_sets_the_bytes_per_value(dtype: str, size: float | None) -> None:
    assert limits(kv_cache_dtype=dtype).kv_value_bytes == size


@pytest.mark.parametrize(
    "flags",
    [
        {"max_num_seqs": -1},
        {"max_num_batched_tokens": -5},
        {"block_size": 0},
        {"tensor_parallel_size": 0},
        {"gpu_memory_utilization": 0.0},
        {"gpu_memory_utilization": 1.5},
    ],
)
def test_numbers_that_no_engine_runs_with_are_refused(flags: dict[str, FlagValue]) -> None:
    with pytest.raises(InvalidInputError, match=next(iter(flags)).replace("_", "-")):
        limits(**flags)
