"""From today's command to a recommended one and back, as somebody would who has no study file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.command import data, servetune
from tuner.export.forms import FORMS

pytestmark = [pytest.mark.e2e, pytest.mark.engine, pytest.mark.timeout(420)]

MODEL = "meta-llama/Llama-3.1-8B-Instruct"
FLAGS = "--max-model-len 4096 --max-num-seqs 4 --dtype bfloat16 --frobnicate 3"
COMMANDS = {
    "vllm": f"vllm serve {MODEL} {FLAGS}",
    "sudo": f"sudo nohup vllm serve {MODEL} \\\n  {FLAGS} > log 2>&1 &",
    "python": f"python -m vllm.entrypoints.openai.api_server --model {MODEL} {FLAGS}",
    "docker": (
        "docker run --runtime nvidia --gpus all -v ~/.cache/huggingface:/root/.cache/huggingface "
        f"--env HF_TOKEN=hf_s3cr3t -p 8000:8000 --ipc=host vllm/vllm-openai --model {MODEL} {FLAGS}"
    ),
}
STUDY = """\
name: imported
search_space:
  max_num_seqs: {low: 4, high: 64}
workload:
  lengths:
    prompt_tokens: {type: uniform, low: 50, high: 400}
    output_tokens: {type: uniform, low: 10, high: 40}
  arrival: {rate: 2}
  warmup_s: 5
  latency_window_s: 12
  capacity_window_s: 8
budget: {trials: 1}
first_points: {engine_model: false}
confirmation: {finalists: 1, rounds: 2, max_rounds: 2}
"""


def printed_study(command: str, folder: Path) -> tuple[dict[str, Any], str]:
    """The study document that a command makes, and what was said about it."""
    done = servetune(
        *("tune", "--from-command", command, "--simulate", "L4", "--print-study"),
        state_dir=folder / "state",
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = yaml.safe_load(done.stdout)
    return document, done.stderr


@pytest.mark.parametrize("form", COMMANDS)
def test_every_form_of_a_command_makes_the_same_study(form: str, tmp_path: Path) -> None:
    document, said = printed_study(COMMANDS[form], tmp_path)
    assert document["model"] == {"id": MODEL, "max_model_len": 4096}
    assert document["engine"]["flags"] == {"dtype": "bfloat16"}
    assert document["baseline"] == {"flags": {"max-num-seqs": 4}}
    assert "--frobnicate is not a flag that ServeTune knows" in said
    assert "left out of the study: --frobnicate" in said
    assert "s3cr3t" not in said


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A whole study of today's command, on the embedded engine."""
    folder = tmp_path_factory.mktemp("imported")
    (folder / "study.yaml").write_text(
        STUDY + f"model: {{id: {MODEL}}}\nengine: {{kind: simulated, gpu: L4, time_scale: 5}}\n"
    )
    (folder / "today.sh").write_text(COMMANDS["vllm"] + "\n")
    done = servetune(
        *("tune", "study.yaml", "--from-command", "@today.sh", "--simulate", "L4"),
        *("--output", "json"),
        state_dir=folder / "state",
        cwd=folder,
    )
    assert "--frobnicate" in done.stderr
    return folder, data(done)


def test_todays_command_is_the_measured_baseline(finished: tuple[Path, dict[str, Any]]) -> None:
    _, report = finished
    assert report["study"]["state"] == "complete"
    assert report["baseline"]["flags"] == {
        "dtype": "bfloat16",
        "max-model-len": 4096,
        "max-num-seqs": 4,
    }
    assert report["baseline"]["attempts"][0]["headline"]["output_tokens_per_s"] > 0
    assert report["recommendation"]["verdict"] in ("better", "keep_baseline", "better_but_fragile")


@pytest.mark.parametrize("form", FORMS)
def test_every_export_comes_back_as_the_recommended_configuration(
    finished: tuple[Path, dict[str, Any]], form: str
) -> None:
    folder, report = finished
    exported = servetune("export", "imported", "--form", form, state_dir=folder / "state")
    assert exported.returncode == 0, exported.stderr
    file = folder / f"exported.{form}"
    file.write_text(exported.stdout)

    document, said = printed_study(f"@{file}", folder)

    number = report["recommendation"]["trial"]
    chosen = next(t for t in report["trials"] if t["number"] == (number or 0))["flags"]
    again = {
        "max-model-len": document["model"]["max_model_len"],
        **document["engine"].get("flags", {}),
        **document.get("baseline", {}).get("flags", {}),
    }
    assert document["model"]["id"] == MODEL
    assert again == chosen, said
    assert "left out" not in said
    assert json.dumps(document)
