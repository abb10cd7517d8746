"""Between an engine configuration and vLLM's command-line arguments."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from tuner.domain.engine_config import EngineConfig, FlagValue
from tuner.domain.flag_catalogue import FlagInfo, FlagType, flag, resolve
from tuner.domain.flag_values import (
    canonical,
    join_words,
    parse_boolean,
    parse_value,
    split_words,
    value_text,
)
from tuner.errors import InvalidCommandError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*(?:\.[\w.-]+)?", re.ASCII)
_OPTION = re.compile(r"(?:--[A-Za-z0-9]|-[A-Za-z])[\w.-]*(?:=.*)?", re.DOTALL | re.ASCII)


def to_argv(config: EngineConfig) -> tuple[str, ...]:
    """The arguments that give vLLM this configuration, in the order of the flags' names.

    Raises ValueError for a name or value that no command line can carry.
    """
    return tuple(argument for option in to_options(config) for argument in option)


def to_options(config: EngineConfig) -> tuple[tuple[str, ...], ...]:
    """`to_argv` with the arguments of each flag together; raises ValueError like it."""
    return tuple(_option(name, value) for name, value in canonical(config).flags)


def _option(name: str, value: FlagValue) -> tuple[str, ...]:
    if _NAME.fullmatch(name) is None:
        raise ValueError(f"{name!r} is not the name of a flag")
    if isinstance(value, bool):
        return (f"--{name}" if value else f"--no-{name}",)
    text = value_text(value)
    info = flag(name)
    words = split_words(text) if info and info.type is FlagType.WORDS else (text,)
    if len(words) == 1:
        single = words[0]
        return (f"--{name}={single}",) if single.startswith("-") else (f"--{name}", single)
    dashed = [word for word in words if word.startswith("-")]
    if dashed:
        raise ValueError(f"{name}: vLLM would take the value {dashed[0]!r} for an option")
    return (f"--{name}", *words)


def from_argv(args: Sequence[str]) -> EngineConfig:
    """The configuration in vLLM's arguments: the inverse of `to_argv` up to `canonical`.

    Raises InvalidCommandError for a value of the wrong type or an argument that belongs to no flag.
    """
    reading = read_argv(args)
    if reading.positionals:
        raise InvalidCommandError(
            f"{reading.positionals[0]!r} belongs to no flag",
            hint="write --name value or --name=value",
        )
    return reading.config


@dataclass(frozen=True, slots=True)
class ArgvReading:
    """What a list of arguments says: flags, arguments that belong to none, and remarks."""

    config: EngineConfig
    positionals: tuple[str, ...]
    notes: tuple[str, ...]


def read_argv(args: Sequence[str], places: Sequence[str] | None = None) -> ArgvReading:
    """Read arguments as vLLM's parser does, more forgiving where old commands still say something.

    `places` says for each argument where it stands, for messages; by default `argument N`. Raises
    InvalidCommandError for values of the wrong type.
    """
    reader = _Reader(args, places or [f"argument {n}" for n in range(1, len(args) + 1)])
    reader.read()
    return ArgvReading(
        config=EngineConfig.of(reader.flags),
        positionals=tuple(reader.positionals),
        notes=tuple(reader.notes),
    )


class _Reader:
    """One pass over the arguments."""

    def __init__(self, args: Sequence[str], places: Sequence[str]) -> None:
        self._args = tuple(args)
        self._places = tuple(places)
        self._next = 0
        self.flags: dict[str, FlagValue] = {}
        self.positionals: list[str] = []
        self.notes: list[str] = []

    def read(self) -> None:
        while self._next < len(self._args):
            token = self._take()
            if token == "--":  # noqa: S105 - the end of the options, not a password
                self.positionals += self._args[self._next :]
                return
            if token.startswith("-O") and not token.startswith("-O="):
                self._read_optimization(token)
            elif _is_option(token):
                self._read_option(token)
            else:
                self.positionals.append(token)

    def _refuse(self, message: str, hint: str | None = None) -> NoReturn:
        place = self._places[self._next - 1] if self._next else None
        raise InvalidCommandError(message, hint=hint, where=place)

    def _take(self) -> str:
        token = self._args[self._next]
        self._next += 1
        return token

    def _take_value(self) -> str | None:
        if self._next < len(self._args) and not _is_option(self._args[self._next]):
            return self._take()
        return None

    def _read_option(self, token: str) -> None:
        spelled, equals, attached = token.partition("=")
        name, negated = resolve(spelled)
        if not token.startswith("--"):
            name = self._long_name(spelled)
        info = flag(name)
        given = attached if equals else None
        if negated or (info is not None and info.is_boolean):
            self._store(name, self._boolean(spelled, name, negated, given), spelled)
        elif info is not None and info.type is FlagType.WORDS:
            self._store(name, self._words(spelled, given), spelled)
        else:
            self._store(name, self._value(spelled, info, given), spelled)

    def _long_name(self, spelled: str) -> str:
        """The long name of `-tp` or `-cc.mode`; raises InvalidCommandError for an unknown one."""
        head, dot, tail = spelled.partition(".")
        name, _ = resolve(head)
        if flag(name) is None or name == head.lstrip("-"):
            self._refuse(f"{spelled} is not an option of vLLM", "write long names: --max-num-seqs")
        return name + dot + tail

    def _read_optimization(self, token: str) -> None:
        """`-O3`, `-O 3` and, from older versions, `-O.level=3` and `-O '{...}'`."""
        rest = token.removeprefix("-O")
        if rest.startswith("."):
            self._read_option("--compilation-config" + rest)
            return
        text = rest or self._take_value()
        if text is None:
            self._refuse("-O expects a value", "-O2, for example")
        name = "optimization-level" if text.strip().isdecimal() else "compilation-config"
        self._store(name, self._parsed(token, flag(name), text), token)

    def _boolean(self, spelled: str, name: str, negated: bool, given: str | None) -> bool:
        following = self._args[self._next] if self._next < len(self._args) else ""
        if given is None and flag(name) is not None and following.lower() in ("true", "false"):
            given = self._take()
        if given is None:
            return not negated
        if negated:
            self._refuse(f"{spelled} takes no value, got {given!r}")
        try:
            value = parse_boolean(given)
        except ValueError as error:
            self._refuse(f"{spelled}: {error}")
        correct = f"--{name}" if value else f"--no-{name}"
        self.notes.append(f"{spelled}={given} is an error in today's vLLM: write {correct}")
        return value

    def _words(self, spelled: str, given: str | None) -> str:
        words = [given] if given is not None else []
        while given is None and (word := self._take_value()) is not None:
            words.append(word)
        if not words:
            self._refuse(f"{spelled} expects a value")
        return join_words(words)

    def _value(self, spelled: str, info: FlagInfo | None, given: str | None) -> FlagValue:
        text = given if given is not None else self._take_value()
        if text is not None:
            return self._parsed(spelled, info, text)
        if info is None:
            return True
        self._refuse(f"{spelled} expects a value")

    def _parsed(self, spelled: str, info: FlagInfo | None, text: str) -> FlagValue:
        try:
            value = parse_value(info, text)
        except ValueError as error:
            self._refuse(f"{spelled}: {error}")
        if info is not None and info.is_integer and str(value) != text.strip():
            self.notes.append(f"{spelled} {text} is read as {value}")
        return value

    def _store(self, name: str, value: FlagValue, spelled: str) -> None:
        if name in self.flags:
            self.notes.append(f"{spelled} is given more than once; the last one counts")
        info = flag(name)
        if value is False and info is not None and not info.negatable:
            self.flags.pop(name, None)
            self.notes.append(f"{spelled} does not exist in vLLM and changes nothing")
            return
        self.flags[name] = value


def _is_option(token: str) -> bool:
    """Whether vLLM's parser would take the token for an option and not for a value."""
    return token == "--" or _OPTION.fullmatch(token) is not None  # noqa: S105 - as above
