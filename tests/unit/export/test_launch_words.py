from __future__ import annotations

import pytest

from tuner.errors import InvalidCommandError
from tuner.export.launch_words import Launch, assignments_in, find_launch
from tuner.export.shell_words import split_commands


def find(text: str) -> Launch | None:
    (command,) = split_commands(text).commands
    return find_launch(command)


def found(text: str) -> Launch:
    launch = find(text)
    assert launch is not None
    return launch


@pytest.mark.parametrize(
    ("text", "form", "words"),
    [
        ("vllm serve m --seed 1", "vllm", ["m", "--seed", "1"]),
        ("A=1 B=2 vllm serve m", "vllm", ["m"]),
        ("stdbuf -o L vllm serve m", "vllm", ["m"]),
        ("env -u PYTHONPATH A=1 vllm serve m", "vllm", ["m"]),
        ("poetry run vllm serve m", "vllm", ["m"]),
        ("python -m vllm serve m", "vllm", ["m"]),
        ("python -m vllm.entrypoints.openai.api_server --model m", "python-module", None),
        ("docker run img --model m", "docker", ["--model", "m"]),
        ("docker run img serve m", "docker", ["m"]),
        ("docker run --entrypoint vllm img serve m --seed 1", "docker", ["m", "--seed", "1"]),
    ],
)
def test_the_servers_own_words_are_found(text: str, form: str, words: list[str] | None) -> None:
    launch = found(text)
    assert launch.form == form
    assert [word.text for word in launch.words] == (words or ["--model", "m"])


@pytest.mark.parametrize(
    "text",
    [
        "A=1",
        "sudo",
        "ls -l",
        "docker build .",
        "docker",
        "python script.py",
        "python -c 'import vllm'",
        "bash -c 'ls'",
        "bash -c",
        "bash -c \"bash -c 'vllm serve m'\"",
    ],
)
def test_commands_that_start_something_else_are_none(text: str) -> None:
    assert find(text) is None


def test_variables_are_collected_from_outside_in() -> None:
    launch = found("A=1 sudo B=2 env C=3 bash -c 'D=4 vllm serve m'")
    assert launch.variables == [("A", "1"), ("B", "2"), ("C", "3"), ("D", "4")]


def test_a_containers_variables_are_its_own_and_those_of_its_shell() -> None:
    launch = found("A=1 docker run -e B=2 -e C --entrypoint sh img -c 'D=4 vllm serve m'")
    assert launch.variables == [("B", "2"), ("C", None), ("D", "4")]
    assert launch.notes == ["A does not reach the container"]
    assert launch.image == "img"


def test_places_inside_a_container_are_those_of_the_text() -> None:
    launch = found("docker run \\\n  img --model m")
    assert [word.place for word in launch.words] == ["line 2, column 7", "line 2, column 15"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("vllm chat m", "vllm chat starts no server"),
        ("python -m vllm.entrypoints.cli.main bench", "vllm bench starts no server"),
        ("python -m vllm.entrypoints.grpc", "is not vLLM's OpenAI-compatible server"),
        ("docker run --entrypoint sleep img 10", "does not start vLLM"),
        ("docker run img vllm bench", "vllm bench starts no server"),
    ],
)
def test_other_programs_of_vllm_are_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidCommandError) as caught:
        find(text)
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("text", "variables"),
    [
        ("A=1", [("A", "1")]),
        ("A=1 B='x y'", [("A", "1"), ("B", "x y")]),
        ("export A=1 B=", [("A", "1"), ("B", "")]),
        ("export A", []),
        ("ls", []),
        ("A=1 ls", []),
    ],
)
def test_commands_that_only_set_variables_are_recognised(
    text: str, variables: list[tuple[str, str | None]]
) -> None:
    (command,) = split_commands(text).commands
    assert assignments_in(command) == variables
