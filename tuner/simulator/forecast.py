"""What the engine model expects of a configuration: a prediction, never a measurement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from tuner.domain.engine_config import EngineConfig
from tuner.simulator.engine_model import simulate
from tuner.simulator.gpus import Gpu
from tuner.simulator.hardware import Hardware
from tuner.simulator.memory import MemoryAccount
from tuner.simulator.models import ModelGeometry
from tuner.simulator.requests import EngineRequest
from tuner.simulator.simulated_run import Floats, SimulatedRun

LABEL = "prediction of the engine model, not a measurement"


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Milliseconds; None where no request has such a latency."""

    p50: float | None
    p95: float | None
    p99: float | None


@dataclass(frozen=True, slots=True)
class LoadForecast:
    """One load test's expected metrics; shares are in [0, 1].

    `kept_up` is false when arrivals outran the engine: latencies then grow with the length of the
    test and say nothing in themselves.
    """

    requests: int
    output_tokens_per_s: float | None
    requests_per_s: float | None
    ttft_ms: Percentiles
    tpot_ms: Percentiles
    itl_ms: Percentiles
    preemptions_per_request: float
    recomputed_tokens: int
    prefix_hit_share: float | None
    kv_usage_peak: float | None
    running_peak: int
    busy_share: float | None
    achieved_compute: float | None
    achieved_bandwidth: float | None
    bottleneck_shares: Mapping[str, float]
    kept_up: bool
    out_of_memory: bool


@dataclass(frozen=True, slots=True)
class MemoryForecast:
    """One device's account in GiB, and what the pool holds.

    `fit_p50` and `fit_p95` count the workload's requests of median and 95th-percentile length
    (prompt and output) that fit at once. `failure` is a class of the diagnosis table.
    """

    total_gib: float
    weights_gib: float
    activation_gib: float
    graph_gib: float
    non_torch_gib: float
    kv_cache_gib: float
    kv_bytes_per_token: float
    kv_cache_tokens: int
    max_concurrency: float
    fit_p50: float | None
    fit_p95: float | None
    survives_load: bool
    failure: str | None
    failure_message: str | None


@dataclass(frozen=True, slots=True)
class Forecast:
    """Everything expected of one configuration under one workload."""

    label: str
    memory: MemoryForecast
    at_rate: LoadForecast | None
    saturated: LoadForecast | None

    def as_dict(self) -> dict[str, object]:
        """Plain types for JSON."""
        return asdict(self)


def forecast(
    requests: Sequence[EngineRequest],
    config: EngineConfig,
    gpu: Gpu,
    count: int,
    model: ModelGeometry,
    max_model_len: int,
    hardware: Hardware | None = None,
    *,
    concurrency: int | None = None,
) -> Forecast:
    """Expected memory and metrics under an effective configuration.

    `at_rate` serves the requests by their arrival times, `saturated` keeps `concurrency` of them in
    the engine (as many as max_num_seqs by default). Both are None when the configuration is
    expected not to start. Raises InvalidInputError as `simulate` does.
    """
    arguments = (config, gpu, count, model, max_model_len, hardware)
    at_rate = simulate(requests, *arguments)
    memory = memory_forecast(at_rate.memory, requests)
    if at_rate.failure is not None or not requests:
        return Forecast(LABEL, memory, None, None)
    in_flight = concurrency or config.max_num_seqs or 256
    saturated = simulate(requests, *arguments, concurrency=max(1, in_flight))
    return Forecast(LABEL, memory, load_forecast(at_rate), load_forecast(saturated))


def memory_forecast(account: MemoryAccount, requests: Sequence[EngineRequest]) -> MemoryForecast:
    """The account in print: GiB, and how many of the workload's requests fit."""
    lengths = [r.prompt_tokens + r.output_tokens for r in requests]
    failure = account.failure

    def fit(percentile: float) -> float | None:
        if not lengths:
            return None
        return account.requests_that_fit(float(np.percentile(lengths, percentile)))

    return MemoryForecast(
        total_gib=account.total_bytes / 1024**3,
        weights_gib=account.weights_gib,
        activation_gib=account.activation_gib,
        graph_gib=account.graph_gib,
        non_torch_gib=account.non_torch_gib,
        kv_cache_gib=account.kv_cache_gib,
        kv_bytes_per_token=account.kv_bytes_per_token,
        kv_cache_tokens=account.kv_cache_tokens,
        max_concurrency=account.max_concurrency,
        fit_p50=fit(50),
        fit_p95=fit(95),
        survives_load=account.survives_load,
        failure=None if failure is None else failure.failure_class,
        failure_message=None if failure is None else failure.message,
    )


def load_forecast(run: SimulatedRun) -> LoadForecast:
    """The metrics of one simulated load test."""
    count = len(run.request_ids)
    rate = run.output_tokens_per_s
    queries = run.counters["prefix_query_tokens"]
    return LoadForecast(
        requests=count,
        output_tokens_per_s=rate,
        requests_per_s=int(run.finished.sum()) / run.span_s if run.span_s > 0 else None,
        ttft_ms=_percentiles(run.ttft_s),
        tpot_ms=_percentiles(run.tpot_s),
        itl_ms=_percentiles(inter_token_s(run)),
        preemptions_per_request=run.counters["preemptions"] / max(1, count),
        recomputed_tokens=run.counters["recomputed_tokens"],
        prefix_hit_share=run.counters["prefix_hit_tokens"] / queries if queries else None,
        kv_usage_peak=run.kv_usage_peak,
        running_peak=int(run.steps.running.max()) if len(run.steps) else 0,
        busy_share=run.busy_share,
        achieved_compute=run.achieved_compute,
        achieved_bandwidth=run.achieved_bandwidth,
        bottleneck_shares=run.bottleneck_shares(),
        kept_up=keeps_up(run),
        out_of_memory=run.out_of_memory,
    )


def inter_token_s(run: SimulatedRun) -> Floats:
    """Gaps between tokens that decoding requests see: one step's duration per decode in it."""
    return np.repeat(run.steps.duration_s, run.steps.decode_tokens)


def keeps_up(run: SimulatedRun) -> bool:
    """Whether the last third of the requests waits no longer than twice what the first third did.

    In an overloaded engine the queue, and with it TTFT, grows as long as requests arrive.
    """
    if not run.finished.all():
        return False
    order = np.argsort(run.entered_s, kind="stable")
    third = len(order) // 3
    if third == 0:
        return True
    ttft = run.ttft_s[order]
    first, last = float(np.median(ttft[:third])), float(np.median(ttft[-third:]))
    service = float(np.median(run.e2e_s))
    return last <= max(2.0 * first, 0.5 * service)


def _percentiles(values: Floats) -> Percentiles:
    seen = values[~np.isnan(values)]
    if seen.size == 0:
        return Percentiles(None, None, None)
    p50, p95, p99 = (1e3 * float(v) for v in np.percentile(seen, (50, 95, 99)))
    return Percentiles(p50, p95, p99)
