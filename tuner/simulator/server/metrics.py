"""What the engine counts, and its exposition under the names of vLLM 0.32."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from tuner.simulator.requests import StepResult
from tuner.simulator.server.histogram import Histogram, powers_1_2_5
from tuner.simulator.server.sequence import Sequence

_TTFT_S = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75),
    *(1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
_TOKEN_GAP_S = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75),
    *(1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0),
)
_REQUEST_S = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0),
    *(120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0),
)
_ITERATION_TOKENS = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
_FINISH_REASONS = ("stop", "length", "abort", "error", "repetition")

_HISTOGRAM_HELP = {
    "request_prompt_tokens": "Number of prefill tokens processed.",
    "request_generation_tokens": "Number of generation tokens processed.",
    "iteration_tokens_total": "Histogram of number of tokens per engine_step.",
    "request_max_num_generation_tokens": (
        "Histogram of maximum number of requested generation tokens."
    ),
    "request_params_n": "Histogram of the n request parameter.",
    "request_params_max_tokens": "Histogram of the max_tokens request parameter.",
    "time_to_first_token_seconds": "Histogram of time to first token in seconds.",
    "inter_token_latency_seconds": "Histogram of inter-token latency in seconds.",
    "request_time_per_output_token_seconds": (
        "Histogram of time_per_output_token_seconds per request."
    ),
    "e2e_request_latency_seconds": "Histogram of e2e request latency in seconds.",
    "request_queue_time_seconds": "Histogram of time spent in WAITING phase for request.",
    "request_inference_time_seconds": "Histogram of time spent in RUNNING phase for request.",
    "request_prefill_time_seconds": "Histogram of time spent in PREFILL phase for request.",
    "request_decode_time_seconds": "Histogram of time spent in DECODE phase for request.",
    "request_num_preemptions": "Histogram of the number of times a request was preempted.",
    "request_prefill_kv_computed_tokens": (
        "Histogram of new KV tokens computed during prefill (excluding cached tokens)."
    ),
}

_COUNTER_HELP = {
    "prefix_cache_queries": "Prefix cache queries, in terms of number of queried tokens.",
    "prefix_cache_hits": "Prefix cache hits, in terms of number of cached tokens.",
    "external_prefix_cache_queries": "External prefix cache queries, in tokens.",
    "external_prefix_cache_hits": "External prefix cache hits, in tokens.",
    "mm_cache_queries": "Multi-modal cache queries, in terms of number of queried items.",
    "mm_cache_hits": "Multi-modal cache hits, in terms of number of cached items.",
    "num_preemptions": "Cumulative number of preemption from the engine.",
    "prompt_tokens": "Number of prefill tokens processed.",
    "prompt_tokens_cached": "Number of cached prompt tokens (local + external).",
    "generation_tokens": "Number of generation tokens processed.",
}


@dataclass(slots=True)
class EngineGauges:
    """The state after the last step."""

    running: int = 0
    waiting: int = 0
    used_blocks: int = 0


class EngineMetrics:
    """Counters and histograms of one engine, in engine seconds."""

    def __init__(self, max_model_len: int) -> None:
        tokens = powers_1_2_5(max_model_len)
        self.created_s = time.time()
        self.created_monotonic_s = time.monotonic()
        self.busy_s = 0.0
        self.gauges = EngineGauges()
        self.counters = dict.fromkeys(_COUNTER_HELP, 0)
        self.finished = dict.fromkeys(_FINISH_REASONS, 0)
        self.steps = 0
        self.histograms = {
            "request_prompt_tokens": Histogram(tokens),
            "request_generation_tokens": Histogram(tokens),
            "iteration_tokens_total": Histogram(_ITERATION_TOKENS),
            "request_max_num_generation_tokens": Histogram(tokens),
            "request_params_n": Histogram((1, 2, 5, 10, 20)),
            "request_params_max_tokens": Histogram(tokens),
            "time_to_first_token_seconds": Histogram(_TTFT_S),
            "inter_token_latency_seconds": Histogram(_TOKEN_GAP_S),
            "request_time_per_output_token_seconds": Histogram(_TOKEN_GAP_S),
            "e2e_request_latency_seconds": Histogram(_REQUEST_S),
            "request_queue_time_seconds": Histogram(_REQUEST_S),
            "request_inference_time_seconds": Histogram(_REQUEST_S),
            "request_prefill_time_seconds": Histogram(_REQUEST_S),
            "request_decode_time_seconds": Histogram(_REQUEST_S),
            "request_num_preemptions": Histogram((1, 2, 3, 4, 5, 10, 20)),
            "request_prefill_kv_computed_tokens": Histogram(tokens),
        }

    def scheduled(self, sequence: Sequence, caching: bool) -> None:
        """A new request was admitted; `caching` is whether the prefix cache was asked."""
        if caching:
            self.counters["prefix_cache_queries"] += sequence.prompt_tokens
            self.counters["prefix_cache_hits"] += sequence.cached_tokens

    def stepped(self, result: StepResult, first_tokens: Iterable[Sequence]) -> None:
        """A step ended. A prompt counts with its first token, recomputation never (as in vLLM)."""
        self.steps += 1
        if result.scheduled_tokens > 0:
            self.busy_s += result.duration_s
        prompt = cached = 0
        for sequence in first_tokens:
            prompt += sequence.prompt_tokens
            cached += sequence.cached_tokens
            self.histograms["time_to_first_token_seconds"].observe(
                result.end_s - sequence.arrival_s
            )
        self.counters["prompt_tokens"] += prompt
        self.counters["prompt_tokens_cached"] += cached
        self.counters["generation_tokens"] += len(result.emitted)
        self.counters["num_preemptions"] += len(result.preempted)
        self.histograms["iteration_tokens_total"].observe(prompt - cached + len(result.emitted))
        self.gauges.running = result.running
        self.gauges.waiting = result.waiting
        self.gauges.used_blocks = result.used_blocks

    def token_gap(self, gap_s: float, times: int) -> None:
        self.histograms["inter_token_latency_seconds"].observe(gap_s, times)

    def ended(self, sequence: Sequence, end_s: float) -> None:
        """A request finished or was aborted; an aborted one leaves no latency."""
        reason = sequence.finish_reason or "error"
        self.finished[reason] += 1
        if reason == "abort":
            return
        observe = self._observe
        observe("request_prompt_tokens", sequence.prompt_tokens)
        observe("request_generation_tokens", sequence.generated)
        observe("request_max_num_generation_tokens", sequence.max_tokens)
        observe("request_params_n", sequence.n)
        observe("request_params_max_tokens", sequence.max_tokens)
        observe("request_num_preemptions", sequence.preemptions)
        observe(
            "request_prefill_kv_computed_tokens", sequence.prompt_tokens - sequence.cached_tokens
        )
        observe("e2e_request_latency_seconds", end_s - sequence.arrival_s)
        self._phases(sequence, end_s)

    def _phases(self, sequence: Sequence, end_s: float) -> None:
        first_s = sequence.first_token_s
        scheduled_s = sequence.scheduled_s
        if first_s is None or scheduled_s is None:
            return
        self._observe("request_queue_time_seconds", scheduled_s - sequence.arrival_s)
        self._observe("request_prefill_time_seconds", first_s - scheduled_s)
        self._observe("request_decode_time_seconds", end_s - first_s)
        self._observe("request_inference_time_seconds", end_s - scheduled_s)
        if sequence.generated > 1:
            per_token_s = (end_s - first_s) / (sequence.generated - 1)
            self._observe("request_time_per_output_token_seconds", per_token_s)

    def _observe(self, name: str, value: float) -> None:
        self.histograms[name].observe(value)


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """What does not change while the engine serves."""

    model_name: str
    num_blocks: int
    cache_config: Mapping[str, str]
    startup_engine_s: float
    time_scale: float


class VllmCollector(Collector):
    """Turns the engine's counts into vLLM's metric families."""

    def __init__(self, metrics: EngineMetrics, facts: EngineFacts) -> None:
        self._metrics = metrics
        self._facts = facts
        self._labels = {"engine": "0", "model_name": facts.model_name}

    def collect(self) -> Iterator[Metric]:
        yield from self._gauges()
        yield from self._counters()
        yield from self._histograms()
        info = {**self._facts.cache_config, "engine": "0"}
        yield self._gauge(
            "cache_config_info", "Information of the LLMEngine CacheConfig", (info, 1)
        )
        yield from self._simulator()

    def _gauges(self) -> Iterator[Metric]:
        state, labels = self._metrics.gauges, self._labels
        running_help = "Number of requests in model execution batches."
        yield self._gauge("num_requests_running", running_help, (labels, state.running))
        waiting_help = "Number of requests waiting to be processed."
        yield self._gauge("num_requests_waiting", waiting_help, (labels, state.waiting))
        yield self._gauge(
            "num_requests_waiting_by_reason",
            "Number of waiting requests by reason.",
            ({**labels, "reason": "capacity"}, state.waiting),
            ({**labels, "reason": "deferred"}, 0),
        )
        yield self._gauge(
            "engine_sleep_state",
            "Engine sleep state; awake = 1 means engine is awake.",
            ({**labels, "sleep_state": "awake"}, 1),
            ({**labels, "sleep_state": "weights_offloaded"}, 0),
            ({**labels, "sleep_state": "discard_all"}, 0),
        )
        usage = state.used_blocks / max(1, self._facts.num_blocks)
        usage_help = "KV-cache usage. 1 means 100 percent usage."
        yield self._gauge("kv_cache_usage_perc", usage_help, (labels, usage))

    def _counters(self) -> Iterator[Metric]:
        counters, labels = self._metrics.counters, self._labels
        for name, text in _COUNTER_HELP.items():
            yield self._counter(name, text, (labels, counters[name]))
        cached = counters["prompt_tokens_cached"]
        yield self._counter(
            "prompt_tokens_by_source",
            "Number of prompt tokens by source.",
            ({**labels, "source": "local_compute"}, counters["prompt_tokens"] - cached),
            ({**labels, "source": "local_cache_hit"}, cached),
            ({**labels, "source": "external_kv_transfer"}, 0),
        )
        rejected = {"model_name": self._facts.model_name}
        yield self._counter(
            "admission_rejections",
            "Number of admission attempts rejected by a queue limit, by reason.",
            ({**rejected, "reason": "max_num_queued_reqs"}, 0),
            ({**rejected, "reason": "max_num_queued_tokens"}, 0),
        )
        yield self._counter(
            "request_success",
            "Count of successfully processed requests.",
            *(
                ({**labels, "finished_reason": reason}, count)
                for reason, count in self._metrics.finished.items()
            ),
        )

    def _histograms(self) -> Iterator[Metric]:
        names = tuple(self._labels)
        for name, histogram in self._metrics.histograms.items():
            family = HistogramMetricFamily(f"vllm:{name}", _HISTOGRAM_HELP[name], labels=names)
            histogram.add_to(family, tuple(self._labels.values()), self._metrics.created_s)
            yield family

    def _simulator(self) -> Iterator[Metric]:
        """What only a simulated engine has, under a prefix of its own."""
        values = {
            "startup_engine_seconds": self._facts.startup_engine_s,
            "time_scale": self._facts.time_scale,
            "steps": self._metrics.steps,
        }
        for name, value in values.items():
            family = GaugeMetricFamily(f"sim:{name}", "Of the simulated engine.", labels=["engine"])
            family.add_metric(["0"], value)
            yield family
        clock_s = (time.monotonic() - self._metrics.created_monotonic_s) * self._facts.time_scale
        for name, seconds in {"gpu_busy": self._metrics.busy_s, "clock": clock_s}.items():
            counter = CounterMetricFamily(
                f"sim:{name}_seconds", "Engine seconds of the simulated engine.", labels=["engine"]
            )
            counter.add_metric(["0"], seconds)
            yield counter

    def _gauge(self, name: str, text: str, *samples: tuple[Mapping[str, str], float]) -> Metric:
        family = GaugeMetricFamily(f"vllm:{name}", text)
        for labels, value in samples:
            family.add_sample(f"vllm:{name}", dict(labels), value)
        return family

    def _counter(self, name: str, text: str, *samples: tuple[Mapping[str, str], float]) -> Metric:
        family = CounterMetricFamily(f"vllm:{name}", text)
        for labels, value in samples:
            family.add_sample(f"vllm:{name}_total", dict(labels), value)
        for labels, _ in samples:
            family.add_sample(f"vllm:{name}_created", dict(labels), self._metrics.created_s)
        return family


def metrics_registry(metrics: EngineMetrics, facts: EngineFacts) -> CollectorRegistry:
    """A registry of its own with the process's metrics first, as vLLM's server exposes them."""
    registry = CollectorRegistry()
    GCCollector(registry)
    PlatformCollector(registry)
    ProcessCollector(registry=registry)
    registry.register(VllmCollector(metrics, facts))
    return registry
