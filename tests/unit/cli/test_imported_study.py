from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings

from tests.support.engine_configs import PLAIN_PROVENANCE, launch_commands
from tests.support.unhurried import UNHURRIED
from tuner.cli.imported_study import ImportedStudy, SimulatedOn, imported_study
from tuner.cli.study_file import study_of
from tuner.domain.engine_config import LaunchCommand
from tuner.domain.study_spec import DockerLauncherSpec, ProcessLauncherSpec, VllmEngineSpec
from tuner.errors import Fault, InvalidCommandError, InvalidStudyError
from tuner.export.forms import FORMS, parse_with_notes, render

HERE = Path("/srv/models")
DOCUMENT: dict[str, Any] = {
    "name": "chat",
    "model": {"id": "meta-llama/Llama-3.1-8B-Instruct", "max_model_len": 4096, "revision": "old"},
    "engine": {
        "kind": "vllm",
        "launcher": {"type": "process", "executable": "/opt/vllm"},
        "flags": {"dtype": "bfloat16", "seed": 1},
        "env": {"NCCL_DEBUG": "WARN"},
    },
    "baseline": {"flags": {"max-num-seqs": 64, "enable-prefix-caching": False}},
    "search_space": {"max_num_seqs": {"low": 8, "high": 128}},
    "workload": {"preset": "mixed"},
}


def imported(
    command: str, document: dict[str, Any] | None = None, gpu: str | None = None
) -> ImportedStudy:
    simulated = SimulatedOn(gpu) if gpu else None
    parsed = parse_with_notes(command)
    study = imported_study(parsed, document, directory=HERE, simulated=simulated)
    study_of(study.text, where="test")  # whatever is made, it is a valid study
    return study


def test_a_command_alone_makes_a_whole_study() -> None:
    study = imported(
        "HF_HUB_OFFLINE=1 /opt/venv/bin/vllm serve Qwen/Qwen2.5-7B-Instruct --max-num-seqs 64 "
        "--no-enable-chunked-prefill --max-model-len 8k --dtype bfloat16 --revision abc"
    )
    assert study.document == {
        "model": {"id": "Qwen/Qwen2.5-7B-Instruct", "max_model_len": 8000, "revision": "abc"},
        "engine": {
            "kind": "vllm",
            "launcher": {"type": "process", "executable": "/opt/venv/bin/vllm"},
            "env": {"HF_HUB_OFFLINE": "1"},
            "flags": {"dtype": "bfloat16"},
        },
        "baseline": {"flags": {"max-num-seqs": 64, "enable-chunked-prefill": False}},
        "workload": {"preset": "chat"},
    }
    assert study.notes == ["--max-model-len 8k is read as 8000"]


def test_a_plain_command_has_the_engines_defaults_as_baseline() -> None:
    study = imported("vllm serve Qwen/Qwen3-8B")
    assert "baseline" not in study.document
    assert study.notes == []


@pytest.mark.parametrize(
    ("command", "executable"),
    [
        ("vllm serve a/b", "vllm"),
        ("venv/bin/vllm serve a/b", "/srv/models/venv/bin/vllm"),
        ("python3 -m vllm.entrypoints.openai.api_server --model a/b", "vllm"),
        ("/v/bin/python -m vllm.entrypoints.openai.api_server --model a/b", "/v/bin/vllm"),
    ],
)
def test_the_executable_is_the_commands(command: str, executable: str) -> None:
    engine = study_of(imported(command).text, where="test").engine
    assert isinstance(engine, VllmEngineSpec)
    assert isinstance(engine.launcher, ProcessLauncherSpec)
    assert engine.launcher.executable == executable


@pytest.mark.parametrize(
    "command",
    [
        "docker run --gpus all vllm/vllm-openai:v0.9.1 --model a/b",
        "podman run --entrypoint /x/vllm vllm/vllm-openai:v0.9.1 serve a/b",
    ],
)
def test_what_runs_in_an_image_is_tuned_in_it(command: str) -> None:
    study = imported(command)
    engine = study_of(study.text, where="test").engine
    assert isinstance(engine, VllmEngineSpec)
    assert isinstance(engine.launcher, DockerLauncherSpec)
    assert engine.launcher.image == "vllm/vllm-openai:v0.9.1"
    assert any("each start runs vllm/vllm-openai:v0.9.1" in note for note in study.notes)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("a/b", {"id": "a/b"}),
        ("/data/m", {"path": "/data/m"}),
        ("./m", {"path": "/srv/models/m"}),
        ("../m", {"path": "/srv/models/../m"}),
    ],
)
def test_a_model_is_a_name_or_a_path(model: str, expected: dict[str, str]) -> None:
    assert imported(f"vllm serve {model}").document["model"] == expected


def test_a_directory_that_looks_like_a_name_is_a_path(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    parsed = parse_with_notes("vllm serve a/b")
    study = imported_study(parsed, None, directory=tmp_path, simulated=None)
    assert study.document["model"] == {"path": str(tmp_path / "a" / "b")}


@pytest.mark.parametrize("length", ["auto", "-1"])
def test_a_length_that_is_none_is_left_to_the_model_and_said(length: str) -> None:
    study = imported(f"vllm serve a/b --max-model-len={length}")
    assert study.document["model"] == {"id": "a/b"}
    assert any("a study needs a number" in note for note in study.notes)


def test_the_embedded_engine_spans_the_commands_devices() -> None:
    study = imported("vllm serve Qwen/Qwen3-8B -tp 2 -pp 2", gpu="H100")
    assert study.document["engine"] == {
        "kind": "simulated",
        "gpu": "H100",
        "count": 4,
        "time_scale": 1,
        "hardware_seed": 2023,
        "flags": {"pipeline-parallel-size": 2, "tensor-parallel-size": 2},
    }


@pytest.mark.parametrize(("gpu", "scale"), [("L4", 10), ("A10G", 10), ("L40S", 3), ("B200", 1)])
def test_a_faster_gpu_is_modelled_nearer_to_real_time(gpu: str, scale: int) -> None:
    study = imported("vllm serve Qwen/Qwen3-8B", gpu=gpu)
    assert study.document["engine"]["time_scale"] == scale


def test_what_no_study_can_hold_is_left_out_and_said() -> None:
    study = imported("vllm serve a/b --host 0.0.0.0 --port 80 --foo 1 --api-key s3 --swap-space 4")
    assert study.document["engine"]["flags"] == {"swap-space": 4.0}
    notes = "\n".join(study.notes)
    assert "left out of the study: --foo, --host, --port" in notes
    assert "--foo is not a flag that ServeTune knows" in notes
    assert "--port is not for a study to set: ServeTune chooses a free port" in notes
    assert "the value of --api-key is a secret and was not kept" in notes
    assert "--swap-space was removed in vLLM 0.18" in notes
    assert "s3" not in study.text


def test_the_embedded_engine_does_not_know_removed_flags() -> None:
    study = imported("vllm serve Qwen/Qwen3-8B --swap-space 4", gpu="L4")
    assert "flags" not in study.document["engine"]
    assert "left out of the study: --swap-space" in study.notes


def test_the_search_contains_todays_values() -> None:
    study = imported("vllm serve a/b --max-num-seqs 2 --max-num-batched-tokens 65536")
    assert study.document["search_space"] == {
        "max_num_seqs": {"low": 2, "high": 1024},
        "max_num_batched_tokens": {"low": 256, "high": 65536},
    }
    assert sum("was widened" in note for note in study.notes) == 2
    assert "search_space" not in imported("vllm serve a/b --max-num-seqs 64").document


def test_a_cache_sized_in_bytes_leaves_the_share_of_memory_alone() -> None:
    study = imported("vllm serve a/b --kv-cache-memory-bytes 8G --gpu-memory-utilization 0.9")
    assert study.document["search_space"] == {"gpu_memory_utilization": {"low": 0.9, "high": 0.9}}
    assert any("gpu-memory-utilization is not searched" in note for note in study.notes)


# Over a document


def test_the_command_overrides_model_baseline_and_flags_of_a_document() -> None:
    study = imported(
        "NCCL_DEBUG=INFO vllm serve Qwen/Qwen3-8B --max-num-batched-tokens 4096 --seed 2",
        DOCUMENT,
    )
    document = study.document
    assert document["model"] == {"id": "Qwen/Qwen3-8B", "max_model_len": 4096}
    assert document["baseline"] == {"flags": {"max-num-batched-tokens": 4096}}
    assert document["engine"]["flags"] == {"dtype": "bfloat16", "seed": 2}
    assert document["engine"]["launcher"] == {"type": "process", "executable": "/opt/vllm"}
    assert document["engine"]["env"] == {"NCCL_DEBUG": "INFO"}
    assert document["workload"] == {"preset": "mixed"}
    assert document["name"] == "chat"
    assert "the command's model Qwen/Qwen3-8B replaces the study's" in study.notes
    assert "fixed by the study beside the command: --dtype" in study.notes


def test_the_document_itself_is_not_changed() -> None:
    before = json.dumps(DOCUMENT)
    imported("vllm serve Qwen/Qwen3-8B --seed 2 --max-num-seqs 4", DOCUMENT)
    assert json.dumps(DOCUMENT) == before


def test_the_same_model_keeps_its_revision_and_a_length_of_the_command_wins() -> None:
    study = imported("vllm serve meta-llama/Llama-3.1-8B-Instruct --max-model-len 2048", DOCUMENT)
    assert study.document["model"]["revision"] == "old"
    assert study.document["model"]["max_model_len"] == 2048


def test_a_length_among_the_documents_flags_does_not_contradict_the_commands() -> None:
    document = {**DOCUMENT, "model": {"id": "a/b"}}
    document["engine"] = {"kind": "vllm", "flags": {"max-model-len": 4096}}
    study = imported("vllm serve a/b --max-model-len 2048", document)
    assert study.document["model"]["max_model_len"] == 2048
    assert "flags" not in study.document["engine"]


def test_a_simulated_document_keeps_its_hardware_on_another_gpu() -> None:
    engine = {"kind": "simulated", "gpu": "L4", "time_scale": 5, "hardware_seed": 3}
    study = imported("vllm serve Qwen/Qwen3-8B", {**DOCUMENT, "engine": engine}, gpu="H100")
    assert study.document["engine"] == {
        "kind": "simulated",
        "gpu": "H100",
        "count": 1,
        "time_scale": 5,
        "hardware_seed": 3,
    }


def test_faults_of_the_document_are_still_its_readers_to_tell() -> None:
    parsed = parse_with_notes("vllm serve Qwen/Qwen3-8B --max-num-seqs 4")
    document = {**DOCUMENT, "search_space": {"max_num_seqs": 3}, "budget": {"trials": 0}}
    study = imported_study(parsed, document, directory=HERE, simulated=None)
    with pytest.raises(InvalidStudyError) as caught:
        study_of(study.text, where="test")
    assert {fault.path for fault in caught.value.faults} == {
        "search_space.max_num_seqs",
        "budget.trials",
    }


def test_text_is_written_so_that_yaml_1_1_and_1_2_agree() -> None:
    study = imported("vllm serve a/b --revision 1e5 --quantization no --tokenizer-revision 0o17")
    assert yaml.safe_load(study.text) == study.document
    assert study_of(study.text, where="test").model.revision == "1e5"


SAFE = launch_commands().filter(lambda c: not c.model.startswith("~"))


@settings(UNHURRIED, max_examples=60)
@given(command=SAFE)
def test_any_command_makes_a_study_or_faults_with_paths(command: LaunchCommand) -> None:
    parsed = parse_with_notes(render("json", command, PLAIN_PROVENANCE))
    study = imported_study(parsed, None, directory=HERE, simulated=None)
    faults: tuple[Fault, ...] = ()
    try:
        study_of(study.text, where="test")
    except InvalidStudyError as error:
        faults = error.faults
    sections = ("model", "engine", "baseline", "search_space")
    assert all(fault.path.startswith(sections) for fault in faults)


@pytest.mark.parametrize("form", FORMS)
def test_a_recommendation_in_any_form_is_the_next_studys_baseline(form: str) -> None:
    command = parse_with_notes("vllm serve a/b --max-num-seqs 96 --dtype half").command
    try:
        text = render(form, command, PLAIN_PROVENANCE)
    except InvalidCommandError:
        pytest.fail(f"{form} refuses a plain command")
    document = imported(text).document
    assert document["baseline"] == {"flags": {"max-num-seqs": 96}}
    assert document["engine"]["flags"] == {"dtype": "half"}
    assert document["model"] == {"id": "a/b"}
