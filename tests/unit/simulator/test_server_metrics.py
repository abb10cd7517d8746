from __future__ import annotations

import io
import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.parser import text_string_to_metric_families

from tests.support.simulated_server import MODEL, Served, log_into, run_served
from tuner.simulator.server.histogram import Histogram, powers_1_2_5
from tuner.simulator.server.metrics import EngineMetrics
from tuner.simulator.server.stats_log import StatsLog

Samples = dict[str, float]


async def samples(served: Served) -> Samples:
    """Every sample of `/metrics` as `name{labels}`; the served model and engine are left out."""
    response = await served.client.get("/metrics")
    assert response.headers["Content-Type"].startswith("text/plain; version=")
    found: Samples = {}
    for family in text_string_to_metric_families(await response.text()):
        for sample in family.samples:
            if sample.name.startswith("vllm:") and "model_name" in sample.labels:
                assert sample.labels["model_name"] == MODEL
            labels = {
                name: value
                for name, value in sorted(sample.labels.items())
                if name not in ("engine", "model_name")
            }
            found[sample.name + (str(labels) if labels else "")] = sample.value
    return found


EXPECTED = (
    "vllm:num_requests_running",
    "vllm:num_requests_waiting",
    "vllm:num_requests_waiting_by_reason{'reason': 'capacity'}",
    "vllm:kv_cache_usage_perc",
    "vllm:num_preemptions_total",
    "vllm:num_preemptions_created",
    "vllm:prompt_tokens_total",
    "vllm:prompt_tokens_cached_total",
    "vllm:prompt_tokens_by_source_total{'source': 'local_compute'}",
    "vllm:generation_tokens_total",
    "vllm:prefix_cache_queries_total",
    "vllm:prefix_cache_hits_total",
    "vllm:external_prefix_cache_queries_total",
    "vllm:mm_cache_queries_total",
    "vllm:request_success_total{'finished_reason': 'length'}",
    "vllm:request_success_total{'finished_reason': 'abort'}",
    "vllm:admission_rejections_total{'reason': 'max_num_queued_reqs'}",
    "vllm:engine_sleep_state{'sleep_state': 'awake'}",
    "vllm:time_to_first_token_seconds_sum",
    "vllm:time_to_first_token_seconds_created",
    "vllm:time_to_first_token_seconds_bucket{'le': '0.001'}",
    "vllm:time_to_first_token_seconds_bucket{'le': '2560.0'}",
    "vllm:inter_token_latency_seconds_bucket{'le': '0.01'}",
    "vllm:request_time_per_output_token_seconds_count",
    "vllm:e2e_request_latency_seconds_bucket{'le': '0.3'}",
    "vllm:request_queue_time_seconds_sum",
    "vllm:request_inference_time_seconds_sum",
    "vllm:request_prefill_time_seconds_sum",
    "vllm:request_decode_time_seconds_bucket{'le': '+Inf'}",
    "vllm:iteration_tokens_total_bucket{'le': '16384.0'}",
    "vllm:request_prompt_tokens_sum",
    "vllm:request_generation_tokens_sum",
    "vllm:request_max_num_generation_tokens_sum",
    "vllm:request_params_n_sum",
    "vllm:request_params_max_tokens_sum",
    "vllm:request_num_preemptions_bucket{'le': '20.0'}",
    "vllm:request_prefill_kv_computed_tokens_sum",
    "process_resident_memory_bytes",
    "sim:startup_engine_seconds",
    "sim:gpu_busy_seconds_total",
    "sim:clock_seconds_total",
)


RENAMED = ("vllm:time_per_output_token", "vllm:gpu_cache_usage_perc", "vllm:num_requests_swapped")


def test_the_names_are_those_of_vllm_and_start_at_zero() -> None:
    async def check(served: Served) -> None:
        found = await samples(served)
        assert [name for name in EXPECTED if name not in found] == []
        assert [name for name in found if name.startswith(RENAMED)] == []
        assert found["vllm:generation_tokens_total"] == 0
        assert found["vllm:num_preemptions_created"] > 1e9

    run_served(check)


def test_the_configuration_can_be_read_back() -> None:
    async def check(served: Served) -> None:
        text = await (await served.client.get("/metrics")).text()
        line = next(x for x in text.splitlines() if x.startswith("vllm:cache_config_info{"))
        labels = dict(re.findall(r'(\w+)="([^"]*)"', line))
        blocks, size = int(labels["num_gpu_blocks"]), int(labels["block_size"])
        assert size == 32
        assert int(labels["kv_cache_size_tokens"]) == blocks * size
        assert labels["gpu_memory_utilization"] == "0.8"
        assert labels["enable_prefix_caching"] == "False"
        assert labels["kv_cache_memory_bytes"] == "None"
        assert float(labels["kv_cache_max_concurrency"]) > 1
        assert labels["engine"] == "0"

    run_served(
        check,
        *("--block-size", "32", "--gpu-memory-utilization", "0.8", "--no-enable-prefix-caching"),
    )


def test_counters_and_histograms_agree_with_what_was_served() -> None:
    async def check(served: Served) -> None:
        for prompt, output in ((10, 5), (200, 1), (30, 40)):
            await served.complete(prompt=[1] * prompt, max_tokens=output, ignore_eos=True)
        found = await samples(served)
        truth = (await served.truth())["requests"]
        assert found["vllm:prompt_tokens_total"] == 240
        assert found["vllm:generation_tokens_total"] == 46
        assert found["vllm:request_success_total{'finished_reason': 'length'}"] == 3
        assert found["vllm:request_prompt_tokens_sum"] == 240
        assert found["vllm:request_generation_tokens_sum"] == 46
        assert found["vllm:time_to_first_token_seconds_count"] == 3
        assert found["vllm:inter_token_latency_seconds_count"] == 46 - 3
        assert found["vllm:request_time_per_output_token_seconds_count"] == 2
        cached = found["vllm:prompt_tokens_cached_total"]
        assert found["vllm:iteration_tokens_total_sum"] == 240 + 46 - cached
        assert found["vllm:prefix_cache_queries_total"] == 240
        assert found["vllm:prefix_cache_hits_total"] == cached
        ttft = sum(entry["first_token_s"] - entry["arrival_s"] for entry in truth)
        assert found["vllm:time_to_first_token_seconds_sum"] == pytest.approx(ttft)
        e2e = sum(entry["last_token_s"] - entry["arrival_s"] for entry in truth)
        assert found["vllm:e2e_request_latency_seconds_sum"] == pytest.approx(e2e)
        phases = ("queue", "prefill", "decode")
        total = sum(found[f"vllm:request_{phase}_time_seconds_sum"] for phase in phases)
        assert total == pytest.approx(e2e)
        gaps = sum(entry["last_token_s"] - entry["first_token_s"] for entry in truth)
        assert found["vllm:inter_token_latency_seconds_sum"] == pytest.approx(gaps)

    run_served(check)


def test_the_busy_time_is_that_of_the_steps_and_never_ahead_of_the_clock() -> None:
    async def check(served: Served) -> None:
        await served.complete(prompt=[1] * 300, max_tokens=20, ignore_eos=True)
        await served.engine.drain(10.0)
        found = await samples(served)
        (request,) = (await served.truth())["requests"]
        served_s = request["last_token_s"] - request["scheduled_s"]
        # One request alone: the engine was busy from its schedule to its last token, then idle.
        assert found["sim:gpu_busy_seconds_total"] == pytest.approx(served_s)
        assert found["sim:clock_seconds_total"] >= found["sim:gpu_busy_seconds_total"]

    run_served(check)


def test_a_refused_request_leaves_no_trace() -> None:
    async def check(served: Served) -> None:
        await served.client.post("/v1/completions", json={"prompt": [10**9]})
        found = await samples(served)
        reasons = ("stop", "length", "abort", "error", "repetition")
        names = [f"vllm:request_success_total{{'finished_reason': '{r}'}}" for r in reasons]
        assert [found[name] for name in names] == [0] * 5

    run_served(check)


def test_usage_returns_to_zero_when_the_engine_is_idle() -> None:
    async def check(served: Served) -> None:
        await served.complete(prompt=[1] * 300, max_tokens=20, ignore_eos=True)
        await served.engine.drain(10.0)
        found = await samples(served)
        assert found["vllm:kv_cache_usage_perc"] == 0
        assert found["vllm:num_requests_running"] == 0

    run_served(check)


BOUNDS = st.lists(st.floats(0.001, 1e4), min_size=1, max_size=12, unique=True).map(sorted)


@given(BOUNDS, st.lists(st.tuples(st.floats(0.0, 2e4), st.integers(1, 5)), max_size=40))
def test_a_histograms_buckets_count_what_is_not_above_them(
    bounds: Sequence[float], values: list[tuple[float, int]]
) -> None:
    histogram = Histogram(bounds)
    for value, times in values:
        histogram.observe(value, times)

    family = HistogramMetricFamily("x", "x", labels=["l"])
    histogram.add_to(family, ("v",), 12.0)

    found = {s.labels.get("le", s.name): s.value for s in family.samples}
    for bound in bounds:
        expected = sum(times for value, times in values if value <= bound)
        assert found[repr(float(bound))] == expected
    assert found["+Inf"] == found["x_count"] == sum(times for _, times in values)
    assert found["x_sum"] == pytest.approx(sum(value * times for value, times in values))
    assert found["x_created"] == 12.0


def test_token_buckets_grow_with_the_context() -> None:
    assert powers_1_2_5(4096) == (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)
    assert powers_1_2_5(1) == (1,)


def stats_lines(metrics: EngineMetrics, *changes: dict[str, int]) -> list[str]:
    stream = io.StringIO()
    stats = StatsLog(log_into(stream), metrics, num_blocks=100, time_scale=10.0)
    for change in changes:
        for name, value in change.items():
            metrics.counters[name] += value
        stats.write(wall_s=10.0)
    return stream.getvalue().splitlines()


def test_the_stats_line_states_rates_in_engine_seconds() -> None:
    metrics = EngineMetrics(4096)
    metrics.gauges.running, metrics.gauges.waiting, metrics.gauges.used_blocks = 3, 2, 25

    (line,) = stats_lines(
        metrics,
        {
            "prompt_tokens": 1100,
            "prompt_tokens_cached": 100,
            "generation_tokens": 500,
            "prefix_cache_queries": 1000,
            "prefix_cache_hits": 100,
        },
    )

    assert line.endswith(
        "Engine 000: Avg prompt throughput: 10.0 tokens/s, Avg generation throughput: 5.0 "
        "tokens/s, Running: 3 reqs, Waiting: 2 reqs, GPU KV cache usage: 25.0%, Prefix cache hit "
        "rate: 10.0%"
    )


def test_the_stats_line_has_no_hit_rate_without_queries() -> None:
    metrics = EngineMetrics(4096)

    (line,) = stats_lines(metrics, {"generation_tokens": 1})

    assert "hit rate" not in line


def test_an_idle_engine_says_so_once() -> None:
    metrics = EngineMetrics(4096)

    lines = stats_lines(metrics, {}, {"generation_tokens": 7}, {}, {}, {"generation_tokens": 1})

    assert len(lines) == 3
    assert "generation throughput: 0.0" in lines[1]
