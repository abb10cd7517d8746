"""Finding the engine's launch among the words of a command: prefixes, interpreters, containers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from tuner.errors import InvalidCommandError
from tuner.export.docker_run import read_docker_run
from tuner.export.python_module import MODULE
from tuner.export.shell_words import Word, split_commands

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.ASCII | re.DOTALL)
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*")
_CONTAINER_TOOLS = frozenset({"docker", "podman", "nerdctl"})
_SHELLS = frozenset({"sh", "bash", "zsh", "dash"})
_PREFIX_OPTIONS_WITH_VALUE: Mapping[str, frozenset[str]] = {
    "sudo": frozenset({"-u", "-g", "-C", "-h", "-p"}),
    "env": frozenset({"-u", "-C", "--unset", "--chdir"}),
    "nice": frozenset({"-n", "--adjustment"}),
    "numactl": frozenset({"-C", "-N", "-m", "-p", "-i"}),
    "stdbuf": frozenset({"-i", "-o", "-e"}),
    "exec": frozenset({"-a"}),
    "nohup": frozenset(),
    "time": frozenset(),
    "command": frozenset(),
    "setsid": frozenset(),
}
"""Programs that only start another one, and their options that take a word of their own."""
_RUNNERS = frozenset({"uv", "poetry", "pixi", "pdm", "hatch"})
_INTERPRETER_OPTIONS_WITH_VALUE = frozenset({"-X", "-W"})


@dataclass(slots=True)
class Launch:
    """One launch of the engine: the form, the words after its head, variables and remarks.

    `words` are the arguments of the server; a variable's value is None when it is passed on by
    reference. `executable` is vLLM's command as it was named, None in a container.
    """

    form: str
    words: tuple[Word, ...]
    variables: list[tuple[str, str | None]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    image: str | None = None
    executable: str | None = None


def find_launch(words: Sequence[Word], depth: int = 0) -> Launch | None:
    """The launch in one simple command, or None when the command starts something else.

    Raises InvalidCommandError when it starts vLLM, but not its server.
    """
    variables, rest = _without_prefixes(words)
    if not rest:
        return None
    program = PurePosixPath(rest[0].text).name
    launch: Launch | None = None
    if program == "vllm":
        launch = _vllm(rest)
    elif _PYTHON.fullmatch(program):
        launch = _python(rest)
    elif program in _CONTAINER_TOOLS:
        return _container(program, rest, variables)
    elif program in _SHELLS and depth == 0:
        launch = _shell(rest, depth)
    if launch is not None:
        launch.variables[:0] = variables
    return launch


def assignments_in(words: Sequence[Word]) -> list[tuple[str, str | None]]:
    """The variables of a command that only sets some: `A=1`, `export A=1 B=2`; else none."""
    if words and words[0].text in ("export", "set", "declare"):
        words = words[1:]
    matches = [_ASSIGNMENT.fullmatch(word.text) for word in words]
    if not all(matches):
        return []
    return [(match[1], match[2]) for match in matches if match]


def _without_prefixes(
    words: Sequence[Word],
) -> tuple[list[tuple[str, str | None]], tuple[Word, ...]]:
    """Leading assignments, and the words from the program that really runs."""
    variables: list[tuple[str, str | None]] = []
    at = 0
    while at < len(words):
        text = words[at].text
        match = _ASSIGNMENT.fullmatch(text)
        if match:
            variables.append((match[1], match[2]))
            at += 1
        elif text in ("$", "%") and at == 0:
            at += 1
        elif PurePosixPath(text).name in _PREFIX_OPTIONS_WITH_VALUE:
            prefix = PurePosixPath(text).name
            at = _after_options(words, at + 1, _PREFIX_OPTIONS_WITH_VALUE[prefix])
        elif text in _RUNNERS and at + 1 < len(words) and words[at + 1].text == "run":
            at = _after_runner(words, at + 2)
        else:
            break
    return variables, tuple(words[at:])


def _after_options(words: Sequence[Word], at: int, with_value: frozenset[str]) -> int:
    while at < len(words) and words[at].text.startswith("-"):
        at += 2 if words[at].text in with_value else 1
    return at


def _after_runner(words: Sequence[Word], at: int) -> int:
    """`uv run --with X vllm`: skip to the program, whatever options stand before it."""
    for index in range(at, len(words)):
        name = PurePosixPath(words[index].text).name
        if name == "vllm" and words[index + 1 : index + 2] and words[index + 1].text == "serve":
            return index
        if _PYTHON.fullmatch(name):
            return index
    return at


def _vllm(words: Sequence[Word]) -> Launch:
    if len(words) < 2 or words[1].text != "serve":
        what = f"vllm {words[1].text}" if len(words) > 1 else "vllm alone"
        raise InvalidCommandError(
            f"{what} starts no server", hint="give a `vllm serve` command", where=words[0].place
        )
    program = words[0].text
    is_command = PurePosixPath(program).name == "vllm"
    executable = program if is_command else None
    return Launch("vllm", tuple(words[2:]), executable=executable)


def _python(words: Sequence[Word]) -> Launch | None:
    at = 1
    while at < len(words) and words[at].text.startswith("-") and words[at].text != "-m":
        at += 2 if words[at].text in _INTERPRETER_OPTIONS_WITH_VALUE else 1
    if at + 1 >= len(words) or words[at].text != "-m":
        return None
    module = words[at + 1]
    if module.text == MODULE:
        launch = Launch("python-module", tuple(words[at + 2 :]))
        launch.executable = _beside(words[0].text)
        return launch
    if module.text in ("vllm", "vllm.entrypoints.cli.main"):
        launch = _vllm(words[at + 1 :])
        launch.executable = _beside(words[0].text)
        return launch
    if module.text.startswith("vllm."):
        raise InvalidCommandError(
            f"python -m {module.text} is not vLLM's OpenAI-compatible server",
            hint=f"python -m {MODULE}",
            where=module.place,
        )
    return None


def _beside(python: str) -> str:
    """The command `vllm` of the environment that this interpreter belongs to."""
    folder, slash, _ = python.rpartition("/")
    return f"{folder}{slash}vllm"


def _shell(words: Sequence[Word], depth: int) -> Launch | None:
    """`bash -c TEXT`: the text is split, never run."""
    for index, word in enumerate(words[1:-1], start=1):
        if word.text.startswith("-") and word.text.endswith("c"):
            inner = split_commands(words[index + 1].text)
            for command in inner.commands:
                launch = find_launch(command, depth + 1)
                if launch is not None:
                    launch.notes[:0] = inner.notes
                    return launch
    return None


def _container(
    program: str, words: Sequence[Word], outer: list[tuple[str, str | None]]
) -> Launch | None:
    texts = [word.text for word in words[1:3]]
    if texts[:1] == ["run"]:
        run = read_docker_run(words[2:])
    elif texts == ["container", "run"]:
        run = read_docker_run(words[3:])
    else:
        return None
    head = (Word(run.entrypoint, run.image.line, run.image.column),) if run.entrypoint else ()
    launch = launch_in_container(head, run.arguments, run.image.place)
    launch.form = "docker"
    launch.image = run.image.text
    launch.executable = None
    launch.variables = run.variables + launch.variables
    launch.notes += run.notes
    launch.notes += [f"{name} does not reach the container" for name, _ in outer]
    if program != "docker":
        launch.notes.append(f"{program} is read as docker")
    return launch


def launch_in_container(
    entrypoint: tuple[Word, ...], arguments: tuple[Word, ...], place: str
) -> Launch:
    """The launch in a container of vLLM's image: its own entrypoint when none is given.

    `place` is where the image is named. Raises InvalidCommandError for another entrypoint.
    """
    if entrypoint:
        launch = find_launch((*entrypoint, *arguments))
        if launch is None:
            message = f"the entrypoint {entrypoint[0].text!r} does not start vLLM"
            raise InvalidCommandError(message, where=place)
        return launch
    repeated = find_launch(arguments) if _starts_program(arguments) else None
    if repeated is not None:
        note = "newer images start `vllm serve` themselves and refuse a second one"
        repeated.notes.append(f"{place}: {note}; name --entrypoint vllm")
        return repeated
    launch = Launch("docker", arguments)
    if arguments and arguments[0].text == "serve":
        launch.words = arguments[1:]
        launch.notes.append("`serve` without --entrypoint vllm fails in newer images")
    elif arguments and not arguments[0].text.startswith("-"):
        launch.notes.append(
            "images with the older entrypoint ignore a model that is not given by --model "
            "and serve vLLM's default model"
        )
    return launch


def _starts_program(arguments: Sequence[Word]) -> bool:
    if not arguments:
        return False
    name = PurePosixPath(arguments[0].text).name
    return name == "vllm" or name in _SHELLS or _PYTHON.fullmatch(name) is not None
