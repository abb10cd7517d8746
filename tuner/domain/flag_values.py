"""Typed values of flags: what vLLM reads from text, and the text it is given."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterable
from decimal import Decimal

from tuner.domain.engine_config import EngineConfig, FlagValue
from tuner.domain.flag_catalogue import FlagInfo, FlagType, flag, resolve

_SIZE = re.compile(r"(\d+(?:\.\d+)?)([kKmMgGtT])", re.ASCII)
_INTEGER = re.compile(r"[+-]?\d{1,30}", re.ASCII)
_DECIMAL_FACTORS = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY_FACTORS = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def parse_size(text: str) -> int:
    """vLLM's human-readable integer: `8k` is 8000, `8K` is 8192, `25.6k` is 25600.

    Raises ValueError for anything else, among it decimals before a binary suffix.
    """
    stripped = text.strip()
    match = _SIZE.fullmatch(stripped)
    if match is None:
        return parse_integer(stripped)
    number, suffix = match.groups()
    if suffix in _DECIMAL_FACTORS:
        return int(Decimal(number) * _DECIMAL_FACTORS[suffix])
    if "." in number:
        raise ValueError(f"{text!r}: a binary suffix takes whole numbers only")
    return int(number) * _BINARY_FACTORS[suffix]


def parse_integer(text: str) -> int:
    """A plain decimal integer of at most 30 digits; raises ValueError for anything else."""
    stripped = text.strip()
    if _INTEGER.fullmatch(stripped) is None:
        raise ValueError(f"{text!r} is not an integer")
    return int(stripped)


def parse_number(text: str) -> float:
    """A finite number; raises ValueError for anything else."""
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number") from None
    if not math.isfinite(value):
        raise ValueError(f"{text!r} is not a finite number")
    return value


def parse_value(info: FlagInfo | None, text: str) -> FlagValue:
    """The value vLLM reads from `text`; the text of an unknown flag is kept. Raises ValueError."""
    if info is None or text in info.words:
        return text
    match info.type:
        case FlagType.BOOLEAN:
            return parse_boolean(text)
        case FlagType.INTEGER:
            return parse_integer(text)
        case FlagType.SIZE:
            return parse_size(text)
        case FlagType.NUMBER:
            return parse_number(text)
        case FlagType.TEXT | FlagType.JSON | FlagType.WORDS:
            return text


def parse_boolean(text: str) -> bool:
    """`true` or `false` in any case; raises ValueError for anything else."""
    lowered = text.strip().lower()
    if lowered not in ("true", "false"):
        raise ValueError(f"{text!r} is neither true nor false")
    return lowered == "true"


def value_text(value: FlagValue) -> str:
    """The text of a value on a command line: plain integers, shortest exact decimals.

    Raises ValueError for a number that is not finite and for text no process can be given.
    """
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value!r} is not a finite number")
        return repr(value)
    text = str(value)
    if "\x00" in text:
        raise ValueError("a command-line argument cannot contain a NUL character")
    return text


def canonical(config: EngineConfig) -> EngineConfig:
    """Equal for configurations that launch the same engine: names and types as vLLM reads them.

    Aliases and negated names become the name, numbers of a number flag become floats, integers
    given as text become integers, words are quoted and spaced in one way, and a negative that vLLM
    cannot express (`--no-disable-log-stats`) is dropped as the default it is. Raises ValueError for
    a value that its flag cannot have.
    """
    flags: dict[str, FlagValue] = {}
    for given, value in config.flags:
        name, negated = resolve(given)
        if negated and not isinstance(value, bool):
            raise ValueError(f"{given}: a negated flag is true or false, not {value!r}")
        typed = typed_value(name, (value is False) if negated else value)
        info = flag(name)
        if typed is False and info is not None and not info.negatable:
            continue
        flags[name] = typed
    return EngineConfig.of(flags)


def typed_value(name: str, value: FlagValue) -> FlagValue:
    """`value` in the type of the flag of this canonical name; raises ValueError when it cannot be.

    The values of an unknown flag are true, false or text.
    """
    info = flag(name)
    if info is None:
        return value if isinstance(value, bool) else value_text(value)
    if isinstance(value, bool):
        if info.is_boolean:
            return value
        raise ValueError(f"{name}: expected {describe(info)}, got {str(value).lower()}")
    if isinstance(value, float) and info.is_integer and value.is_integer():
        value = int(value)
    try:
        parsed = parse_value(info, value_text(value))
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    if info.type is FlagType.WORDS:
        return join_words(split_words(str(parsed)))
    return parsed


def split_words(text: str) -> tuple[str, ...]:
    """The values in a words flag's text, quoted as a POSIX shell would; never none."""
    try:
        words = shlex.split(text)
    except ValueError:
        words = [text]
    return tuple(words) or ("",)


def join_words(words: Iterable[str]) -> str:
    """The inverse of `split_words`."""
    return shlex.join(words)


def describe(info: FlagInfo) -> str:
    """The values a flag takes, in words."""
    if info.choices:
        return "one of " + ", ".join(info.choices)
    base = {
        FlagType.BOOLEAN: "true or false",
        FlagType.INTEGER: "an integer",
        FlagType.SIZE: "an integer",
        FlagType.NUMBER: "a number",
        FlagType.TEXT: "text",
        FlagType.JSON: "a JSON string",
        FlagType.WORDS: "text (several values separated by single spaces)",
    }[info.type]
    return base + "".join(f" or {word}" for word in info.words)


def range_fault(info: FlagInfo, value: FlagValue) -> str | None:
    """What is wrong with a well-typed value, or None: outside the flag's choices or limits."""
    if info.choices and value not in info.choices:
        return f"{value!r} is not {describe(info)}"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if info.minimum is not None and value < info.minimum:
        return f"{value} is less than {info.minimum:g}"
    if info.above is not None and value <= info.above:
        return f"{value} is not greater than {info.above:g}"
    if info.maximum is not None and value > info.maximum:
        return f"{value} is greater than {info.maximum:g}"
    return None
