"""What is read of each vLLM: scrapes by prometheus_client with the names that version has."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from tuner.telemetry.exposition import EngineMetric, parse_exposition

GAUGES: Mapping[str, float] = {
    "num_requests_running": 5.0,
    "num_requests_waiting": 3.0,
    "kv_cache_usage_perc": 0.4,
    "gpu_cache_usage_perc": 0.4,
}
COUNTERS: Mapping[str, float] = {
    "num_preemptions": 11.0,
    "prompt_tokens": 700.0,
    "generation_tokens": 900.0,
    "prompt_tokens_cached": 60.0,
    "prefix_cache_queries": 650.0,
    "prefix_cache_hits": 65.0,
    "gpu_prefix_cache_queries": 650.0,
    "gpu_prefix_cache_hits": 65.0,
    "request_success": 21.0,
    "admission_rejections": 2.0,
}
HISTOGRAMS: Mapping[str, tuple[float, ...]] = {
    "iteration_tokens_total": (300.0, 20.0),
    "time_to_first_token_seconds": (0.2, 0.4, 0.9),
    "time_per_output_token_seconds": (0.02, 0.03),
    "inter_token_latency_seconds": (0.02, 0.03),
    "request_time_per_output_token_seconds": (0.025,),
    "e2e_request_latency_seconds": (2.0, 3.0),
    "request_queue_time_seconds": (0.1, 0.2),
}
ALWAYS = frozenset(
    {
        *("num_requests_running", "num_requests_waiting", "num_preemptions", "prompt_tokens"),
        *("generation_tokens", "request_success", "iteration_tokens_total"),
        *("time_to_first_token_seconds", "e2e_request_latency_seconds"),
        "request_queue_time_seconds",
    }
)
OLD_CACHE = frozenset({"gpu_cache_usage_perc", "gpu_prefix_cache_queries", "gpu_prefix_cache_hits"})
NEW_CACHE = frozenset({"kv_cache_usage_perc", "prefix_cache_queries", "prefix_cache_hits"})
OLD_GAP, NEW_GAP = "time_per_output_token_seconds", "inter_token_latency_seconds"
PER_REQUEST = "request_time_per_output_token_seconds"
SINCE_0_13 = ALWAYS | NEW_CACHE | {NEW_GAP, PER_REQUEST}
SINCE_0_16 = SINCE_0_13 | {"prompt_tokens_cached"}
SINCE_0_32 = SINCE_0_16 | {"admission_rejections"}
BY_VERSION: Mapping[str, frozenset[str]] = {
    "0.8.5": ALWAYS | OLD_CACHE | {OLD_GAP},
    "0.10.2": ALWAYS | OLD_CACHE | NEW_CACHE | {OLD_GAP, NEW_GAP},
    "0.11.2": SINCE_0_13 | {OLD_GAP},
    "0.13.0": SINCE_0_13,
    "0.16.0": SINCE_0_16,
    "0.20.2": SINCE_0_16,
    "0.25.1": SINCE_0_16,
    "0.28.0": SINCE_0_16,
    "0.32.0": SINCE_0_32,
    "0.33.0": SINCE_0_32,
}
"""Names without vLLM's prefix, and without the suffix that a counter gains on the wire."""
COMMON = {
    EngineMetric.RUNNING: 10.0,
    EngineMetric.WAITING: 6.0,
    EngineMetric.KV_USAGE: 0.4,
    EngineMetric.PREEMPTIONS: 22.0,
    EngineMetric.PROMPT_TOKENS: 1400.0,
    EngineMetric.GENERATION_TOKENS: 1800.0,
    EngineMetric.PREFIX_QUERIES: 1300.0,
    EngineMetric.PREFIX_HITS: 130.0,
    EngineMetric.FINISHED_REQUESTS: 42.0,
    EngineMetric.STEP_TOKENS_SUM: 640.0,
    EngineMetric.STEP_COUNT: 4.0,
    EngineMetric.TTFT_SUM_S: 3.0,
    EngineMetric.TTFT_COUNT: 6.0,
    EngineMetric.ITL_SUM_S: 0.1,
    EngineMetric.ITL_COUNT: 4.0,
    EngineMetric.E2E_SUM_S: 10.0,
    EngineMetric.E2E_COUNT: 4.0,
    EngineMetric.QUEUE_SUM_S: 0.6,
    EngineMetric.QUEUE_COUNT: 4.0,
}
"""Of two engines behind one address, whatever the version calls it."""


def scrape(version: str, engines: int = 2) -> str:
    """What such a server answers: every name it has, for each of its engines."""
    registry = CollectorRegistry()
    labels = ("engine", "model_name")
    series = [(str(engine), "m") for engine in range(engines)]
    for name in sorted(BY_VERSION[version]):
        family = f"vllm:{name}"
        if name in GAUGES:
            gauge = Gauge(family, "a gauge", labels, registry=registry)
            for own in series:
                gauge.labels(*own).set(GAUGES[name])
        elif name in COUNTERS:
            counter = Counter(family, "a counter", labels, registry=registry)
            for own in series:
                counter.labels(*own).inc(COUNTERS[name])
        else:
            histogram = Histogram(family, "a histogram", labels, registry=registry)
            for own in series:
                for value in HISTOGRAMS[name]:
                    histogram.labels(*own).observe(value)
    return generate_latest(registry).decode()


@pytest.mark.parametrize("version", BY_VERSION)
def test_every_version_tells_the_same_quantities_under_its_own_names(version: str) -> None:
    read = parse_exposition(scrape(version)).values

    assert {metric: read.get(metric) for metric in COMMON} == pytest.approx(COMMON)


@pytest.mark.parametrize("version", BY_VERSION)
def test_what_a_version_does_not_tell_is_unknown(version: str) -> None:
    read = parse_exposition(scrape(version)).values
    names = BY_VERSION[version]

    assert (EngineMetric.TPOT_COUNT in read) is (PER_REQUEST in names)
    assert (EngineMetric.CACHED_PROMPT_TOKENS in read) is ("prompt_tokens_cached" in names)
    assert (EngineMetric.REJECTED_REQUESTS in read) is ("admission_rejections" in names)


@pytest.mark.parametrize("version", BY_VERSION)
def test_the_scrapes_hold_creation_times_that_nobody_takes_for_counts(version: str) -> None:
    text = scrape(version)

    assert "vllm:num_preemptions_created" in text
    assert max(parse_exposition(text).values.values()) < 1e6
