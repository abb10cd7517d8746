"""Situations that users report, in numbers of our own: the whole answer for each."""

from __future__ import annotations

import pytest

from objectives.preemption import HEALTHY_PER_REQUEST
from tuner.domain.argv import from_argv, to_argv
from tuner.domain.defaults import scheduler_tier
from tuner.domain.diagnosis import Remedy
from tuner.domain.engine_config import EngineConfig
from tuner.domain.version_fit import Circumstances, fitted, ignored
from tuner.engine.comparison import Start, compare
from tuner.engine.diagnosis import diagnose
from tuner.engine.signature import floor_hundredth
from tuner.search.dominance import region_of, sequence_cap
from tuner.telemetry.condition import Readings, preemptions_per_request
from tuner.telemetry.exposition import EngineMetric, EngineSnapshot, parse_exposition


def test_an_engine_that_starts_and_dies_under_load_steps_utilisation_down() -> None:
    log = (
        "INFO:     Application startup complete.\n"
        "(EngineCore_DP0 pid=2) ERROR 10-02 09:15:00 [core.py:1] torch.OutOfMemoryError: CUDA out "
        "of memory. Tried to allocate 1.10 GiB."
    )
    found = diagnose(log, exit_status=None, ready=False)
    full = EngineConfig.of(
        {"max-num-seqs": 10, "max-num-batched-tokens": 2048, "gpu-memory-utilization": 0.98}
    )

    assert found.failure_class == "oom_runtime"
    assert found.remedies[0] == Remedy("gpu_memory_utilization", "down")
    region = region_of(1, found.failure_class, 0.25, full, found.facts)
    assert region is not None
    assert region.contains(full.with_flags({"gpu-memory-utilization": 0.99}))
    assert not region.contains(full.with_flags({"gpu-memory-utilization": 0.96}))


def test_too_few_state_blocks_give_the_next_number_of_sequences() -> None:
    log = "ValueError: max_num_seqs (512) exceeds available Mamba cache blocks (301)."

    found = diagnose(log, exit_status=None, ready=False)

    assert found.remedies[0] == Remedy("max_num_seqs", "down", 301)


def test_renamed_metrics_mean_the_same_and_missing_ones_are_unknown() -> None:
    for name in ("kv_cache_usage_perc", "gpu_cache_usage_perc"):
        text = f'vllm:{name}{{engine="0"}} 0.37\n'
        assert parse_exposition(text).get(EngineMetric.KV_USAGE) == 0.37
    assert parse_exposition("").get(EngineMetric.KV_USAGE) is None


def test_creation_times_are_no_counts_and_engines_are_combined_by_kind() -> None:
    text = (
        'vllm:num_preemptions_total{engine="0"} 9\nvllm:num_preemptions_total{engine="1"} 4\n'
        'vllm:num_preemptions_created{engine="0"} 1.79e+09\n'
        'vllm:kv_cache_usage_perc{engine="0"} 0.3\nvllm:kv_cache_usage_perc{engine="1"} 0.5\n'
        'vllm:num_requests_running{engine="0"} 7\nvllm:num_requests_running{engine="1"} 8\n'
    )
    read = parse_exposition(text)

    assert read.get(EngineMetric.PREEMPTIONS) == 13
    assert read.get(EngineMetric.KV_USAGE) == pytest.approx(0.4)
    assert read.get(EngineMetric.RUNNING) == 15


def test_a_few_preemptions_per_request_are_mild() -> None:
    last = EngineSnapshot({EngineMetric.PREEMPTIONS: 720.0, EngineMetric.FINISHED_REQUESTS: 9000.0})

    rate = preemptions_per_request(Readings((last,), None))

    assert rate == pytest.approx(0.08)
    assert rate is not None
    assert rate <= HEALTHY_PER_REQUEST


def test_an_image_bump_leaves_out_dead_flags_and_refuses_what_it_cannot() -> None:
    old = from_argv(["--disable-log-requests", "--swap-space", "8", "--max-num-seqs", "48"])

    assert to_argv(fitted(old, "0.29.0").config) == ("--max-num-seqs", "48")
    dead = fitted(from_argv(["--max-num-partial-prefills", "2"]), "0.28.0")
    assert dead.refused == (("max-num-partial-prefills", "removed in 0.27"),)


def test_suffixes_are_read_as_vllm_does_and_written_plainly() -> None:
    read = from_argv(["--max-model-len", "16k", "--max-num-batched-tokens", "16K"])

    assert to_argv(read) == ("--max-model-len", "16000", "--max-num-batched-tokens", "16384")


def test_another_process_bounds_the_feasible_utilisation() -> None:
    assert floor_hundredth((47.5 - 20.0) / 47.5) == 0.57


def test_placebos_are_named() -> None:
    sized = Circumstances(EngineConfig.of({"kv-cache-memory-bytes": 1 << 34}))

    assert ignored("gpu-memory-utilization", "0.28.0", sized)
    assert ignored("enable-chunked-prefill", "0.10.2", Circumstances())
    assert scheduler_tier(24.0, "RTX 4090", "0.8.1").max_num_seqs == 1024


def test_more_sequences_than_the_cache_holds_are_capped() -> None:
    full = EngineConfig.of(
        {"max-num-seqs": 128, "max-num-batched-tokens": 4096, "gpu-memory-utilization": 0.9}
    )

    cap = sequence_cap(2, full, running_peak=22.0, waiting_peak=90.0, kv_usage_peak=1.0)

    assert cap is not None
    assert cap.most == 32


def test_an_upgrade_that_shrinks_the_cache_is_explained_from_logs() -> None:
    line = "INFO 10-02 09:15:00 [x.py:1] "
    old = f"{line}vLLM API server version 0.20.0\n{line}GPU KV cache size: 500,000 tokens"
    new = (
        f"{line}vLLM API server version 0.21.0\n{line}CUDA graph memory profiling is enabled "
        f"(default since v0.21.0).\n{line}GPU KV cache size: 170,000 tokens"
    )

    found = compare(Start.read(old), Start.read(new))

    assert found.failure_class == "kv_shrunk_by_cudagraph_estimate"
