"""A study as data for people and programs: what `--output json` prints, built from the store."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from objectives.measurement import Estimate, Measurement
from objectives.serialise import measurement_to_dict
from tuner.domain.defaults import effective
from tuner.domain.engine_config import SEARCHED_FLAGS, EngineConfig
from tuner.domain.states import AttemptPurpose
from tuner.simulator.gpus import gpu_preset
from tuner.store.records import AttemptRecord, MeasurementRecord, StudyRecord, TrialRecord
from tuner.study.early_abort import aborts_report
from tuner.study.ledger import History
from tuner.study.prior_trust import trust_report
from tuner.study.quantities import readings

JsonObject = dict[str, object]

_SINGLE = (
    "preemptions_per_request",
    "kv_usage_peak",
    "kv_cache_tokens",
    "gpu_utilization",
    "gpu_utilization_saturated",
)
"""Of a headline: what has no interval."""


def study_report(history: History, launch_command: str | None) -> JsonObject:
    """The whole study, JSON-able; a quantity that was not measured is null."""
    attempts: dict[int, list[AttemptRecord]] = defaultdict(list)
    measured: dict[int, list[MeasurementRecord]] = defaultdict(list)
    for attempt in history.attempts:
        attempts[attempt.trial_number].append(attempt)
    for record in history.measurements:
        measured[record.trial_number].append(record)
    trials = [
        _trial(trial, history, attempts[trial.number], measured[trial.number])
        for trial in history.trials
    ]
    baseline = next((trial for trial in trials if trial["number"] == 0), None)
    return {
        "study": study_summary(history.study),
        "simulated": is_simulated(history.study),
        "calibration": _copy(history.study.calibration),
        "noise": _noise(history.study),
        "engine_model": trust_report(history),
        "early_abort": aborts_report(t.score for t in history.trials),
        "baseline": baseline,
        "trials": trials,
        "recommendation": _copy(history.study.recommendation),
        "failure": _copy(history.study.failure),
        "launch_command": launch_command,
    }


def study_summary(study: StudyRecord) -> JsonObject:
    """One line of `study list`."""
    return {
        "name": study.name,
        "reference": study.reference,
        "digest": study.digest,
        "state": study.state.value,
        "phase": study.phase.value,
        "simulated": is_simulated(study),
        "created_at": study.created_at.isoformat(),
        "updated_at": study.updated_at.isoformat(),
        "notices": [dict(notice) for notice in study.notices],
        "document": dict(study.document),
    }


def is_simulated(study: StudyRecord) -> bool:
    """Whether the study runs on the embedded engine."""
    engine = study.document.get("engine")
    return isinstance(engine, Mapping) and engine.get("kind") == "simulated"


def _noise(study: StudyRecord) -> object:
    """The study's noise as told when the search ended; null before."""
    told = [notice["noise"] for notice in study.notices if "noise" in notice]
    return told[-1] if told else None


def _trial(
    trial: TrialRecord,
    history: History,
    attempts: Sequence[AttemptRecord],
    measured: Sequence[MeasurementRecord],
) -> JsonObject:
    scored = next((m for m in measured if m.valid and m.purpose is AttemptPurpose.SEARCH), None)
    return {
        "number": trial.number,
        "origin": trial.origin.value,
        "state": trial.state.value,
        "flags": trial.config.as_dict(),
        "applied": applied_flags(scored.measurement) if scored else None,
        "defaults": default_flags(trial.config, history.study),
        "prediction": _copy(trial.prediction),
        "score": _copy(trial.score),
        "measurement": measurement_to_dict(scored.measurement) if scored else None,
        "infeasibility": _copy(trial.infeasibility),
        "failure": failure_report(trial),
        "attempts": [
            attempt_report(attempt, measured, history.read_backs.get(attempt.id))
            for attempt in attempts
        ],
    }


def attempt_report(
    attempt: AttemptRecord,
    measured: Sequence[MeasurementRecord],
    read_back: Mapping[str, object] | None = None,
) -> JsonObject:
    """One attempt with the headline of what it measured; `measured` is its trial's."""
    told = read_back or {}
    own = next((m for m in measured if m.ordinal == attempt.ordinal), None)
    return {
        "ordinal": attempt.ordinal,
        "purpose": attempt.purpose.value,
        "round": attempt.round,
        "workload_seed": attempt.workload_seed,
        "outcome": attempt.outcome.value,
        "valid": own.valid if own else None,
        "directory": attempt.directory,
        "started_at": attempt.started_at.isoformat(),
        "ended_at": attempt.ended_at.isoformat() if attempt.ended_at else None,
        "headline": headline(own.measurement) if own else None,
        "engine": told.get("engine"),
        "forecast": told.get("forecast"),
    }


def failure_report(trial: TrialRecord) -> JsonObject | None:
    """Why a trial ended without a measurement, with evidence and remedies."""
    diagnosis = trial.diagnosis
    if diagnosis is None:
        return None
    return {
        "class": diagnosis.failure_class,
        "phase": diagnosis.phase.value,
        "summary": diagnosis.summary,
        "evidence": list(diagnosis.evidence),
        "remedies": [
            {"knob": r.knob, "direction": r.direction, "value": r.value} for r in diagnosis.remedies
        ],
    }


def applied_flags(measurement: Measurement) -> JsonObject:
    """The searched flags as the engine applied them, its own defaults included; null if unknown."""
    engine = measurement.engine
    return {
        "max-num-seqs": engine.max_num_seqs,
        "max-num-batched-tokens": engine.max_num_batched_tokens,
        "enable-chunked-prefill": engine.chunked_prefill,
        "gpu-memory-utilization": engine.gpu_memory_utilization,
    }


def default_flags(config: EngineConfig, study: StudyRecord) -> JsonObject:
    """What the engine takes for the searched flags that a configuration leaves out.

    vLLM prints only what it was given, so what it takes besides is known by rule, from the GPU.
    Null without a known GPU.
    """
    left_out = [name for name in SEARCHED_FLAGS if config.get(name) is None]
    engine = study.document.get("engine")
    name = engine.get("gpu") if isinstance(engine, Mapping) else None
    if not isinstance(name, str):
        return dict.fromkeys(left_out)
    gpu = gpu_preset(name)
    filled = effective(config, gpu.memory_gib, gpu.name, None)
    return {name: filled.get(name) for name in left_out}


def headline(measurement: Measurement) -> JsonObject:
    """The quantities that a decision is made on, each null where it was not measured."""
    latency, capacity = measurement.latency, measurement.capacity
    rate = measurement.max_rate
    return {
        "ttft_p95_ms": _value(latency.ttft_ms.p95 if latency.ttft_ms else None),
        "tpot_p95_ms": _value(latency.tpot_ms.p95 if latency.tpot_ms else None),
        "itl_p99_ms": _value(latency.itl_ms.p99 if latency.itl_ms else None),
        "output_tokens_per_s": _value(capacity.output_tokens_per_s),
        "slo_attainment": _value(latency.slo_attainment),
        "goodput_per_s": _value(latency.goodput_per_s),
        "max_rate_held_per_s": None if rate is None else rate.held_per_s,
        "max_rate_failed_per_s": None if rate is None else rate.failed_per_s,
        "max_rate_confirmed_per_s": None if rate is None else rate.confirmed_per_s,
        "preemptions_per_request": _worst(
            latency.preemptions_per_request, capacity.preemptions_per_request
        ),
        "kv_usage_peak": _worst(latency.kv_usage_peak, capacity.kv_usage_peak),
        "kv_cache_tokens": measurement.engine.kv_cache_tokens,
        "gpu_utilization": latency.gpu_utilization,
        "gpu_utilization_saturated": capacity.gpu_utilization,
    }


def trial_summary(measurement: Measurement) -> JsonObject:
    """What lists and plots show of a measured trial, stored in its row.

    Each quantity as value, low and high (its 90% interval, null where unknown) and whether it is
    censored, or null.
    """
    single = headline(measurement)
    return {
        "quantities": {
            name: None if reading is None else reading.to_dict()
            for name, reading in readings(measurement).items()
        },
        **{name: single[name] for name in _SINGLE},
        "startup_s": measurement.engine.startup_s,
        "engine_version": measurement.engine.version,
        "applied": applied_flags(measurement),
        "valid": measurement.instrument.valid,
    }


def _value(estimate: Estimate | None) -> float | None:
    return estimate.value if estimate else None


def _worst(*values: float | None) -> float | None:
    known = [value for value in values if value is not None]
    return max(known) if known else None


def _copy(value: Mapping[str, object] | None) -> JsonObject | None:
    return dict(value) if value is not None else None
