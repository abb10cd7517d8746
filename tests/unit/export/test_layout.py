from __future__ import annotations

import pytest

from tuner.domain.engine_config import EngineConfig, LaunchCommand
from tuner.errors import InvalidCommandError
from tuner.export.layout import assignments, exportable, on_lines, secret_comments


def test_parts_of_a_command_are_checked_and_secrets_taken_out() -> None:
    command = LaunchCommand(
        model="m",
        config=EngineConfig.of({"api-key": "s", "served-model-name": "a b", "seed": 1}),
        env=(("HF_TOKEN", "s"), ("NCCL_DEBUG", "INFO")),
    )
    parts = exportable(command)
    assert parts.options == (("--seed", "1"), ("--served-model-name", "a", "b"))
    assert parts.variables == (("NCCL_DEBUG", "INFO"),)
    assert parts.secrets == ("HF_TOKEN", "VLLM_API_KEY")


def test_a_secret_is_named_once() -> None:
    config = EngineConfig.of({"hf-token": "s"})
    parts = exportable(LaunchCommand("m", config, (("HF_TOKEN", "s"),)))
    assert parts.secrets == ("HF_TOKEN",)


def test_the_refusal_says_which_flag_is_wrong() -> None:
    command = LaunchCommand("m", EngineConfig.of({"max-num-seqs": "many"}))
    with pytest.raises(InvalidCommandError, match="max-num-seqs: 'many' is not an integer"):
        exportable(command)


def test_every_group_has_a_line_of_its_own() -> None:
    assert on_lines([("a", "b c"), ("--d",)]) == "a 'b c' \\\n  --d"
    assert on_lines([("a",)], raw_first="X=1") == "X=1 \\\n  a"
    assert on_lines([("a",)]) == "a"


def test_assignments_are_quoted_behind_the_sign() -> None:
    assert assignments([("A", "x y"), ("B", "")]) == "A='x y' B=''"
    assert assignments([]) == ""


def test_secrets_are_asked_for() -> None:
    assert secret_comments(["HF_TOKEN"]) == ("# needs HF_TOKEN in the environment",)
