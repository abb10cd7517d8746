from __future__ import annotations

import dataclasses
import json
from importlib import resources
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from jsonschema import Draft7Validator  # type: ignore[import-untyped]

from tests.support.engine_configs import PLAIN_PROVENANCE, launch_commands, provenances
from tests.support.unhurried import UNHURRIED
from tuner.domain.argv import to_argv
from tuner.domain.engine_config import EngineConfig, LaunchCommand
from tuner.errors import InvalidCommandError
from tuner.export.forms import parse, parse_with_notes, render
from tuner.export.provenance import Provenance

COMMAND = LaunchCommand(
    "Qwen/Qwen2.5-7B-Instruct", EngineConfig.of({"max-num-seqs": 96}), (("HF_HUB_OFFLINE", "1"),)
)


def schema() -> Draft7Validator:
    """The Compose Specification's own schema, as check-jsonschema ships it."""
    folder = resources.files("check_jsonschema") / "builtin_schemas" / "vendor"
    return Draft7Validator(json.loads((folder / "compose-spec.json").read_text("utf-8")))


SCHEMA = schema()


def service_of(command: LaunchCommand, provenance: Provenance = PLAIN_PROVENANCE) -> Any:
    document = yaml.safe_load(render("compose", command, provenance))
    return document["services"]["vllm"]


def test_the_schema_refuses_what_is_no_compose_file() -> None:
    assert list(SCHEMA.iter_errors({"services": {"a": {"image": 1, "imagge": "x"}}}))


@settings(UNHURRIED, max_examples=40)
@given(command=launch_commands(), provenance=provenances())
def test_every_file_satisfies_the_specification(
    command: LaunchCommand, provenance: Provenance
) -> None:
    try:
        text = render("compose", command, provenance)
    except InvalidCommandError:
        return
    assert [error.message for error in SCHEMA.iter_errors(yaml.safe_load(text))] == []


@settings(UNHURRIED, max_examples=60)
@given(command=launch_commands())
def test_the_container_gets_exactly_the_arguments(command: LaunchCommand) -> None:
    try:
        service = service_of(command)
    except InvalidCommandError:
        return
    given_words = [word.replace("$$", "\0").replace("\0", "$") for word in service["command"]]
    assert service["entrypoint"] == ["vllm"]
    assert given_words == ["serve", command.model, *to_argv(command.config)]
    assert all("$" not in word.replace("$$", "") for word in service["command"])


def test_the_surroundings_are_those_of_a_gpu_server() -> None:
    service = service_of(COMMAND)
    assert service["image"] == "vllm/vllm-openai:v0.33.0"
    assert service["ipc"] == "host"
    assert service["ports"] == ["8000:8000"]
    (device,) = service["deploy"]["resources"]["reservations"]["devices"]
    assert device == {"driver": "nvidia", "count": 1, "capabilities": ["gpu"]}
    assert service["healthcheck"]["test"][:3] == ["CMD", "python3", "-c"]
    assert "http://127.0.0.1:8000/health" in service["healthcheck"]["test"][3]
    assert service["healthcheck"]["start_period"] == "1800s"
    (volume,) = service["volumes"]
    assert volume["target"] == "/root/.cache/huggingface"


def test_the_health_check_follows_the_port_and_is_python() -> None:
    config = EngineConfig.of({"port": 9000})
    service = service_of(dataclasses.replace(COMMAND, config=config))
    assert service["ports"] == ["9000:9000"]
    code = service["healthcheck"]["test"][3]
    assert ":9000/health" in code
    compile(code, "health check", "exec")


def test_secrets_are_passed_on_by_name() -> None:
    command = dataclasses.replace(COMMAND, env=(("HF_TOKEN", "hf-secret"), ("MY_PASSWORD", "pw")))
    environment = service_of(command)["environment"]
    assert environment == {"HF_TOKEN": None, "MY_PASSWORD": None}


def test_the_gpus_are_the_measured_ones_or_what_the_parallel_sizes_need() -> None:
    def count(provenance: Provenance, **sizes: int) -> int:
        flags = {f"{name.replace('_', '-')}-parallel-size": n for name, n in sizes.items()}
        command = dataclasses.replace(COMMAND, config=EngineConfig.of(flags))
        service = service_of(command, provenance)
        devices: list[dict[str, int]] = service["deploy"]["resources"]["reservations"]["devices"]
        return devices[0]["count"]

    unknown = dataclasses.replace(PLAIN_PROVENANCE, gpu=None, gpu_count=None)
    assert count(unknown) == 1
    assert count(unknown, tensor=4, pipeline=2) == 8
    assert count(dataclasses.replace(PLAIN_PROVENANCE, gpu_count=2), tensor=2) == 2


def test_a_local_model_is_mounted_and_never_created() -> None:
    command = dataclasses.replace(COMMAND, model="/models/$a b:c\nd")
    text = render("compose", command, PLAIN_PROVENANCE)
    document = yaml.safe_load(text)
    (volume,) = document["services"]["vllm"]["volumes"]
    assert volume["source"] == volume["target"] == "/models/$$a b:c\nd"
    assert volume["read_only"] is True
    assert volume["bind"] == {"create_host_path": False}
    assert "volumes" not in document
    assert parse(text) == command


@pytest.mark.parametrize("port", [0, -1, 65536])
def test_a_port_that_cannot_be_published_is_refused(port: int) -> None:
    config = EngineConfig.of({"port": port})
    with pytest.raises(InvalidCommandError, match="is not a port"):
        render("compose", dataclasses.replace(COMMAND, config=config), PLAIN_PROVENANCE)


# Files as people write them

WILD = """\
version: "3.8"
x-common: &common
  restart: always
services:
  proxy:
    image: nginx
    command: ["nginx", "-g", "daemon off;"]
  llm:
    <<: *common
    image: vllm/vllm-openai:v0.9.1
    command: >
      --model Qwen/Qwen3-8B --max-num-seqs 64
      --served-model-name 'a b'
    environment:
      - HF_TOKEN=hf_abc
      - NCCL_DEBUG
      - VLLM_LOGGING_LEVEL=$$DEBUG
      - HF_HOME=${CACHE}
      - LD_PRELOAD=/x.so
    env_file: .env
"""


def test_a_file_from_the_wild_is_understood_and_remarked() -> None:
    parsed = parse_with_notes(WILD)
    assert parsed.form == "compose"
    assert parsed.image == "vllm/vllm-openai:v0.9.1"
    assert parsed.executable is None
    assert parsed.command.model == "Qwen/Qwen3-8B"
    assert parsed.command.config.as_dict() == {"max-num-seqs": 64, "served-model-name": "'a b'"}
    assert dict(parsed.command.env) == {"VLLM_LOGGING_LEVEL": "$DEBUG", "HF_HOME": "${CACHE}"}
    assert parsed.secrets == ("HF_TOKEN",)
    assert "hf_abc" not in repr(parsed)
    notes = "\n".join(parsed.notes)
    for note in (
        "the value of HF_TOKEN is a secret",
        "NCCL_DEBUG is passed on from the caller's",
        "LD_PRELOAD is not allowed",
        "the variables in env_file were not read",
        "${CACHE} is kept as text",
    ):
        assert note in notes


@pytest.mark.parametrize(
    ("service", "model"),
    [
        ("{image: img, entrypoint: vllm, command: serve m}", "m"),
        ("{image: img, command: [vllm, serve, m]}", "m"),
        ("{image: img, entrypoint: [/bin/sh, -c], command: ['exec vllm serve m']}", "m"),
        ("{image: my/vllm, command: [m]}", "m"),
        ("{image: 'vllm/vllm-openai', command: [--model, m, --seed, 1]}", "m"),
    ],
)
def test_services_start_vllm_in_many_ways(service: str, model: str) -> None:
    assert parse(f"services:\n  a: {service}\n").model == model


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("services: {}", "nothing here starts vLLM"),
        ("services: {a: {image: nginx}}", "nothing here starts vLLM (services.a)"),
        ("services: [a]", "expected a mapping"),
        ("services: {a: {image: vllm, command: {x: 1}}}", "expected a list of texts"),
        ('services: {a: {image: vllm, command: "\'m"}}', "no closing quotation"),
        (
            "services: {a: {image: vllm, command: [m]}, b: {image: vllm, command: [n]}}",
            "more than one launch command",
        ),
        ("services: {a: {image: vllm, command: ['${MODEL}']}}", "the model is the shell variable"),
        ("services: {a: {image: vllm, entrypoint: [sleep], command: ['1']}}", "does not start"),
    ],
)
def test_other_files_are_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidCommandError) as caught:
        parse(text)
    assert message in caught.value.message
