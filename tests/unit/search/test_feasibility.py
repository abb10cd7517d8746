from __future__ import annotations

import math

import pytest

from objectives.constraints import ENGINE_RUNS, FITS_MEMORY, KV_CACHE_SUFFICES
from tuner.domain.engine_config import EngineConfig
from tuner.search.feasibility import Feasible, PredictedInfeasible, check
from tuner.search.memory_forecast import MemoryForecast

SOUND = EngineConfig.of(
    {
        "max-num-seqs": 64,
        "max-num-batched-tokens": 2048,
        "enable-chunked-prefill": True,
        "gpu-memory-utilization": 0.9,
    }
)


def forbidden(config: EngineConfig) -> MemoryForecast:
    raise AssertionError(f"the memory model was asked about {config}")


def test_without_objections_a_configuration_is_feasible() -> None:
    assert check(SOUND, max_model_len=8192) == Feasible()


def test_a_broken_rule_is_rejected_in_the_engines_words_before_the_memory_model() -> None:
    verdict = check(
        SOUND.with_flags({"max-num-batched-tokens": 32}), max_model_len=8192, forecaster=forbidden
    )
    assert isinstance(verdict, PredictedInfeasible)
    assert verdict.failure_class == "config_rejected"
    assert verdict.constraint == ENGINE_RUNS
    assert verdict.grade == pytest.approx(math.log(2))
    assert "must be greater than or equal to max_num_seqs (64)" in verdict.reason


def test_of_several_broken_rules_the_worst_grades_and_all_are_told() -> None:
    verdict = check(
        SOUND.with_flags({"max-num-batched-tokens": 32, "enable-chunked-prefill": False}),
        max_model_len=128,
    )
    assert isinstance(verdict, PredictedInfeasible)
    assert verdict.grade == pytest.approx(math.log(4))
    assert "max_num_seqs (64)" in verdict.reason
    assert "max_model_len (128)" in verdict.reason


@pytest.mark.parametrize(
    ("failure_class", "constraint"),
    [("oom_profile", FITS_MEMORY), ("kv_too_small", KV_CACHE_SUFFICES)],
)
def test_a_predicted_memory_failure_is_infeasible(failure_class: str, constraint: str) -> None:
    def forecaster(config: EngineConfig) -> MemoryForecast:
        assert config == SOUND
        return MemoryForecast(0.8, failure_class, severity=1.5, summary="needs 1.5 times as much")

    verdict = check(SOUND, max_model_len=8192, forecaster=forecaster)
    assert isinstance(verdict, PredictedInfeasible)
    assert verdict.constraint == constraint
    assert verdict.grade == pytest.approx(math.log(1.5))
    assert verdict.reason == "needs 1.5 times as much"


def test_a_prediction_without_words_names_its_class() -> None:
    verdict = check(
        SOUND, max_model_len=None, forecaster=lambda _: MemoryForecast(None, "oom_capture")
    )
    assert isinstance(verdict, PredictedInfeasible)
    assert "oom_capture" in verdict.reason
    assert verdict.grade > 0


def test_a_memory_model_without_objections_leaves_its_forecast() -> None:
    forecast = MemoryForecast(0.93)
    assert check(SOUND, max_model_len=8192, forecaster=lambda _: forecast) == Feasible(forecast)
