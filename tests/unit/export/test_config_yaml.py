from __future__ import annotations

import dataclasses
import json

import pytest
import yaml
from hypothesis import given

from tests.support.engine_configs import PLAIN_PROVENANCE, launch_commands
from tests.support.unhurried import UNHURRIED
from tuner.domain.argv import from_argv
from tuner.domain.engine_config import EngineConfig, FlagValue, LaunchCommand
from tuner.errors import InvalidCommandError
from tuner.export.forms import parse, parse_with_notes, render
from tuner.export.provenance import Provenance

OLD = dataclasses.replace(PLAIN_PROVENANCE, vllm_version="0.27.0")
UNCHUNKED = LaunchCommand("m", EngineConfig.of({"enable-chunked-prefill": False}))


def arguments_that_vllm_makes(text: str, *, reads_false: bool) -> list[str]:
    """vLLM's reading of a configuration file, told again after its source (0.27 and 0.33)."""
    arguments: list[str] = []
    for key, value in yaml.safe_load(text).items():
        if value is True:
            arguments.append(f"--{key}")
        elif value is False:
            arguments += [f"--no-{key}"] if reads_false else []
        elif isinstance(value, list):
            arguments += [f"--{key}", *map(str, value)]
        elif isinstance(value, dict):
            arguments += [f"--{key}", json.dumps(value)]
        else:
            arguments += [f"--{key}", str(value)]
    return arguments


@pytest.mark.parametrize("provenance", [OLD, PLAIN_PROVENANCE], ids=["before 0.28", "since 0.28"])
@UNHURRIED
@given(command=launch_commands())
def test_vllm_reads_what_was_meant(provenance: Provenance, command: LaunchCommand) -> None:
    try:
        text = render("config-yaml", command, provenance)
    except InvalidCommandError:
        return  # whether it had to be refused, test_forms asks
    arguments = arguments_that_vllm_makes(text, reads_false=provenance is not OLD)
    assert arguments[:2] == ["--model", command.model]
    assert from_argv(arguments[2:]) == command.config


@pytest.mark.parametrize(
    ("version", "line"),
    [
        ("0.33.0", "enable-chunked-prefill: false"),
        ("0.28.0", "enable-chunked-prefill: false"),
        ("0.27.1", "no-enable-chunked-prefill: true"),
        ("0.8.5", "no-enable-chunked-prefill: true"),
        ("main", "no-enable-chunked-prefill: true"),
        (None, "no-enable-chunked-prefill: true"),
    ],
)
def test_false_is_spelled_as_the_version_reads_it(version: str | None, line: str) -> None:
    text = render(
        "config-yaml", UNCHUNKED, dataclasses.replace(PLAIN_PROVENANCE, vllm_version=version)
    )
    assert text.splitlines()[-1] == line
    assert parse(text) == UNCHUNKED


def test_a_false_of_a_flag_nobody_knows_is_written_as_its_negation() -> None:
    command = LaunchCommand("m", EngineConfig.of({"x-plug-in": False}))
    assert "no-x-plug-in: true" in render("config-yaml", command, PLAIN_PROVENANCE)


def test_the_comment_shows_how_to_start_it_with_a_space_before_the_file() -> None:
    command = LaunchCommand("a b", EngineConfig(), (("HF_HOME", "x y"), ("NCCL_DEBUG", "INFO")))
    text = render("config-yaml", command, PLAIN_PROVENANCE)
    assert "# run: HF_HOME='x y' NCCL_DEBUG=INFO vllm serve 'a b' --config vllm.yaml\n" in text
    assert parse(text) == command


def test_variables_that_a_comment_cannot_carry_are_refused() -> None:
    command = LaunchCommand("m", EngineConfig(), (("HF_HOME", "a\nb"),))
    with pytest.raises(InvalidCommandError, match="HF_HOME"):
        render("config-yaml", command, PLAIN_PROVENANCE)


def test_several_values_are_a_list_and_need_a_version_that_reads_lists() -> None:
    command = LaunchCommand("m", EngineConfig.of({"served-model-name": "a 'b c'"}))
    text = render("config-yaml", command, PLAIN_PROVENANCE)
    assert yaml.safe_load(text)["served-model-name"] == ["a", "b c"]
    old = dataclasses.replace(PLAIN_PROVENANCE, vllm_version="0.10.1")
    with pytest.raises(InvalidCommandError, match="lists since"):
        render("config-yaml", command, old)


@pytest.mark.parametrize("value", ["--max-num-seqs", "-x", "-"])
def test_a_value_that_looks_like_an_option_is_refused(value: str) -> None:
    command = LaunchCommand("m", EngineConfig.of({"revision": value}))
    with pytest.raises(InvalidCommandError, match="for an option"):
        render("config-yaml", command, PLAIN_PROVENANCE)


def test_a_negative_number_is_none_of_these() -> None:
    command = LaunchCommand("m", EngineConfig.of({"max-model-len": -1}))
    assert parse(render("config-yaml", command, PLAIN_PROVENANCE)) == command


# Files as people write them


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        ("model: m\nmax-num-seqs: 64\n", {"max-num-seqs": 64}),
        ("model: m\nmax_num_seqs: 64\n", {"max-num-seqs": 64}),
        ("# a comment\n\nmodel: m\n", {}),
        ("---\nmodel: m\n", {}),
        ('"model": m\nseed: 1\n', {"seed": 1}),
        ("model: m\nmax-num-batched-tokens: 8k\n", {"max-num-batched-tokens": 8000}),
        ("model: m\ngpu-memory-utilization: 1\n", {"gpu-memory-utilization": 1.0}),
        ("model: m\nserved-model-name: [a, b]\n", {"served-model-name": "a b"}),
        ("model: m\nrevision: 123\n", {"revision": "123"}),
        ("model: m\nenable-chunked-prefill: false\n", {"enable-chunked-prefill": False}),
        ("model: m\nno-enable-chunked-prefill: true\n", {"enable-chunked-prefill": False}),
        ("model: m\ncompilation-config: {mode: 3}\n", {"compilation-config": '{"mode": 3}'}),
    ],
)
def test_files_from_the_wild_are_understood(text: str, flags: dict[str, FlagValue]) -> None:
    parsed = parse_with_notes(text)
    assert parsed.form == "config-yaml"
    assert parsed.command.model == "m"
    assert parsed.command.config.as_dict() == flags


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("model: m\nenable-chunked-prefill: false", "dropped by vLLM before 0.28"),
        ("model: m\nno-async-scheduling: false", "says nothing to vLLM"),
        ("model: m\nseed:", "seed has no value"),
        ("model: m\napi-key: sk-1", "the value of --api-key is a secret and was not kept"),
        ("model: m\nport: 80", "--port is not for a study to set"),
        ("model: m\nfoo: 1", "--foo is not a flag that ServeTune knows"),
    ],
)
def test_what_is_not_taken_over_is_remarked(text: str, note: str) -> None:
    parsed = parse_with_notes(text)
    assert any(note in remark for remark in parsed.notes)
    assert "sk-1" not in repr(parsed)


@pytest.mark.parametrize(
    ("text", "message", "where"),
    [
        ("seed: 1", "the command names no model", "seed"),
        ("model: m\nmax-num-seqs: many", "'many' is not an integer", "max-num-seqs"),
        ("model: m\n1: 2", "1 is not the name of a flag", None),
        ("model: m\n- 1", "not YAML", "line 2, column 1"),
        ("model: {id: m}\nengine: {kind: vllm}", "expected the model's name", "model"),
        ("model: m\n---\nmodel: n", "expected one mapping", None),
    ],
)
def test_what_is_no_configuration_is_refused(text: str, message: str, where: str | None) -> None:
    with pytest.raises(InvalidCommandError) as caught:
        parse(text)
    assert message in caught.value.message
    assert caught.value.where == where


def test_a_comment_that_is_no_command_is_only_a_comment() -> None:
    assert parse("# run: it's fine\nmodel: m\n") == LaunchCommand("m", EngineConfig())
