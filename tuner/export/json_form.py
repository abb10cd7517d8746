"""The form `json`: the command's parts for programs, with the argv as a list."""

from __future__ import annotations

import json
from collections.abc import Mapping

from tuner.domain.argv import to_argv
from tuner.domain.engine_config import EngineConfig, FlagValue, LaunchCommand
from tuner.errors import InvalidCommandError
from tuner.export.launch_words import Launch, find_launch
from tuner.export.layout import exportable
from tuner.export.provenance import SIMULATED, Provenance, record
from tuner.export.shell_words import Word


def render(command: LaunchCommand, provenance: Provenance) -> str:
    """One JSON object; `secrets` are names only."""
    parts = exportable(command)
    document: dict[str, object] = {"warning": SIMULATED} if provenance.simulated else {}
    document |= {
        "model": parts.model,
        "flags": parts.config.as_dict(),
        "env": dict(parts.variables),
        "secrets": list(parts.secrets),
        "argv": ["vllm", *parts.arguments],
        "provenance": record(provenance),
    }
    return json.dumps(document, indent=2, allow_nan=False)


def is_launch(document: object) -> bool:
    """Whether a JSON document is of this form."""
    return isinstance(document, Mapping) and ("argv" in document or "flags" in document)


def read(document: Mapping[str, object]) -> Launch:
    """The launch in such an object: by `flags` where there are some, else by `argv`."""
    flags, argv = document.get("flags"), document.get("argv")
    launch = _from_flags(document.get("model"), flags) if flags is not None else _from_argv(argv)
    if flags is not None and argv is not None and not _agree(launch, argv):
        launch.notes.append("argv and flags differ: the flags were taken")
    launch.form = "json"
    launch.variables = _variables(document.get("env"))
    return launch


def _from_flags(model: object, flags: object) -> Launch:
    if not isinstance(flags, Mapping) or not all(_is_flag(k, v) for k, v in flags.items()):
        message = "expected a mapping of names to true, false, numbers or text"
        raise InvalidCommandError(message, where="flags")
    values: dict[str, FlagValue] = dict(flags)
    if model is not None:
        if not isinstance(model, str):
            raise InvalidCommandError("expected text", where="model")
        values["model"] = model
    try:
        words = to_argv(EngineConfig.of(values))
    except ValueError as error:
        raise InvalidCommandError(str(error), where="flags") from None
    return Launch("json", tuple(Word(word, key="flags") for word in words))


def _is_flag(name: object, value: object) -> bool:
    return isinstance(name, str) and isinstance(value, bool | int | float | str)


def _from_argv(argv: object) -> Launch:
    if not isinstance(argv, list) or not all(isinstance(word, str) for word in argv):
        raise InvalidCommandError("expected a list of texts", where="argv")
    launch = find_launch([Word(word, key=f"argv[{n}]") for n, word in enumerate(argv)])
    if launch is None:
        raise InvalidCommandError("this does not start vLLM", where="argv")
    return launch


def _agree(launch: Launch, argv: object) -> bool:
    """Whether both start the same: the model is positional in one and a flag in the other."""
    if not isinstance(argv, list):
        return False
    by_flags = [word.text for word in launch.words]
    for index, word in enumerate(by_flags):
        if word == "--model":
            by_flags[:] = [by_flags[index + 1], *by_flags[:index], *by_flags[index + 2 :]]
            break
    return argv[:2] == ["vllm", "serve"] and argv[2:] == by_flags


def _variables(env: object) -> list[tuple[str, str | None]]:
    if env is None:
        return []
    if not isinstance(env, Mapping):
        raise InvalidCommandError("expected a mapping of names to text", where="env")
    found: list[tuple[str, str | None]] = []
    for name, value in env.items():
        if not (value is None or isinstance(value, str)):
            raise InvalidCommandError("expected text", where=f"env.{name}")
        found.append((str(name), value))
    return found
