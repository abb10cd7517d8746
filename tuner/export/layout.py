"""Laying a command out over lines, quoted for a POSIX shell."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tuner.domain.argv import to_options
from tuner.domain.engine_config import EngineConfig, LaunchCommand
from tuner.domain.flag_catalogue import flag, is_secret_environment
from tuner.domain.flag_values import canonical
from tuner.errors import InvalidCommandError

_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Exportable:
    """A command's parts that may be written down; `secrets` are given by reference only.

    `options` is `config` (canonical) as arguments, those of each flag together.
    """

    model: str
    config: EngineConfig
    options: tuple[tuple[str, ...], ...]
    variables: tuple[tuple[str, str], ...]
    secrets: tuple[str, ...]

    @property
    def arguments(self) -> tuple[str, ...]:
        """What follows `vllm`: the same for every form that takes a list."""
        return ("serve", self.model, *(word for option in self.options for word in option))


def exportable(command: LaunchCommand) -> Exportable:
    """Checked parts of a command, secrets taken out.

    Raises InvalidCommandError for what no command line can carry: an empty model or one that reads
    like an option, characters that no process can be given, odd names.
    """
    if not command.model or command.model.startswith("-"):
        raise InvalidCommandError(f"{command.model!r} cannot be given as a model")
    if command.config.get("model") is not None:
        raise InvalidCommandError("the configuration must not name a model of its own")
    for name, value in command.env:
        if _VARIABLE_NAME.fullmatch(name) is None or "\x00" in value:
            raise InvalidCommandError(f"the environment variable {name!r} cannot be exported")
    secret_flags = {name for name, _ in command.config.flags if _is_secret_flag(name)}
    try:
        config = canonical(command.config.without(*secret_flags))
        options = to_options(config)
    except ValueError as error:
        raise InvalidCommandError(str(error)) from None
    if "\x00" in command.model:
        raise InvalidCommandError("the model's name contains a NUL character")
    secrets = [name for name, _ in command.env if is_secret_environment(name)]
    secrets += ["VLLM_API_KEY"] if "api-key" in secret_flags else []
    secrets += ["HF_TOKEN"] if "hf-token" in secret_flags else []
    return Exportable(
        model=command.model,
        config=config,
        options=options,
        variables=tuple((n, v) for n, v in command.env if not is_secret_environment(n)),
        secrets=tuple(dict.fromkeys(secrets)),
    )


def _is_secret_flag(name: str) -> bool:
    info = flag(name)
    return info is not None and info.secret


def on_lines(groups: Iterable[Sequence[str]], *, raw_first: str = "") -> str:
    """The groups of words, quoted, one group per line, joined by continuations.

    `raw_first` goes in front as it is.
    """
    lines = [" ".join(shlex.quote(word) for word in group) for group in groups]
    if raw_first:
        lines.insert(0, raw_first)
    return " \\\n  ".join(lines)


def assignments(variables: Iterable[tuple[str, str]]) -> str:
    """`NAME=value` words for the front of a command."""
    return " ".join(f"{name}={shlex.quote(value)}" for name, value in variables)


def secret_comments(secrets: Iterable[str]) -> tuple[str, ...]:
    """What a reader must provide, because it is never written down."""
    return tuple(f"# needs {name} in the environment" for name in secrets)
