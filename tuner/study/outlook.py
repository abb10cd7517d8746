"""What is expected of one configuration before it is started: predictions, never measurements."""

from __future__ import annotations

from dataclasses import dataclass

from objectives.measurement import Estimate, Measurement
from tuner.domain.engine_config import EngineConfig
from tuner.domain.study_spec import StudySpec
from tuner.loadgen.workload import Workload, given_rate_per_s, users_of
from tuner.simulator.forecast import LABEL, MemoryForecast, memory_forecast
from tuner.simulator.requests import EngineRequest
from tuner.study.calibration import RATE_SHARE_OF_CAPACITY, saturating_concurrency
from tuner.study.load_prediction import Machine, ModelledLoad, predict_load
from tuner.study.prior import machine_of
from tuner.study.scoring import slo_of
from tuner.study.target import Target, baseline_config


@dataclass(frozen=True, slots=True)
class MemoryOutlook:
    """The nominal memory account of one configuration, GiB per GPU, and what speaks against it.

    `requests_p50_at_once` and `requests_p95_at_once` count the workload's requests of median and
    95th-percentile length whose tokens fit in the cache together.
    """

    weights_gib: float
    activation_gib: float
    graph_gib: float
    kv_cache_gib: float
    kv_cache_tokens: int
    kv_bytes_per_token: float
    longest_requests_at_once: float
    requests_p50_at_once: float | None
    requests_p95_at_once: float | None
    problem: str | None


@dataclass(frozen=True, slots=True)
class LoadOutlook:
    """What the engine model expects under the study's load on nominal hardware; None: nothing."""

    label: str
    rate_per_s: float | None
    """None: users in a closed loop."""
    concurrency: int
    ttft_p95_ms: float | None
    tpot_p95_ms: float | None
    output_tokens_per_s: float | None
    preemptions_per_request: float | None


class Outlook:
    """Answers for configurations of one study; both answers are None where too little is known."""

    def __init__(self, spec: StudySpec, target: Target, workload: Workload) -> None:
        self._target = target
        self._requests = _requests(workload)
        self._machine = machine_of(target)
        self._load = None
        if self._machine is not None:
            self._load = _expected_load(spec, target, workload, self._machine)

    def memory(self, config: EngineConfig) -> MemoryOutlook | None:
        """Where the memory goes."""
        account = self._target.memory(config)
        if account is None:
            return None
        return _memory_outlook(memory_forecast(account, self._requests), account.max_concurrency)

    def load(self, config: EngineConfig) -> LoadOutlook | None:
        """None for a configuration that would not last, too."""
        if self._machine is None or self._load is None:
            return None
        predicted = predict_load(self._load, self._target.effective(config), self._machine)
        return None if predicted is None else _load_outlook(self._load, predicted.measurement)


def _requests(workload: Workload) -> tuple[EngineRequest, ...]:
    pairs = zip(workload.prompt_tokens.tolist(), workload.output_tokens.tolist(), strict=True)
    return tuple(EngineRequest(i, 0.0, *pair) for i, pair in enumerate(pairs))


def _expected_load(
    spec: StudySpec, target: Target, workload: Workload, machine: Machine
) -> ModelledLoad | None:
    """The load that calibration would find on the nominal machine; None if the baseline fails."""
    baseline = target.effective(baseline_config(spec, target))
    account = target.memory(baseline)
    most = max(baseline.max_num_seqs or 1, spec.search_space.max_num_seqs.high)
    tokens = None if account is None else account.kv_cache_tokens
    concurrency = saturating_concurrency(most, tokens, workload.mean_tokens)
    slo = slo_of(spec.objective.slo)
    given = given_rate_per_s(spec.workload, workload)
    if given is not None or users_of(spec.workload) is not None:
        return ModelledLoad.of(workload, spec.workload, given, concurrency, slo=slo)
    slow = ModelledLoad.of(workload, spec.workload, _SLOW_PER_S, concurrency, slo=slo)
    predicted = predict_load(slow, baseline, machine)
    if predicted is None:
        return None
    served = _value(predicted.measurement.capacity.output_tokens_per_s)
    capacity = (served or 0.0) / float(workload.output_tokens.mean())
    if capacity <= 0:
        return None
    rate = RATE_SHARE_OF_CAPACITY * capacity
    return ModelledLoad.of(workload, spec.workload, rate, concurrency, slo=slo)


_SLOW_PER_S = 0.1
"""While only the capacity is asked for."""


def _memory_outlook(forecast: MemoryForecast, longest: float) -> MemoryOutlook:
    problem = forecast.failure_message
    if problem is None and not forecast.survives_load:
        problem = "starts, but its largest step is forecast to run out of memory"
    return MemoryOutlook(
        weights_gib=forecast.weights_gib,
        activation_gib=forecast.activation_gib,
        graph_gib=forecast.graph_gib,
        kv_cache_gib=forecast.kv_cache_gib,
        kv_cache_tokens=forecast.kv_cache_tokens,
        kv_bytes_per_token=forecast.kv_bytes_per_token,
        longest_requests_at_once=longest,
        requests_p50_at_once=forecast.fit_p50,
        requests_p95_at_once=forecast.fit_p95,
        problem=problem,
    )


def _load_outlook(load: ModelledLoad, measurement: Measurement) -> LoadOutlook:
    latency = measurement.latency
    return LoadOutlook(
        label=LABEL,
        rate_per_s=load.rate_per_s,
        concurrency=load.concurrency,
        ttft_p95_ms=None if latency.ttft_ms is None else latency.ttft_ms.p95.value,
        tpot_p95_ms=None if latency.tpot_ms is None else latency.tpot_ms.p95.value,
        output_tokens_per_s=_value(measurement.capacity.output_tokens_per_s),
        preemptions_per_request=latency.preemptions_per_request,
    )


def _value(estimate: Estimate | None) -> float | None:
    return None if estimate is None else estimate.value
