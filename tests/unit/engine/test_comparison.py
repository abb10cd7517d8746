"""Two starts of an engine, and what is told of their difference."""

from __future__ import annotations

from tuner.domain.diagnosis import Remedy
from tuner.engine.comparison import Start, compare


def log(
    version: str,
    tokens: str,
    *more: str,
    arguments: str = "{'gpu_memory_utilization': 0.9, 'port': 1}",
) -> str:
    head = "(EngineCore pid=4) INFO 11-30 10:00:22 [core.py:1]"
    return "\n".join(
        (
            f"(APIServer pid=1) INFO 11-30 10:00:00 [u.py:1] non-default args: {arguments}",
            f"{head} Initializing a V1 LLM engine (v{version}) with config: model='m'",
            *(f"{head} {text}" for text in more),
            f"{head} GPU KV cache size: {tokens} tokens",
        )
    )


PROFILED = (
    "CUDA graph memory profiling is enabled (default since v0.21.0). The current "
    "--gpu-memory-utilization=0.9000 is equivalent to --gpu-memory-utilization=0.8600 without CUDA "
    "graph memory profiling. To maintain the same effective KV cache size as before, increase "
    "--gpu-memory-utilization to 0.9400."
)


def told(old: str, new: str) -> str:
    return compare(Start.read(old), Start.read(new)).failure_class


def test_a_cache_that_shrank_with_an_upgrade_is_laid_to_the_graph_estimate() -> None:
    found = compare(
        Start.read(log("0.20.1", "700,000")), Start.read(log("0.21.0", "240,000", PROFILED))
    )

    assert found.failure_class == "kv_shrunk_by_cudagraph_estimate"
    assert found.facts["old_kv_cache_tokens"] == 700_000
    assert found.facts["new_kv_cache_tokens"] == 240_000
    assert Remedy("gpu_memory_utilization", "up", 0.94) in found.remedies
    assert Remedy("max_cudagraph_capture_size", "down") in found.remedies
    assert any("profiling is enabled" in line for line in found.evidence)


def test_the_estimate_is_not_blamed_where_both_have_it() -> None:
    old, new = log("0.21.0", "700,000", PROFILED), log("0.22.0", "240,000", PROFILED)

    assert told(old, new) == "version_changed"


def test_a_cold_and_a_warm_compile_cache_are_told_apart() -> None:
    cold = log("0.32.0", "240,000", "Cache the graph of shape None for later use")
    warm = log("0.32.0", "288,000", "Directly load the compiled graph(s) for shape None")

    assert told(cold, warm) == "compile_cache_state"
    assert told(warm, warm) == "ok"


def test_changed_arguments_are_named_with_both_values_and_addresses_left_out() -> None:
    new = log("0.32.0", "90,000", arguments="{'gpu_memory_utilization': 0.5, 'port': 7}")

    found = compare(Start.read(log("0.32.0", "240,000")), Start.read(new))

    assert found.failure_class == "arguments_changed"
    assert found.facts["old_arg_gpu_memory_utilization"] == "0.9"
    assert found.facts["new_arg_gpu_memory_utilization"] == "0.5"
    assert not any("port" in name for name in found.facts)


def test_another_cache_under_equal_circumstances_is_unknown_with_both_lines_quoted() -> None:
    found = compare(Start.read(log("0.32.0", "240,000")), Start.read(log("0.32.0", "90,000")))

    assert found.failure_class == "unknown"
    assert len(found.evidence) == 2


def test_arguments_are_read_and_never_run() -> None:
    hostile = log("0.32.0", "1,000", arguments="{'a': __import__('os').getpid()}")

    assert Start.read(hostile).arguments == {}
