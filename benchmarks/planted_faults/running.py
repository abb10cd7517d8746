"""One planted fault: an attempt with it, and one without, as a study would repeat it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.planted_faults.catalogue import PlantedFault
from benchmarks.planted_faults.planting import Plant, planted_equipment
from tuner.domain.cancellation import Cancellation
from tuner.domain.clock import SystemClock
from tuner.domain.states import AttemptOutcome
from tuner.domain.study_spec import StudySpec
from tuner.loadgen.instrument import LIMITS, InstrumentLimits
from tuner.study.attempt import run_attempt
from tuner.study.calibration import given_rate
from tuner.study.executor import AttemptListener, AttemptRequest, AttemptResult
from tuner.study.progress import SilentObserver
from tuner.worker.single_measurement import measure_once

MOST_SEQUENCES = 32


@dataclass(frozen=True, slots=True)
class Found:
    """What became of a fault. `scored` is whether a score could have come of the faulty attempt."""

    name: str
    planted: str
    outcome: str
    said: str
    attempts: int
    finally_: str
    as_expected: bool

    def to_dict(self) -> dict[str, object]:
        return {
            "fault": self.name,
            "planted": self.planted,
            "outcome": self.outcome,
            "said": self.said,
            "attempts": self.attempts,
            "finally": self.finally_,
            "as_expected": self.as_expected,
        }


def document(fault: PlantedFault, time_scale: float) -> StudySpec:
    """A small server whose load is known: an 8B model on one (simulated) L4."""
    values: dict[str, Any] = {
        "name": "planted",
        "model": {"id": "Qwen/Qwen2.5-7B-Instruct", "max_model_len": 4096},
        "engine": {"kind": "simulated", "gpu": "L4", "time_scale": time_scale, "hardware_seed": 3},
        "baseline": {"flags": {"max-num-seqs": MOST_SEQUENCES}},
        "workload": {
            "lengths": {
                "prompt_tokens": {"type": "uniform", "low": 100, "high": 600},
                "output_tokens": {"type": "uniform", "low": 20, "high": 60},
            },
            "arrival": {"rate": fault.rate_per_s},
            "warmup_s": 3,
            "latency_window_s": 20,
            "capacity_window_s": 8,
        },
        "deadlines": {"stall_s": 15},
    }
    return StudySpec.model_validate(values)


class _Planting:
    """Runs attempts with the fault; from the second on without, where it is one that passes."""

    def __init__(self, fault: PlantedFault, limits: InstrumentLimits) -> None:
        self._fault = fault
        self._limits = limits
        self.results: list[AttemptResult] = []

    def execute(
        self, request: AttemptRequest, listener: AttemptListener, cancellation: Cancellation
    ) -> AttemptResult:
        fault, first = self._fault, not self.results
        plant = fault.plant if first or fault.judged else Plant()
        if not fault.judged:
            load = given_rate(fault.rate_per_s, 2 * MOST_SEQUENCES)
            request = replace(request, calibration=load)
        equipment = planted_equipment(plant, self._limits)
        self.results.append(run_attempt(request, equipment, listener, cancellation))
        return self.results[-1]


def run_fault(
    fault: PlantedFault,
    directory: Path,
    *,
    time_scale: float = 2.5,
    limits: InstrumentLimits = LIMITS,
    repeat: bool = True,
) -> Found:
    """Plant it in an attempt; unless `repeat` is off, go on until there is a measurement."""
    executor = _Planting(fault, limits)
    cancellation = Cancellation()
    measure_once(
        document(fault, time_scale),
        None,
        base_dir=directory,
        artifacts=directory,
        executor=executor if repeat else _Once(executor),
        observer=SilentObserver(),
        cancellation=cancellation,
        clock=SystemClock(),
    )
    return _found(fault, executor.results)


class _Once:
    """Ends repetitions: what is asked for again was seen already."""

    def __init__(self, executor: _Planting) -> None:
        self._executor = executor

    def execute(
        self, request: AttemptRequest, listener: AttemptListener, cancellation: Cancellation
    ) -> AttemptResult:
        if not self._executor.results:
            self._executor.execute(request, listener, cancellation)
        return replace(self._executor.results[0], outcome=AttemptOutcome.CANCELLED)


def _found(fault: PlantedFault, results: list[AttemptResult]) -> Found:
    first, last = results[0], results[-1]
    warning = first.calibration.warning if first.calibration else None
    reason = "" if first.outcome is AttemptOutcome.MEASURED else first.reason
    said = " ".join(text for text in (warning, reason) if text)
    told = not fault.told or any(words in said for words in fault.told)
    return Found(
        fault.name,
        fault.planted,
        first.outcome.value,
        said,
        len(results),
        last.outcome.value,
        first.outcome in fault.outcomes and told,
    )
