from __future__ import annotations

import pytest

from tuner.errors import InvalidCommandError
from tuner.export.docker_run import DockerRun, read_docker_run
from tuner.export.shell_words import split_commands


def read(text: str) -> DockerRun:
    (command,) = split_commands(text).commands
    return read_docker_run(command)


@pytest.mark.parametrize(
    ("text", "image", "arguments"),
    [
        ("img", "img", []),
        ("img --model m", "img", ["--model", "m"]),
        ("--rm img", "img", []),
        ("--rm -it img serve m", "img", ["serve", "m"]),
        ("-itd --name x img", "img", []),
        ("--gpus all img", "img", []),
        ("--gpus=all img", "img", []),
        ("--runtime nvidia --gpus all --ipc=host img -x", "img", ["-x"]),
        ("-p 8000:8000 img", "img", []),
        ("-p8000:8000 img", "img", []),
        ("-dp 8000:8000 img", "img", []),
        ("-v ~/.cache:/root/.cache img", "img", []),
        ("--mount type=bind,source=/m,target=/m img", "img", []),
        ("--shm-size 16g --ulimit memlock=-1 img", "img", []),
        ("--privileged --init --read-only img", "img", []),
        ("--restart unless-stopped --network host img", "img", []),
        ("-u 1000:1000 -w /x -h name img", "img", []),
        ("--rm -- img -e X=1", "img", ["-e", "X=1"]),
        (
            "host:5000/vllm/vllm-openai:v0.33.0@sha256:ab m",
            "host:5000/vllm/vllm-openai:v0.33.0@sha256:ab",
            ["m"],
        ),
    ],
)
def test_the_image_is_found_behind_every_option(
    text: str, image: str, arguments: list[str]
) -> None:
    run = read(text)
    assert run.image.text == image
    assert [word.text for word in run.arguments] == arguments


@pytest.mark.parametrize(
    ("text", "variables"),
    [
        ("-e A=1 img", [("A", "1")]),
        ("-eA=1 img", [("A", "1")]),
        ("-e=A=1 img", [("A", "1")]),
        ("--env A=1 --env=B=2 img", [("A", "1"), ("B", "2")]),
        ("--env A img", [("A", None)]),
        ("--env A= img", [("A", "")]),
        ("-e 'A=x y=z' img", [("A", "x y=z")]),
        ("-ite A=1 img", [("A", "1")]),
        ("img -e A=1", []),
    ],
)
def test_variables_are_read(text: str, variables: list[tuple[str, str | None]]) -> None:
    assert read(text).variables == variables


@pytest.mark.parametrize(
    ("text", "entrypoint"),
    [
        ("--entrypoint vllm img", "vllm"),
        ("--entrypoint=/bin/bash img", "/bin/bash"),
        ("--entrypoint '' img", ""),
        ("img --entrypoint vllm", None),
    ],
)
def test_the_entrypoint_is_read(text: str, entrypoint: str | None) -> None:
    assert read(text).entrypoint == entrypoint


def test_a_file_of_variables_is_not_read_and_said_so() -> None:
    assert read("--env-file .env img").notes == [
        "line 1, column 1: the variables in .env were not read"
    ]


@pytest.mark.parametrize("text", ["--rm", "-it --gpus all", "--name"])
def test_a_run_without_an_image_is_refused(text: str) -> None:
    with pytest.raises(InvalidCommandError, match=r"without an image|expects a value") as caught:
        read(text)
    assert caught.value.where is not None


def test_nothing_at_all_is_refused() -> None:
    with pytest.raises(InvalidCommandError, match="without an image"):
        read_docker_run([])
