"""Fitting the engine model's constants to what real starts and load tests showed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tuner.domain.engine_config import EngineConfig
from tuner.simulator.engine_model import simulate
from tuner.simulator.gpus import Gpu
from tuner.simulator.hardware import MAX_SHARE, Hardware
from tuner.simulator.memory import MemoryAccount, memory_account
from tuner.simulator.models import ModelGeometry
from tuner.simulator.requests import EngineRequest
from tuner.simulator.simulated_run import Floats, SimulatedRun

_MEMORY_CONSTANTS = ("activation_scale", "non_torch_gib", "graph_gib_per_size", "logits_scale")
_TIME_CONSTANTS = (
    "mfu",
    "mfu_half_share",
    "weight_bandwidth_share",
    "kv_bandwidth_share",
    "attention_mfu",
    "step_overhead_s",
    "sequence_overhead_s",
)
_SHARES = frozenset({"mfu", "weight_bandwidth_share", "kv_bandwidth_share", "attention_mfu"})
PRIOR_SIGMA = 0.5
"""How far, in logarithms, a GPU's constants stray from the prior before the fit resists."""
_METRIC_SIGMA = 0.03
"""Relative error of one measured metric that the fit accepts without effort."""
_SIZE_SIGMA = 0.0002
"""Error of the KV pool, as a share of the device's memory, that the fit accepts without effort."""
_GRAPH_SIGMA = 0.005
"""The same for graphs, relative to their size."""
_SHIFT = 10.0
_DIFFERENCE = 0.02
_LOST = math.log(4.0)
"""Residual of a metric that the model could not produce where the engine did."""


@dataclass(frozen=True, slots=True)
class ObservedStart:
    """What a start reported; None where it did not."""

    config: EngineConfig
    kv_cache_tokens: int | None = None
    graph_gib: float | None = None


@dataclass(frozen=True, slots=True)
class ObservedLoad:
    """What one load test measured, and the requests it sent. Seconds; None where unknown.

    With `concurrency` the load was a closed loop. With a `window` (start and end, seconds of the
    load) throughput is what came in it, latencies those of the requests sent in it as far as they
    were known when it closed; without one everything counts.
    """

    config: EngineConfig
    requests: tuple[EngineRequest, ...]
    concurrency: int | None = None
    output_tokens_per_s: float | None = None
    ttft_p50_s: float | None = None
    ttft_mean_s: float | None = None
    tpot_p50_s: float | None = None
    tpot_mean_s: float | None = None
    window: tuple[float, float] | None = None
    turnaround_s: float = 0.0
    """In a closed loop: from the end of an answer to the next request's arrival."""


@dataclass(frozen=True, slots=True)
class Deviation:
    """Predicted over observed, minus one, of one quantity of one start or load test."""

    kind: str
    index: int
    quantity: str
    error: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """A machine fitted to observations; `factors` are its constants over the prior's."""

    hardware: Hardware
    before: tuple[Deviation, ...]
    after: tuple[Deviation, ...]
    factors: Mapping[str, float]

    @property
    def worst_before(self) -> float | None:
        return _worst(self.before)

    @property
    def worst_after(self) -> float | None:
        return _worst(self.after)


@dataclass(frozen=True, slots=True)
class Machine:
    """What is known beforehand: the devices, the model and the length it is served with."""

    gpu: Gpu
    count: int
    model: ModelGeometry
    max_model_len: int


def _worst(deviations: tuple[Deviation, ...]) -> float | None:
    return max((abs(d.error) for d in deviations), default=None)


def calibrate(
    machine: Machine,
    starts: Sequence[ObservedStart],
    loads: Sequence[ObservedLoad],
    prior: Hardware | None = None,
    *,
    prior_sigma: float = PRIOR_SIGMA,
) -> Calibration:
    """Fit memory constants to `starts`, then time constants to `loads`.

    Nonlinear least squares on logarithms of predicted over observed, with the prior as a weak
    observation of every constant: what the observations do not speak of stays as it was. A device
    that the prior was not made for wants a larger `prior_sigma`. With nothing observed the prior
    comes back unchanged.
    """
    prior = prior or Hardware.nominal()
    fitted = prior
    if starts:
        fitted = _fit(
            fitted, _MEMORY_CONSTANTS, lambda h: _start_residuals(machine, starts, h), prior_sigma
        )
    if loads:
        fitted = _fit(
            fitted, _TIME_CONSTANTS, lambda h: _load_residuals(machine, loads, h), prior_sigma
        )
    return Calibration(
        hardware=fitted,
        before=deviations(machine, starts, loads, prior),
        after=deviations(machine, starts, loads, fitted),
        factors={
            name: getattr(fitted, name) / getattr(prior, name)
            for name in (*_MEMORY_CONSTANTS, *_TIME_CONSTANTS)
        },
    )


def deviations(
    machine: Machine,
    starts: Sequence[ObservedStart],
    loads: Sequence[ObservedLoad],
    hardware: Hardware,
) -> tuple[Deviation, ...]:
    """Predicted over observed, minus one, of everything that was observed and can be predicted."""
    found: list[Deviation] = []
    for index, start in enumerate(starts):
        for quantity, ratio in _start_ratios(machine, start, hardware).items():
            if ratio > 0.0:
                found.append(Deviation("start", index, quantity, ratio - 1.0))
    for index, load in enumerate(loads):
        for quantity, ratio in _load_ratios(machine, load, hardware).items():
            if not math.isnan(ratio):
                found.append(Deviation("load", index, quantity, ratio - 1.0))
    return tuple(found)


def _account(machine: Machine, start: ObservedStart, hardware: Hardware) -> MemoryAccount:
    return memory_account(
        machine.gpu, machine.count, machine.model, start.config, machine.max_model_len, hardware
    )


def _start_ratios(machine: Machine, start: ObservedStart, hardware: Hardware) -> dict[str, float]:
    account = _account(machine, start, hardware)
    ratios: dict[str, float] = {}
    if start.kv_cache_tokens:
        # Unrounded: the pool over what its tokens take.
        per_token = account.kv_bytes_per_token
        ratios["kv_cache_tokens"] = account.kv_cache_bytes / (start.kv_cache_tokens * per_token)
    if start.graph_gib:
        ratios["graph_gib"] = account.graph_gib / start.graph_gib
    return ratios


def _load_ratios(machine: Machine, load: ObservedLoad, hardware: Hardware) -> dict[str, float]:
    run = simulate(
        load.requests,
        load.config,
        machine.gpu,
        machine.count,
        machine.model,
        machine.max_model_len,
        hardware,
        concurrency=load.concurrency,
        until_s=None if load.window is None else load.window[1],
        turnaround_s=load.turnaround_s,
    )
    rate, ttft_s, tpot_s = seen_in(run, load.window)
    predicted = {
        "output_tokens_per_s": rate,
        "ttft_p50_s": _of_seen(np.median, ttft_s),
        "ttft_mean_s": _of_seen(np.mean, ttft_s),
        "tpot_p50_s": _of_seen(np.median, tpot_s),
        "tpot_mean_s": _of_seen(np.mean, tpot_s),
    }
    ratios: dict[str, float] = {}
    for quantity, value in predicted.items():
        observed: float | None = getattr(load, quantity)
        if observed:
            ratios[quantity] = value / observed if value else math.nan
    return ratios


def seen_in(
    run: SimulatedRun, window: tuple[float, float] | None
) -> tuple[float | None, Floats, Floats]:
    """Output tokens per second, TTFT and TPOT as somebody saw them who looked at this window."""
    if window is None:
        return run.output_tokens_per_s, run.ttft_s, run.tpot_s
    start_s, end_s = window
    step_ends_s = run.steps.start_s + run.steps.duration_s
    inside = (step_ends_s >= start_s) & (step_ends_s < end_s)
    sent = (run.entered_s >= start_s) & (run.entered_s < end_s)
    ttft_s = np.where(sent & (run.first_token_s < end_s), run.ttft_s, np.nan)
    tpot_s = np.where(sent & (run.last_token_s < end_s), run.tpot_s, np.nan)
    return float(run.steps.emitted[inside].sum()) / (end_s - start_s), ttft_s, tpot_s


def _of_seen(statistic: Callable[[Floats], np.floating[Any]], values: Floats) -> float | None:
    seen = values[~np.isnan(values)]
    return float(statistic(seen)) if seen.size else None


def _log_residual(ratio: float, sigma: float) -> float:
    return (math.log(ratio) if ratio > 0.0 else _LOST) / sigma


def _start_residuals(
    machine: Machine, starts: Sequence[ObservedStart], hardware: Hardware
) -> list[float]:
    """Differences of the pool's size over the device's, ratios of the graphs'.

    A pool is a small difference of large sizes and may be predicted negative, where a ratio has no
    slope.
    """
    residuals: list[float] = []
    for start in starts:
        account = _account(machine, start, hardware)
        if start.kv_cache_tokens:
            observed = start.kv_cache_tokens * account.kv_bytes_per_token
            missed = (account.kv_cache_bytes - observed) / account.total_bytes
            residuals.append(missed / _SIZE_SIGMA)
        if start.graph_gib:
            residuals.append(_log_residual(account.graph_gib / start.graph_gib, _GRAPH_SIGMA))
    return residuals


def _load_residuals(
    machine: Machine, loads: Sequence[ObservedLoad], hardware: Hardware
) -> list[float]:
    return [
        _log_residual(ratio, _METRIC_SIGMA)
        for load in loads
        for ratio in _load_ratios(machine, load, hardware).values()
    ]


def _scaled(hardware: Hardware, names: Sequence[str], logs: Sequence[float]) -> Hardware:
    """The constants multiplied by e to these powers; shares stay below the data sheet."""
    changed: dict[str, float] = {}
    for name, log in zip(names, logs, strict=True):
        value = getattr(hardware, name) * math.exp(log)
        changed[name] = min(MAX_SHARE, value) if name in _SHARES else value
    return replace(hardware, **changed)  # type: ignore[arg-type]


def _fit(
    start: Hardware,
    names: Sequence[str],
    residuals: Callable[[Hardware], list[float]],
    prior_sigma: float,
) -> Hardware:
    # scipy is slow to import, and only those who calibrate need it.
    from scipy.optimize import least_squares

    def objective(shifted: Floats) -> Floats:
        logs = shifted - _SHIFT
        return np.concatenate([residuals(_scaled(start, names, logs.tolist())), logs / prior_sigma])

    # A load test moves in steps, so the difference quotient must span several of them. scipy's
    # step is relative to the variable: away from zero it is the same everywhere.
    result = least_squares(
        objective,
        np.full(len(names), _SHIFT),
        bounds=(_SHIFT - 2.5, _SHIFT + 2.5),
        diff_step=[_DIFFERENCE / _SHIFT] * len(names),
        max_nfev=40,
    )
    return _scaled(start, names, (result.x - _SHIFT).tolist())
