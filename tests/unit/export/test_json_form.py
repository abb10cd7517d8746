from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from tests.support.engine_configs import PLAIN_PROVENANCE
from tuner.domain.argv import to_argv
from tuner.domain.engine_config import EngineConfig, FlagValue, LaunchCommand
from tuner.errors import InvalidCommandError
from tuner.export.forms import parse, parse_with_notes, render

COMMAND = LaunchCommand(
    "m",
    EngineConfig.of({"max-num-seqs": "96", "gpu-memory-utilization": 1}),
    (("NCCL_DEBUG", "INFO"),),
)


def document(command: LaunchCommand = COMMAND, **changes: Any) -> Any:
    provenance = dataclasses.replace(PLAIN_PROVENANCE, **changes)
    return json.loads(render("json", command, provenance))


def test_the_form_of_the_object() -> None:
    found = document()
    assert list(found) == ["model", "flags", "env", "secrets", "argv", "provenance"]
    assert found["flags"] == {"gpu-memory-utilization": 1.0, "max-num-seqs": 96}
    assert found["argv"] == ["vllm", "serve", "m", *to_argv(COMMAND.config)]
    assert found["env"] == {"NCCL_DEBUG": "INFO"}
    assert found["provenance"]["gain"] == {
        "metric": "score",
        "percent": 21.4,
        "low_percent": 12.0,
        "high_percent": 30.5,
    }


def test_simulated_results_say_so_first() -> None:
    found = document(simulated=True)
    assert next(iter(found)) == "warning"
    assert found["warning"].startswith("SIMULATED")
    assert found["provenance"]["simulated"] is True


def test_what_is_not_known_is_null() -> None:
    found = document(gpu=None, gpu_count=None, gain=None, trial=None, workload_digest=None)
    for key in ("gpu", "gpu_count", "gain", "trial", "workload_digest", "image"):
        assert found["provenance"][key] is None


@pytest.mark.parametrize(
    ("text", "model", "flags"),
    [
        ('{"model": "m", "flags": {"max-num-seqs": 4}}', "m", {"max-num-seqs": 4}),
        ('{"flags": {"model": "m"}}', "m", {}),
        ('{"argv": ["vllm", "serve", "m", "--seed", "1"]}', "m", {"seed": 1}),
        ('{"argv": ["sudo", "vllm", "serve", "m"]}', "m", {}),
    ],
)
def test_objects_by_hand_are_understood(text: str, model: str, flags: dict[str, FlagValue]) -> None:
    parsed = parse_with_notes(text)
    assert parsed.form == "json"
    assert parsed.command.model == model
    assert parsed.command.config.as_dict() == flags
    assert parsed.notes == ()


def test_disagreeing_parts_are_remarked() -> None:
    found = document()
    found["argv"][-1] = "97"
    parsed = parse_with_notes(json.dumps(found))
    assert parsed.command.config.max_num_seqs == 96
    assert "argv and flags differ: the flags were taken" in parsed.notes
    assert parse_with_notes(json.dumps(document())).notes == ()


def test_a_secret_in_the_object_is_not_kept() -> None:
    parsed = parse_with_notes('{"model": "m", "flags": {}, "env": {"HF_TOKEN": "s3cr3t"}}')
    assert "s3cr3t" not in repr(parsed)
    assert parsed.secrets == ("HF_TOKEN",)


@pytest.mark.parametrize(
    ("text", "message", "where"),
    [
        ('{"flags": {}}', "the command names no model", None),
        ('{"flags": []}', "expected a mapping", "flags"),
        ('{"flags": {"max-num-seqs": [1]}}', "expected a mapping", "flags"),
        ('{"flags": {"max-num-seqs": "many"}}', "is not an integer", "flags"),
        ('{"model": 3, "flags": {}}', "expected text", "model"),
        ('{"argv": "vllm serve m"}', "expected a list", "argv"),
        ('{"argv": ["ls"]}', "does not start vLLM", "argv"),
        ('{"model": "m", "flags": {}, "env": []}', "expected a mapping", "env"),
        ('{"model": "m", "flags": {}, "env": {"A": 1}}', "expected text", "env.A"),
        ("[1]", "does not start vLLM", "line 1, column 1"),
    ],
)
def test_other_objects_are_refused(text: str, message: str, where: str | None) -> None:
    with pytest.raises(InvalidCommandError) as caught:
        parse(text)
    assert message in caught.value.message
    assert caught.value.where == where


def test_json_of_another_form_is_that_form() -> None:
    compose = {"services": {"a": {"image": "i", "command": ["vllm", "serve", "m"]}}}
    assert parse_with_notes(json.dumps(compose)).form == "compose"
    assert parse_with_notes('{"model": "m", "max-num-seqs": 4}').form == "config-yaml"
