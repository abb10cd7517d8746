from __future__ import annotations

from dataclasses import dataclass

from objectives.constraints import bounded_grade, constraint_of, infeasibility_grade
from tuner.domain.engine_config import EngineConfig
from tuner.domain.rules import violations
from tuner.search.memory_forecast import MemoryForecast, MemoryForecaster


@dataclass(frozen=True, slots=True)
class Feasible:
    """Nothing known speaks against a launch; with the memory model's view when it was asked."""

    forecast: MemoryForecast | None = None


@dataclass(frozen=True, slots=True)
class PredictedInfeasible:
    """A launch would be wasted: told to the sampler as infeasible without one."""

    failure_class: str
    grade: float
    reason: str

    @property
    def constraint(self) -> str:
        """The named constraint it violates."""
        return constraint_of(self.failure_class)


def check(
    config: EngineConfig,
    *,
    max_model_len: int | None,
    forecaster: MemoryForecaster | None = None,
) -> Feasible | PredictedInfeasible:
    """Judge an effective configuration before launch: the engine's rules, then the memory model."""
    if broken := violations(config, max_model_len):
        worst = max(broken, key=lambda violation: violation.grade)
        return PredictedInfeasible(
            failure_class="config_rejected",
            grade=bounded_grade(worst.grade),
            reason=" ".join(violation.message for violation in broken),
        )
    if forecaster is None:
        return Feasible()
    forecast = forecaster(config)
    if forecast.failure_class is None:
        return Feasible(forecast)
    return PredictedInfeasible(
        failure_class=forecast.failure_class,
        grade=infeasibility_grade(forecast.severity),
        reason=forecast.summary or f"the memory model predicts {forecast.failure_class}",
    )
