"""vLLM's flags and environment variables as data; the table itself is `vllm_flags.toml`."""

from __future__ import annotations

import difflib
import functools
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from importlib import resources
from typing import Any

from tuner.domain.engine_config import FlagValue

_VERSION = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?")


class FlagType(Enum):
    """What vLLM makes of a flag's text; see the head of `vllm_flags.toml`."""

    BOOLEAN = "boolean"
    INTEGER = "integer"
    SIZE = "size"
    NUMBER = "number"
    TEXT = "text"
    JSON = "json"
    WORDS = "words"


@dataclass(frozen=True, slots=True)
class EarlierDefault:
    """What a flag stood at before version `until`."""

    until: str
    value: FlagValue


@dataclass(frozen=True, slots=True)
class KnownValues:
    """Values that may be given from version `since` on; `*` and a trailing `*` stand for any."""

    since: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ignored:
    """When an engine takes a flag and does nothing with it: where every condition holds."""

    why: str
    since: str | None = None
    until: str | None = None
    beside: str | None = None
    """Another flag that is given."""
    hardware: str | None = None
    unless_env: str | None = None
    """NAME=VALUE of the engine's environment."""


@dataclass(frozen=True, slots=True)
class Tier:
    """Hardware and versions with the same defaults of the scheduler's limits."""

    name: str
    max_num_seqs: int
    max_num_batched_tokens: int
    block_size: int | None = None
    at_least_gib: float | None = None
    names: tuple[str, ...] = ()
    not_names: tuple[str, ...] = ()
    per_rank: bool = False
    since: str | None = None
    until: str | None = None


@dataclass(frozen=True, slots=True)
class FlagInfo:
    """One flag of `vllm serve`. `since` is its first version, `until` the first without it."""

    name: str
    type: FlagType
    default: FlagValue | None = None
    choices: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    above: float | None = None
    since: str | None = None
    until: str | None = None
    seen: str | None = None
    """A version that has the flag, where it is not recorded since when."""
    gone: str | None = None
    """A version without the flag, where it is not recorded since when."""
    aliases: tuple[str, ...] = ()
    short: tuple[str, ...] = ()
    negatable: bool = True
    guarded: str | None = None
    """Why the flag is refused over HTTP; None when it is harmless."""
    managed: str | None = None
    """Why ServeTune sets the flag itself; None when a study may set it."""
    secret: bool = False
    note: str | None = None
    effect: str | None = None
    loads_code: bool = False
    reaches_out: bool = False
    touches_files: bool = False
    """It names, reads or writes files of the host."""
    defaults: tuple[EarlierDefault, ...] = ()
    values: tuple[KnownValues, ...] = ()
    ignored: tuple[Ignored, ...] = ()
    renamed: str | None = None
    renamed_in: str | None = None
    harmless: str | None = None
    """Why leaving it out changes nothing for a version that no longer has it."""

    @property
    def is_boolean(self) -> bool:
        return self.type is FlagType.BOOLEAN

    @property
    def is_integer(self) -> bool:
        return self.type in (FlagType.INTEGER, FlagType.SIZE)


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The whole table, indexed. `names` maps every long spelling to the canonical name."""

    newest: str
    oldest: str
    flags: Mapping[str, FlagInfo]
    names: Mapping[str, str]
    short_names: Mapping[str, str]
    environment: frozenset[str]
    secret_environment: frozenset[str]
    tiers: tuple[Tier, ...]


@functools.cache
def catalogue() -> Catalogue:
    """The table, read from the package on first use and kept."""
    text = resources.files("tuner.domain").joinpath("vllm_flags.toml").read_text("utf-8")
    table = tomllib.loads(text)
    flags = {name: _flag_info(name, row) for name, row in table["flags"].items()}
    return Catalogue(
        newest=table["newest"],
        oldest=table["oldest"],
        flags=flags,
        names={long: f.name for f in flags.values() for long in (f.name, *f.aliases)},
        short_names={short: f.name for f in flags.values() for short in f.short},
        environment=frozenset(table["environment"]["allowed"]),
        secret_environment=frozenset(table["environment"]["secret"]),
        tiers=tuple(_tier(row) for row in table["tiers"]),
    )


def _flag_info(name: str, row: Mapping[str, Any]) -> FlagInfo:
    lists = {key: tuple(value) for key, value in row.items() if isinstance(value, list)}
    lists["defaults"] = tuple(EarlierDefault(**item) for item in row.get("defaults", ()))
    lists["values"] = tuple(
        KnownValues(item["since"], tuple(item["names"])) for item in row.get("values", ())
    )
    lists["ignored"] = tuple(_ignored(item) for item in row.get("ignored", ()))
    return FlagInfo(**{**row, **lists, "name": name, "type": FlagType(row["type"])})


def _ignored(row: Mapping[str, Any]) -> Ignored:
    return Ignored(**{"beside" if key == "with" else key: value for key, value in row.items()})


def _tier(row: Mapping[str, Any]) -> Tier:
    plain = {key.replace("-", "_"): value for key, value in row.items()}
    lists = {key: tuple(value) for key, value in plain.items() if isinstance(value, list)}
    return Tier(**{**plain, **lists})


def flag(name: str) -> FlagInfo | None:
    """The flag of this long name or alias (without dashes in front), or None when unknown."""
    known = catalogue()
    canonical = known.names.get(name)
    return known.flags[canonical] if canonical else None


def resolve(text: str) -> tuple[str, bool]:
    """vLLM's long name for a spelling, and whether the spelling negates it.

    `--max_num_seqs` and `max_num_seqs` mean max-num-seqs, `-tp` tensor-parallel-size,
    `--no-async-scheduling` and `--disable-chunked-prefill` negate. An unknown name only loses its
    leading dashes, a leading `no-` and, before a dot, its underscores.
    """
    known = catalogue()
    bare = text.lstrip("-")
    if text.startswith("-") and not text.startswith("--") and bare in known.short_names:
        return known.short_names[bare], False
    head, dot, tail = bare.partition(".")
    name = head.replace("_", "-") + dot + tail
    if name in known.names:
        return known.names[name], False
    if name.startswith("no-"):
        positive = name.removeprefix("no-")
        return known.names.get(positive, positive), True
    enabled = name.replace("disable-", "enable-", 1)
    if name.startswith("disable-") and enabled in known.names:
        return enabled, True
    return name, False


def spelling(text: str) -> str:
    """vLLM's long name, without dashes, for any spelling of a flag."""
    return resolve(text)[0]


def closest(text: str) -> str | None:
    """The known flag that a mistyped one most likely means, or None when nothing is near."""
    known = catalogue()
    name = spelling(text)
    if name in known.names:
        return known.names[name]
    near = difflib.get_close_matches(name, list(known.names), n=1, cutoff=0.75)
    return known.names[near[0]] if near else None


def closest_environment(name: str) -> str | None:
    """The allowed variable that a mistyped one most likely means."""
    known = sorted(catalogue().environment)
    near = difflib.get_close_matches(name.upper(), known, n=1, cutoff=0.8)
    return near[0] if near else None


def is_allowed_environment(name: str) -> bool:
    """Whether a study may set this variable for the engine."""
    return name in catalogue().environment


def is_secret_environment(name: str) -> bool:
    """Whether a variable's value must never be written down: known secrets and what looks alike."""
    if name in catalogue().secret_environment:
        return True
    words = name.upper().split("_")
    looks_secret = {"TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIALS"} & set(words)
    return bool(looks_secret) or words[-1:] == ["KEY"]


def managed_flags() -> frozenset[str]:
    """Flags that ServeTune sets itself; a study document must not."""
    return frozenset(f.name for f in catalogue().flags.values() if f.managed)


@lru_cache(maxsize=256)
def version_tuple(version: str) -> tuple[int, int, int] | None:
    """`0.20.2rc1+cu130` as (0, 20, 2); None for a version that has no number in front."""
    match = _VERSION.match(version)
    if match is None:
        return None
    return int(match[1]), int(match[2]), int(match[3] or 0)


def has_flag(info: FlagInfo, version: str) -> bool | None:
    """Whether that vLLM version has the flag; None when it cannot be read, or is not recorded."""
    found = within(version, info.since, info.until)
    if found and info.seen is not None and not within(version, info.seen, None):
        return None
    if found and info.gone is not None:
        return None if within(version, None, info.gone) else False
    return found


def within(version: str, since: str | None, until: str | None) -> bool | None:
    """Whether a version lies in [since, until); None when it cannot be read."""
    target = version_tuple(version)
    if target is None:
        return None
    first = version_tuple(since) if since else None
    end = version_tuple(until) if until else None
    return not (first and target < first) and not (end and target >= end)
