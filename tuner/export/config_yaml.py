"""The form `config-yaml`: the file that `vllm serve MODEL --config FILE` reads.

vLLM turns each key into `--key` and the value into one more argument, so a value that looks like
an option cannot stand in this file, and neither can environment variables: those are in the
comment that shows how to start the server.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping

from tuner.domain.engine_config import FlagValue, LaunchCommand
from tuner.domain.flag_catalogue import FlagType, flag, version_tuple
from tuner.domain.flag_values import split_words, value_text
from tuner.errors import InvalidCommandError
from tuner.export.launch_words import Launch, assignments_in
from tuner.export.layout import Exportable, assignments, exportable, secret_comments
from tuner.export.provenance import Provenance
from tuner.export.shell_words import Word, split_commands
from tuner.export.yaml_text import write_yaml

FILE_NAME = "vllm.yaml"
_RUN = "# run: "
_READS_FALSE = (0, 28, 0)
"""Before this version `flag: false` is dropped without a word."""
_READS_LISTS = (0, 10, 2)
_KEY = re.compile(r"[A-Za-z0-9][\w.-]*", re.ASCII)
_NEGATIVE_NUMBER = re.compile(r"-\d+|-\d*\.\d+", re.ASCII)
"""What argparse does not take for an option although it starts with a dash."""


def render(command: LaunchCommand, provenance: Provenance) -> str:
    """How to start it, then the file; InvalidCommandError for what such a file cannot hold."""
    parts = exportable(command)
    version = version_tuple(provenance.target_version or "")
    values: dict[str, object] = {"model": parts.model}
    for name, value in parts.config.flags:
        key, entry = _entry(name, value, version)
        values[key] = entry
    return "\n".join((*secret_comments(parts.secrets), _run_line(parts), write_yaml([values])))


def _run_line(parts: Exportable) -> str:
    """One comment line; a space before the file: vLLM takes `--config=FILE` and ignores it."""
    for name, value in parts.variables:
        if not value.isprintable():
            raise InvalidCommandError(f"a comment cannot carry the value of {name}")
    model = [parts.model] if parts.model.isprintable() else []
    command = shlex.join(["vllm", "serve", *model, "--config", FILE_NAME])
    variables = assignments(parts.variables)
    return _RUN + (f"{variables} {command}" if variables else command)


def _entry(name: str, value: FlagValue, version: tuple[int, int, int] | None) -> tuple[str, object]:
    info = flag(name)
    if value is False:
        reads_false = version is not None and version >= _READS_FALSE and info is not None
        return (name, False) if reads_false else (f"no-{name}", True)
    if value is True:
        return name, True
    words = [value_text(value)]
    if info is not None and info.type is FlagType.WORDS:
        words = list(split_words(words[0]))
        value = words[0]
    for word in words:
        if word.startswith("-") and _NEGATIVE_NUMBER.fullmatch(word) is None:
            raise InvalidCommandError(f"{name}: vLLM would take the value {word!r} for an option")
    if len(words) == 1:
        return name, value
    if version is not None and version < _READS_LISTS:
        raise InvalidCommandError(f"{name}: a configuration file holds lists since vLLM 0.10.2")
    return name, words


def read(document: Mapping[object, object], text: str) -> Launch:
    """The launch that vLLM makes of such a file, with remarks on what it does not read."""
    launch = Launch("config-yaml", (), variables=_variables(text))
    words: list[Word] = []
    for key, value in document.items():
        if not isinstance(key, str) or _KEY.fullmatch(key) is None:
            raise InvalidCommandError(f"{key!r} is not the name of a flag")
        if key == "model" and not isinstance(value, str):
            hint = "a study document is not a launch command: give it as the study"
            raise InvalidCommandError("expected the model's name", hint=hint, where=key)
        words += [Word(word, key=key) for word in _arguments(key, value, launch.notes)]
    launch.words = tuple(words)
    return launch


def _arguments(key: str, value: object, notes: list[str]) -> list[str]:
    if value is None:
        notes.append(f"{key} has no value and was left out")
        return []
    if value is True:
        return [f"--{key}"]
    if value is False:
        if key.startswith("no-"):
            notes.append(f"{key}: false says nothing to vLLM and was left out")
            return []
        notes.append(f"{key}: false is dropped by vLLM before 0.28: write no-{key}: true")
        return [f"--no-{key}"]
    if isinstance(value, list):
        return [f"--{key}", *(str(item) for item in value)] if value else []
    if isinstance(value, Mapping):
        try:
            value = json.dumps(value)
        except (TypeError, ValueError) as error:
            raise InvalidCommandError(f"not JSON: {error}", where=key) from None
    return [f"--{key}={value}"]


def _variables(text: str) -> list[tuple[str, str | None]]:
    """The variables in the comment that says how to start the server."""
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        if line.startswith(_RUN):
            return _leading_variables(line.removeprefix(_RUN))
    return []


def _leading_variables(shell: str) -> list[tuple[str, str | None]]:
    try:
        commands = split_commands(shell).commands
    except InvalidCommandError:
        return []  # a comment is allowed to be anything
    found: list[tuple[str, str | None]] = []
    for word in commands[0] if commands else ():
        assignment = assignments_in((word,))
        if not assignment:
            break
        found += assignment
    return found
