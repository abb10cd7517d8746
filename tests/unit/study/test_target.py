from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tuner.domain.engine_config import EngineConfig
from tuner.domain.study_spec import StudySpec
from tuner.errors import InvalidStudyError
from tuner.search.feasibility import PredictedInfeasible, check
from tuner.search.space_filling import sobol_points
from tuner.study.space import search_space
from tuner.study.target import SMALLEST_VOCABULARY, baseline_config, target_of


def spec(**changes: Any) -> StudySpec:
    document: dict[str, Any] = {
        "model": {"id": "Qwen/Qwen2.5-7B-Instruct", "max_model_len": 8192},
        "engine": {"kind": "simulated", "gpu": "L4", "hardware_seed": 5},
        **changes,
    }
    return StudySpec.model_validate(document)


def test_fixed_flags_belong_to_every_configuration() -> None:
    study = spec(engine={"kind": "simulated", "flags": {"block-size": 32}})
    target = target_of(study, Path())
    assert target.with_searched({"max-num-seqs": 9}).as_dict() == {
        "block-size": 32,
        "max-model-len": 8192,
        "max-num-seqs": 9,
    }


def test_the_baseline_leaves_to_the_engine_what_it_does_not_say() -> None:
    study = spec(baseline={"flags": {"max-num-seqs": 7}})
    assert baseline_config(study, target_of(study, Path())) == EngineConfig.of(
        {"max-model-len": 8192, "max-num-seqs": 7}
    )


def test_the_context_is_the_flag_else_the_documents_else_the_models() -> None:
    flag = spec(engine={"kind": "simulated", "flags": {"max-model-len": 1024}})
    assert target_of(flag, Path()).max_model_len == 1024
    assert target_of(spec(), Path()).max_model_len == 8192
    bare = spec(model={"id": "Qwen/Qwen2.5-7B-Instruct"})
    assert target_of(bare, Path()).max_model_len == 32768


def test_the_forecast_knows_nothing_of_the_hidden_machine() -> None:
    here, there = (
        target_of(spec(), Path()),
        target_of(spec(engine={"kind": "simulated", "gpu": "L4", "hardware_seed": 99}), Path()),
    )
    config = EngineConfig.of({"max-num-seqs": 64})
    assert here.memory(config) == there.memory(config)


def test_a_model_the_embedded_engine_does_not_know_is_a_fault_with_its_path() -> None:
    with pytest.raises(InvalidStudyError) as caught:
        target_of(spec(model={"id": "nobody/nothing"}), Path())
    assert [fault.path for fault in caught.value.faults] == ["model.id"]


def test_a_real_engine_needs_no_known_model_but_its_context() -> None:
    engine = {"kind": "vllm"}
    target = target_of(spec(model={"id": "my/own", "max_model_len": 2048}, engine=engine), Path())
    assert target.geometry is None
    assert target.forecaster() is None
    assert target.memory(EngineConfig()) is None
    assert target.vocabulary_size == SMALLEST_VOCABULARY
    with pytest.raises(InvalidStudyError) as caught:
        target_of(spec(model={"id": "my/own"}, engine=engine), Path())
    assert caught.value.faults[0].path == "model.max_model_len"


def test_a_real_engine_on_a_named_gpu_is_forecast_like_an_embedded_one() -> None:
    embedded = target_of(spec(), Path())
    real = target_of(spec(engine={"kind": "vllm", "gpu": "l4"}), Path())
    config = EngineConfig.of({"max-num-seqs": 64})
    assert real.memory(config) == embedded.memory(config)
    assert real.forecaster() is not None


def test_a_gpu_that_is_not_known_is_a_fault_with_its_path() -> None:
    with pytest.raises(InvalidStudyError) as caught:
        target_of(spec(engine={"kind": "vllm", "gpu": "Z80"}), Path())
    assert [fault.path for fault in caught.value.faults] == ["engine.gpu"]


def test_a_model_path_is_relative_to_the_study_file(tmp_path: Path) -> None:
    config = {
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "vocab_size": 1000,
        "max_position_embeddings": 512,
    }
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(json.dumps(config))
    target = target_of(spec(model={"path": "model"}), tmp_path)
    assert target.model == str(tmp_path / "model")
    assert target.vocabulary_size == 1000
    assert target.max_model_len == 512


def test_devices_of_a_real_engine_are_its_parallel_ranks() -> None:
    flags = {"tensor-parallel-size": 4, "pipeline-parallel-size": 2}
    study = spec(engine={"kind": "vllm", "flags": flags})
    assert target_of(study, Path()).gpu_count == 8


def test_equal_servers_are_equal_once_defaults_are_filled_in() -> None:
    target = target_of(spec(), Path())
    explicit = EngineConfig.of({"max-num-seqs": 256, "max-num-batched-tokens": 2048})
    assert target.effective(EngineConfig()) == target.effective(explicit)


MACHINES = {
    "L4": ("L4", "meta-llama/Llama-3.1-8B-Instruct", 8192),
    "A10G": ("A10G", "Qwen/Qwen2.5-7B-Instruct", 8192),
    "A100": ("A100-80", "meta-llama/Llama-2-7b-chat-hf", 4096),
    "H100": ("H100", "Qwen/Qwen2.5-72B-Instruct-AWQ", 8192),
}


@pytest.mark.parametrize("machine", MACHINES)
def test_next_to_no_point_of_the_space_is_predicted_infeasible(machine: str) -> None:
    gpu, model, length = MACHINES[machine]
    study = spec(
        model={"id": model, "max_model_len": length}, engine={"kind": "simulated", "gpu": gpu}
    )
    target = target_of(study, Path())
    space = search_space(study, target)
    points = [space.to_config(point) for point in sobol_points(space, seed=3, count=256)]
    verdicts = [
        check(
            target.effective(target.with_searched(flags)),
            max_model_len=length,
            forecaster=target.forecaster(),
        )
        for flags in points
    ]
    assert sum(isinstance(verdict, PredictedInfeasible) for verdict in verdicts) <= 2
    utilizations = [float(flags["gpu-memory-utilization"]) for flags in points]
    assert min(utilizations) >= 0.8


def test_a_memory_model_bounds_budgets_before_anything_is_asked() -> None:
    # On an L4, 32,768 tokens a step leave an 8B model no cache at all.
    study = spec(model={"id": "meta-llama/Llama-3.1-8B-Instruct", "max_model_len": 8192})
    space = search_space(study, target_of(study, Path()))
    assert space.ceiling is not None
    assert 0.85 < space.ceiling.at(1024, 8192) < 0.97
    assert 8192 < space.token_ceiling(8, chunked=True) < 32768
    assert space.token_ceiling(1024, chunked=True) < space.token_ceiling(8, chunked=True)


def test_a_length_left_to_vllm_is_refused_because_it_differs_from_trial_to_trial() -> None:
    study = spec(
        model={"id": "Qwen/Qwen2.5-7B-Instruct"},
        engine={"kind": "simulated", "flags": {"max-model-len": -1}},
    )
    with pytest.raises(InvalidStudyError, match=r"engine\.flags\.max-model-len.*trial to trial"):
        target_of(study, Path())


def test_a_model_path_that_leads_nowhere_is_told_before_anything_starts(tmp_path: Path) -> None:
    study = spec(
        model={"path": "weights", "max_model_len": 4096},
        engine={"kind": "vllm", "launcher": {"type": "process", "executable": "vllm"}},
    )
    with pytest.raises(InvalidStudyError, match=r"model\.path.*nothing at .*weights"):
        target_of(study, tmp_path)


def test_a_model_without_a_config_is_left_to_a_real_vllm(tmp_path: Path) -> None:
    (tmp_path / "weights").mkdir()
    study = spec(
        model={"path": "weights", "max_model_len": 4096},
        engine={"kind": "vllm", "launcher": {"type": "process", "executable": "vllm"}},
    )
    assert target_of(study, tmp_path).geometry is None


def test_a_model_nested_beyond_reason_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"a":' * 200_000)
    study = spec(model={"path": str(tmp_path), "max_model_len": 4096})
    with pytest.raises(InvalidStudyError, match="nested too deeply"):
        target_of(study, Path())
