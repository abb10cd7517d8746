from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tuner.domain.argv import from_argv
from tuner.domain.engine_config import EngineConfig
from tuner.domain.states import TrialOrigin
from tuner.domain.study_spec import StudySpec
from tuner.errors import InvalidStudyError
from tuner.study.plan import SHOWN_PORT, plan_study

H100 = {"kind": "simulated", "gpu": "H100"}


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
    assert plan.restarts == 3 + 8 + 9
    assert plan.confirmation_restarts == 9
    assert plan.confirmation_restarts_at_most == 3 * 4 + 2 * 10


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


@pytest.mark.parametrize(
    ("named", "started"),
    [
        ("vllm", "vllm"),
        ("/opt/vllm/bin/vllm", "/opt/vllm/bin/vllm"),
        ("../.venv-vllm/bin/vllm", "/studies/.venv-vllm/bin/vllm"),
    ],
)
def test_an_executable_with_a_slash_is_relative_to_the_study(named: str, started: str) -> None:
    engine = {"kind": "vllm", "launcher": {"type": "process", "executable": named}}
    start = plan_study(spec(engine=engine), Path("/studies/examples")).starts[0]
    assert start.argv[0] == started


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


KIB = 1024


def test_a_7b_model_without_grouped_heads_keeps_half_a_mebibyte_per_token() -> None:
    model = {"id": "meta-llama/Llama-2-7b-chat-hf", "max_model_len": 4096}
    start = plan_study(spec(model=model, engine=H100), Path()).starts[0]
    assert start.memory is not None
    assert start.memory.kv_bytes_per_token == 512 * KIB
    of_one_request = 4096 * start.memory.kv_bytes_per_token / KIB**3
    assert of_one_request == pytest.approx(2.0), "GiB for a context of 4K"
    assert start.memory.longest_requests_at_once == pytest.approx(
        start.memory.kv_cache_gib / of_one_request, rel=0.01
    )


def test_28_layers_of_8_kv_heads_of_128_keep_112_kib_per_token() -> None:
    model = {"id": "meta-llama/Llama-3.2-3B-Instruct", "max_model_len": 4096}
    start = plan_study(spec(model=model), Path()).starts[0]
    assert start.memory is not None
    assert start.memory.kv_bytes_per_token == 28 * 8 * 128 * 2 * 2 == 112 * KIB


def test_the_workloads_own_requests_are_counted_into_the_cache() -> None:
    memory = plan_study(spec(), Path()).starts[0].memory
    assert memory is not None
    assert memory.requests_p50_at_once is not None
    assert memory.requests_p95_at_once is not None
    assert memory.requests_p50_at_once > memory.requests_p95_at_once
    assert memory.requests_p95_at_once >= memory.longest_requests_at_once


def test_latency_and_throughput_are_predicted_and_labelled_so() -> None:
    expected = plan_study(spec(), Path()).starts[0].expected
    assert expected is not None
    assert expected.label == "prediction of the engine model, not a measurement"
    assert expected.ttft_p95_ms is not None
    assert expected.tpot_p95_ms is not None
    assert expected.output_tokens_per_s is not None
    assert expected.ttft_p95_ms > expected.tpot_p95_ms > 0
    assert expected.rate_per_s is not None
    assert expected.rate_per_s > 0


def test_a_given_rate_is_what_is_predicted_for() -> None:
    given = spec(workload={"arrival": {"process": "poisson", "rate": 0.5}})
    expected = plan_study(given, Path()).starts[0].expected
    assert expected is not None
    assert expected.rate_per_s == 0.5


def test_flags_that_are_asked_about_are_forecast_beside_the_baseline() -> None:
    asked = EngineConfig.of({"max-num-seqs": 4})
    plan = plan_study(spec(), Path(), asked)
    baseline, question = plan.starts[:2]
    assert question.origin is TrialOrigin.MANUAL
    assert question.command.config.max_num_seqs == 4
    assert baseline.expected is not None
    assert question.expected is not None
    few, many = question.expected.output_tokens_per_s, baseline.expected.output_tokens_per_s
    assert few is not None
    assert many is not None
    assert few < many
    assert plan.restarts == plan_study(spec(), Path()).restarts


def test_what_would_not_start_has_a_problem_and_no_expectation() -> None:
    asked = EngineConfig.of({"gpu-memory-utilization": 0.3})
    question = plan_study(spec(), Path(), asked).starts[1]
    assert question.memory is not None
    assert question.memory.problem is not None
    assert question.expected is None


def test_a_real_engine_on_a_named_gpu_is_forecast_as_well() -> None:
    start = plan_study(spec(engine={"kind": "vllm", "gpu": "L4"}), Path()).starts[0]
    assert start.memory is not None
    assert start.expected is not None
