"""What the engine model expects of a study's configurations: first points, never measurements."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from objectives.measurement import Estimate, Measurement
from objectives.score import Objective
from tuner.domain.engine_config import EngineConfig
from tuner.domain.study_spec import StudySpec
from tuner.loadgen.workload import Workload, build_workload
from tuner.search.model_picks import Picks, model_picks
from tuner.search.space import Coordinates, SearchSpace
from tuner.simulator.engine_model import warm_up
from tuner.simulator.forecast import LABEL
from tuner.study.calibration import LoadCalibration
from tuner.study.load_prediction import Machine, ModelledLoad, PredictedLoad, predict_load
from tuner.study.scoring import objective_of, slo_of
from tuner.study.target import Target

MOST_WORK_COMPILED = 120_000_000
"""Sequences over simulated steps: some seconds of one core."""

MOST_WORK_INTERPRETED = 8_000_000

LARGEST_SPEED_RATIO = 4.0
"""A machine that is further from the nominal one than that is another machine."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """What the engine model expects of one configuration under the study's load."""

    score: float | None
    measurement: Measurement
    rate_per_s: float | None
    """The rate that loads the modelled machine as the study's rate loads the real one; None for
    users in a closed loop."""

    def to_dict(self) -> dict[str, object]:
        """JSON-able, for the trial's row."""
        latency, capacity = self.measurement.latency, self.measurement.capacity
        ttft, tpot = latency.ttft_ms, latency.tpot_ms
        return {
            "label": LABEL,
            "score": self.score,
            "rate_per_s": self.rate_per_s,
            "ttft_p95_ms": None if ttft is None else ttft.p95.value,
            "tpot_p95_ms": None if tpot is None else tpot.p95.value,
            "output_tokens_per_s": _value(capacity.output_tokens_per_s),
            "preemptions_per_request": latency.preemptions_per_request,
        }


class EnginePrior:
    """The engine model of one study's machine, under its load, judged by its objective.

    The nominal machine, whatever runs in truth; the only thing it is told is how fast the real one
    served the reference, so that both are loaded equally.
    """

    def __init__(
        self,
        target: Target,
        machine: Machine,
        objective: Objective,
        load: ModelledLoad,
        reference: PredictedLoad,
    ) -> None:
        self._target = target
        self._machine = machine
        self._objective = objective
        self._load = load
        self._reference = reference
        self._predict = lru_cache(maxsize=None)(self._predicted)

    @property
    def reference_score(self) -> float | None:
        """What the reference itself scores."""
        own = self._reference.measurement
        return self._objective.score(own, own).value

    def predict(self, config: EngineConfig) -> Prediction | None:
        """None for a configuration that the model does not see run."""
        predicted = self._predict(self._target.effective(config))
        if predicted is None:
            return None
        score = self._objective.score(predicted.measurement, self._reference.measurement).value
        return Prediction(score, predicted.measurement, self._load.rate_per_s)

    def picks(self, space: SearchSpace, *, seed: int, extra: tuple[Coordinates, ...] = ()) -> Picks:
        """The most promising points, far from each other; the same on every call."""
        compiled = warm_up()
        most = MOST_WORK_COMPILED if compiled else MOST_WORK_INTERPRETED

        def predict(point: Coordinates) -> tuple[float | None, int]:
            config = self._target.effective(self._target.with_searched(space.to_config(point)))
            predicted = self._predict(config)
            if predicted is None:
                return None, 0
            reference = self._reference.measurement
            return self._objective.score(predicted.measurement, reference).value, predicted.work

        return model_picks(space, predict, seed=seed, extra=extra, most_work=most)

    def _predicted(self, config: EngineConfig) -> PredictedLoad | None:
        return predict_load(self._load, config, self._machine)


def engine_prior(
    spec: StudySpec,
    target: Target,
    base_dir: Path,
    calibration: LoadCalibration,
    reference: tuple[EngineConfig, Measurement],
) -> EnginePrior | None:
    """The prior of a study whose reference has been measured.

    None where the machine is not known, or the model does not see the reference run.
    """
    machine = machine_of(target)
    if machine is None:
        return None
    workload = build_workload(
        spec.workload,
        max_model_len=target.max_model_len,
        seed=spec.workload.seed,
        base_dir=base_dir,
    )
    config, measured = target.effective(reference[0]), reference[1]
    load = _load(spec, workload, calibration, calibration.rate_per_s)
    predicted = predict_load(load, config, machine)
    if predicted is None:
        return None
    if calibration.rate_per_s is not None:
        ratio = _speed_ratio(predicted.measurement, measured)
        load = _load(spec, workload, calibration, calibration.rate_per_s * ratio)
        predicted = predict_load(load, config, machine)
        if predicted is None:
            return None
    return EnginePrior(target, machine, objective_of(spec.objective), load, predicted)


def machine_of(target: Target) -> Machine | None:
    """None where the model's geometry or the GPU is not known."""
    if target.gpu is None or target.geometry is None:
        return None
    return Machine(target.gpu, target.gpu_count, target.geometry, target.max_model_len)


def _load(
    spec: StudySpec, workload: Workload, calibration: LoadCalibration, rate_per_s: float | None
) -> ModelledLoad:
    return ModelledLoad.of(
        workload,
        spec.workload,
        rate_per_s,
        calibration.concurrency,
        slo=slo_of(spec.objective.slo),
    )


def _speed_ratio(predicted: Measurement, measured: Measurement) -> float:
    """How much faster the modelled machine serves the reference in saturation than the real one."""
    model = _value(predicted.capacity.output_tokens_per_s)
    real = _value(measured.capacity.output_tokens_per_s)
    if not model or not real:
        return 1.0
    return min(max(model / real, 1 / LARGEST_SPEED_RATIO), LARGEST_SPEED_RATIO)


def _value(estimate: Estimate | None) -> float | None:
    return None if estimate is None else estimate.value
