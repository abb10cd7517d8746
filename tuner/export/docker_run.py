"""Reading the options of `docker run`: the image, its arguments, and what concerns the engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tuner.errors import InvalidCommandError
from tuner.export.shell_words import Word

_SHORT_WITHOUT_VALUE = frozenset("ditPq")
_LONG_WITHOUT_VALUE = frozenset(
    {
        "detach",
        "disable-content-trust",
        "init",
        "interactive",
        "no-healthcheck",
        "oom-kill-disable",
        "privileged",
        "publish-all",
        "quiet",
        "read-only",
        "rm",
        "sig-proxy",
        "tty",
        "use-api-socket",
    }
)


@dataclass(slots=True)
class DockerRun:
    """`docker run` taken apart. A variable without a value is passed on by reference (None)."""

    image: Word
    arguments: tuple[Word, ...] = ()
    entrypoint: str | None = None
    variables: list[tuple[str, str | None]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read_docker_run(words: Sequence[Word]) -> DockerRun:
    """The words after `docker run`. Raises InvalidCommandError when no image follows."""
    options: list[tuple[str, str, Word]] = []
    at = 0
    while at < len(words) and words[at].text.startswith("-") and words[at].text != "--":
        at = _read_option(words, at, options)
    if at < len(words) and words[at].text == "--":
        at += 1
    if at >= len(words):
        place = words[-1].place if words else None
        raise InvalidCommandError("docker run without an image", where=place)
    run = DockerRun(image=words[at], arguments=tuple(words[at + 1 :]))
    for name, value, word in options:
        _apply(run, name, value, word)
    return run


def _read_option(words: Sequence[Word], at: int, options: list[tuple[str, str, Word]]) -> int:
    """Append the option at `at` to `options`; returns where the next one starts."""
    word = words[at]
    if word.text.startswith("--"):
        name, equals, value = word.text[2:].partition("=")
        if equals or name in _LONG_WITHOUT_VALUE:
            options.append((name, value, word))
            return at + 1
        options.append((name, _following(words, at), word))
        return at + 2
    for index, letter in enumerate(word.text[1:], start=1):
        if letter in _SHORT_WITHOUT_VALUE:
            continue
        attached = word.text[index + 1 :].removeprefix("=")
        if attached:
            options.append((letter, attached, word))
            return at + 1
        options.append((letter, _following(words, at), word))
        return at + 2
    return at + 1


def _following(words: Sequence[Word], at: int) -> str:
    if at + 1 >= len(words):
        raise InvalidCommandError(f"{words[at].text} expects a value", where=words[at].place)
    return words[at + 1].text


def _apply(run: DockerRun, name: str, value: str, word: Word) -> None:
    if name in ("e", "env"):
        variable, equals, text = value.partition("=")
        run.variables.append((variable, text if equals else None))
    elif name == "entrypoint":
        run.entrypoint = value
    elif name == "env-file":
        run.notes.append(f"{word.place}: the variables in {value} were not read")
