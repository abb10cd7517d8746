"""The engine's `/metrics` text as numbers of a fixed meaning. Missing is None, never 0."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample


class EngineMetric(Enum):
    """A quantity the engine reports, whatever its version calls it."""

    RUNNING = "running"
    WAITING = "waiting"
    KV_USAGE = "kv_usage"
    PREEMPTIONS = "preemptions"
    PROMPT_TOKENS = "prompt_tokens"
    GENERATION_TOKENS = "generation_tokens"
    PREFIX_QUERIES = "prefix_queries"
    PREFIX_HITS = "prefix_hits"
    FINISHED_REQUESTS = "finished_requests"
    TTFT_SUM_S = "ttft_sum_s"
    TTFT_COUNT = "ttft_count"
    ITL_SUM_S = "itl_sum_s"
    ITL_COUNT = "itl_count"
    TPOT_SUM_S = "tpot_sum_s"
    """Per request; `ITL` is per token. Dashboards mix them up."""
    TPOT_COUNT = "tpot_count"
    E2E_SUM_S = "e2e_sum_s"
    E2E_COUNT = "e2e_count"
    QUEUE_SUM_S = "queue_sum_s"
    QUEUE_COUNT = "queue_count"
    STEP_TOKENS_SUM = "step_tokens_sum"
    STEP_COUNT = "step_count"
    CACHED_PROMPT_TOKENS = "cached_prompt_tokens"
    REJECTED_REQUESTS = "rejected_requests"
    PREFIX_HIT_RATE = "prefix_hit_rate"
    """Only engines of the V0 line (0.9 and earlier) report the rate itself."""
    GPU_UTILIZATION = "gpu_utilization"
    """Read from the driver, never from `/metrics`, as the next two: they have no source below."""
    GPU_MEMORY_GIB = "gpu_memory_gib"
    GPU_POWER_W = "gpu_power_w"
    SIMULATED_BUSY_S = "simulated_busy_s"
    SIMULATED_CLOCK_S = "simulated_clock_s"


class Combine(Enum):
    """How the series of several engines behind one address become one number."""

    SUM = "sum"
    MEAN = "mean"


@dataclass(frozen=True, slots=True)
class Source:
    """Where a quantity is found: exact sample names, newest vLLM first."""

    names: tuple[str, ...]
    is_counter: bool
    combine: Combine = Combine.SUM


def _total(*names: str) -> Source:
    """A counter, by its names on the wire without prefix and suffix, newest first."""
    return Source(tuple(f"vllm:{name}_total" for name in names), is_counter=True)


def _sum(*names: str) -> Source:
    return Source(tuple(f"vllm:{name}_sum" for name in names), is_counter=True)


def _count(*names: str) -> Source:
    return Source(tuple(f"vllm:{name}_count" for name in names), is_counter=True)


_ITL = ("inter_token_latency_seconds", "time_per_output_token_seconds")
"""The old name means the same: the gap between two tokens of a request."""
_TPOT = "request_time_per_output_token_seconds"
_STEP = "iteration_tokens_total"
"""A histogram in spite of its name: tokens computed in one step of the engine."""

SOURCES: Mapping[EngineMetric, Source] = {
    EngineMetric.RUNNING: Source(("vllm:num_requests_running",), is_counter=False),
    EngineMetric.WAITING: Source(("vllm:num_requests_waiting",), is_counter=False),
    EngineMetric.KV_USAGE: Source(
        ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
        is_counter=False,
        combine=Combine.MEAN,
    ),
    EngineMetric.PREEMPTIONS: _total("num_preemptions"),
    EngineMetric.PROMPT_TOKENS: _total("prompt_tokens"),
    EngineMetric.GENERATION_TOKENS: _total("generation_tokens"),
    EngineMetric.CACHED_PROMPT_TOKENS: _total("prompt_tokens_cached"),
    EngineMetric.PREFIX_QUERIES: _total("prefix_cache_queries", "gpu_prefix_cache_queries"),
    EngineMetric.PREFIX_HITS: _total("prefix_cache_hits", "gpu_prefix_cache_hits"),
    EngineMetric.PREFIX_HIT_RATE: Source(
        ("vllm:gpu_prefix_cache_hit_rate",), is_counter=False, combine=Combine.MEAN
    ),
    EngineMetric.FINISHED_REQUESTS: _total("request_success"),
    EngineMetric.REJECTED_REQUESTS: _total("admission_rejections"),
    EngineMetric.TTFT_SUM_S: _sum("time_to_first_token_seconds"),
    EngineMetric.TTFT_COUNT: _count("time_to_first_token_seconds"),
    EngineMetric.ITL_SUM_S: _sum(*_ITL),
    EngineMetric.ITL_COUNT: _count(*_ITL),
    EngineMetric.TPOT_SUM_S: _sum(_TPOT),
    EngineMetric.TPOT_COUNT: _count(_TPOT),
    EngineMetric.E2E_SUM_S: _sum("e2e_request_latency_seconds"),
    EngineMetric.E2E_COUNT: _count("e2e_request_latency_seconds"),
    EngineMetric.QUEUE_SUM_S: _sum("request_queue_time_seconds"),
    EngineMetric.QUEUE_COUNT: _count("request_queue_time_seconds"),
    EngineMetric.STEP_TOKENS_SUM: _sum(_STEP),
    EngineMetric.STEP_COUNT: _count(_STEP),
    EngineMetric.SIMULATED_BUSY_S: Source(("sim:gpu_busy_seconds_total",), is_counter=True),
    EngineMetric.SIMULATED_CLOCK_S: Source(("sim:clock_seconds_total",), is_counter=True),
}
"""Verified against vLLM 0.8.5 to 0.33.0. `…_created` samples have other names and never match.
`sim:` is the embedded engine's own prefix, which no vLLM uses."""

CACHE_CONFIG = "vllm:cache_config_info"
"""A gauge whose labels say what the engine really applied (KV blocks, block size, …)."""

_WANTED = frozenset(name for source in SOURCES.values() for name in source.names) | {CACHE_CONFIG}


@dataclass(frozen=True, slots=True)
class EngineSnapshot:
    """One reading of `/metrics`."""

    values: Mapping[EngineMetric, float]
    cache_config: Mapping[str, str] = field(default_factory=dict)

    def get(self, metric: EngineMetric) -> float | None:
        """The quantity, or None when this engine does not report it."""
        return self.values.get(metric)


def parse_exposition(text: str) -> EngineSnapshot:
    """Read Prometheus' text format. Raises ValueError when a line of interest is malformed."""
    samples: dict[str, list[Sample]] = {}
    for sample in _samples(text):
        if math.isfinite(sample.value):
            samples.setdefault(sample.name, []).append(sample)
    values: dict[EngineMetric, float] = {}
    for metric, source in SOURCES.items():
        name = next((name for name in source.names if name in samples), None)
        if name is not None:
            values[metric] = _combined([sample.value for sample in samples[name]], source.combine)
    info = samples.get(CACHE_CONFIG)
    return EngineSnapshot(values, dict(info[0].labels) if info else {})


def _samples(text: str) -> Iterator[Sample]:
    # vLLM exposes some thousand lines of histograms; parsing only what is wanted keeps a scrape
    # from competing with the load generator for the processor.
    wanted = "\n".join(line for line in text.splitlines() if _sample_name(line) in _WANTED)
    for family in text_string_to_metric_families(wanted + "\n"):
        yield from family.samples


def _sample_name(line: str) -> str:
    return line.partition("{")[0].partition(" ")[0]


def _combined(values: list[float], combine: Combine) -> float:
    total = sum(values)
    return total / len(values) if combine is Combine.MEAN else total
