from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tuner.domain.argv import from_argv
from tuner.domain.states import TrialOrigin
from tuner.domain.study_spec import StudySpec
from tuner.errors import InvalidStudyError
from tuner.study.plan import SHOWN_PORT, plan_study


def spec(**changes: Any) -> StudySpec:
    document: dict[str, Any] = {
        "model": {"id": "Qwen/Qwen2.5-7B-Instruct", "max_model_len": 4096},
        "engine": {"kind": "simulated", "gpu": "L4", "time_scale": 10},
        "baseline": {"flags": {"max-num-seqs": 32}},
        "budget": {"trials": 8},
        "confirmation": {"finalists": 2, "rounds": 3},
        **changes,
    }
    return StudySpec.model_validate(document)


def test_the_certain_starts_are_baseline_preset_and_one_far_away() -> None:
    plan = plan_study(spec(), Path())
    assert [s.origin for s in plan.starts] == [
        TrialOrigin.BASELINE,
        TrialOrigin.PRESET,
        TrialOrigin.SPACE_FILLING,
    ]
    assert plan.restarts == 2 + 8 + 9
    assert plan.confirmation_restarts == 9


def test_the_embedded_engine_is_started_by_this_interpreter() -> None:
    argv = plan_study(spec(), Path()).starts[0].argv
    assert argv[:6] == (
        sys.executable,
        "-P",
        "-m",
        "tuner.simulator",
        "serve",
        "Qwen/Qwen2.5-7B-Instruct",
    )
    assert argv[argv.index("--max-num-seqs") + 1] == "32"
    assert "--sim-gpu" in argv


def test_a_real_engine_is_started_with_exactly_the_planned_flags() -> None:
    engine = {"kind": "vllm", "launcher": {"type": "process", "executable": "/opt/vllm"}}
    start = plan_study(spec(engine=engine), Path()).starts[1]
    assert start.argv[:3] == ("/opt/vllm", "serve", "Qwen/Qwen2.5-7B-Instruct")
    assert start.argv[-4:] == ("--host", "127.0.0.1", "--port", str(SHOWN_PORT))
    assert from_argv(start.argv[3:-4]) == start.command.config
    assert start.memory is None


def test_memory_is_forecast_where_model_and_gpu_are_known() -> None:
    memory = plan_study(spec(), Path()).starts[0].memory
    assert memory is not None
    assert memory.weights_gib == pytest.approx(14.2, abs=0.2)
    assert memory.kv_cache_tokens > 0
    assert memory.problem is None


def test_a_baseline_that_cannot_fit_is_said_beforehand() -> None:
    model = {"id": "meta-llama/Llama-3.1-70B-Instruct", "max_model_len": 4096}
    start = plan_study(spec(model=model), Path()).starts[0]
    assert start.rejected is not None
    assert start.memory is not None
    assert start.memory.problem is not None


def test_gpu_minutes_are_engine_time_and_the_duration_is_not() -> None:
    plan = plan_study(spec(), Path())
    assert plan.duration_s < plan.gpu_minutes * 60
    slow = plan_study(spec(engine={"kind": "simulated", "gpu": "L4", "time_scale": 1}), Path())
    assert slow.gpu_minutes == pytest.approx(plan.gpu_minutes)
    assert slow.duration_s > 5 * plan.duration_s


def test_an_empty_space_is_refused_with_its_path() -> None:
    space = {"max_num_seqs": {"low": 64, "high": 8}}
    with pytest.raises(InvalidStudyError) as caught:
        plan_study(spec(search_space=space), Path())
    assert any("max_num_seqs" in fault.path for fault in caught.value.faults)


def test_a_given_rate_is_planned_and_a_missing_one_is_unknown() -> None:
    assert plan_study(spec(), Path()).rate_per_s is None
    given = spec(workload={"arrival": {"process": "poisson", "rate": 2.5}})
    assert plan_study(given, Path()).rate_per_s == 2.5
