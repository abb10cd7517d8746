from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from objectives.measurement import EngineFacts
from tuner.domain.study_spec import StudySpec
from tuner.simulator.forecast import LABEL
from tuner.study.start_forecast import StartForecast, read_back_document, start_forecast
from tuner.study.target import baseline_config, target_of


def forecast(**changes: Any) -> StartForecast:
    study = StudySpec.model_validate(
        {
            "model": {"id": "Qwen/Qwen2.5-7B-Instruct", "max_model_len": 8192},
            "engine": {"kind": "simulated", "gpu": "L4", "hardware_seed": 5},
            **changes,
        }
    )
    target = target_of(study, Path())
    return start_forecast(target, baseline_config(study, target))


def compared(forecast: StartForecast, facts: EngineFacts) -> dict[str, Any]:
    found = read_back_document(forecast, facts)["forecast"]
    assert isinstance(found, dict)
    return found


def test_a_start_is_forecast_by_the_nominal_account() -> None:
    one = forecast()
    assert one.kv_cache_tokens is not None
    assert one.weights_gib == pytest.approx(14.2, abs=0.3)
    assert one.startup_s is not None
    assert one.startup_s > 20


def test_the_hidden_machine_does_not_help_its_own_forecast() -> None:
    other = {"kind": "simulated", "gpu": "L4", "hardware_seed": 6}
    assert forecast() == forecast(engine=other)


def test_of_an_unknown_machine_nothing_is_forecast() -> None:
    unknown = forecast(engine={"kind": "vllm"})
    assert unknown == StartForecast()
    found = compared(unknown, EngineFacts(kv_cache_tokens=5))
    assert found["kv_cache_tokens"] == {"forecast": None, "read_back": 5, "error": None}


def test_the_error_is_the_forecast_over_what_was_read_back() -> None:
    found = compared(
        StartForecast(kv_cache_tokens=110, weights_gib=9.0, startup_s=50.0),
        EngineFacts(kv_cache_tokens=100, weights_gib=10.0),
    )
    assert found["label"] == LABEL
    assert found["kv_cache_tokens"]["error"] == pytest.approx(0.10)
    assert found["weights_gib"]["error"] == pytest.approx(-0.10)
    assert found["startup_s"] == {"forecast": 50.0, "read_back": None, "error": None}
    assert found["graph_gib"] == {"forecast": None, "read_back": None, "error": None}


def test_what_the_engine_said_is_kept_whole() -> None:
    facts = EngineFacts(version="0.32.0", kv_cache_tokens=7)
    engine = read_back_document(StartForecast(), facts)["engine"]
    assert isinstance(engine, dict)
    assert EngineFacts(**engine) == facts
