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
    GPU_UTILIZATION = "gpu_utilization"
    """Read from the driver, never from `/metrics`: it has no source below."""
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


SOURCES: Mapping[EngineMetric, Source] = {
    EngineMetric.RUNNING: Source(("vllm:num_requests_running",), is_counter=False),
    EngineMetric.WAITING: Source(("vllm:num_requests_waiting",), is_counter=False),
    EngineMetric.KV_USAGE: Source(
        ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
        is_counter=False,
        combine=Combine.MEAN,
    ),
    EngineMetric.PREEMPTIONS: Source(("vllm:num_preemptions_total",), is_counter=True),
    EngineMetric.PROMPT_TOKENS: Source(("vllm:prompt_tokens_total",), is_counter=True),
    EngineMetric.GENERATION_TOKENS: Source(("vllm:generation_tokens_total",), is_counter=True),
    EngineMetric.PREFIX_QUERIES: Source(
        ("vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total"),
        is_counter=True,
    ),
    EngineMetric.PREFIX_HITS: Source(
        ("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"),
        is_counter=True,
    ),
    EngineMetric.FINISHED_REQUESTS: Source(("vllm:request_success_total",), is_counter=True),
    EngineMetric.TTFT_SUM_S: Source(("vllm:time_to_first_token_seconds_sum",), is_counter=True),
    EngineMetric.TTFT_COUNT: Source(("vllm:time_to_first_token_seconds_count",), is_counter=True),
    EngineMetric.ITL_SUM_S: Source(
        ("vllm:inter_token_latency_seconds_sum", "vllm:time_per_output_token_seconds_sum"),
        is_counter=True,
    ),
    EngineMetric.ITL_COUNT: Source(
        ("vllm:inter_token_latency_seconds_count", "vllm:time_per_output_token_seconds_count"),
        is_counter=True,
    ),
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
