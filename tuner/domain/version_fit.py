"""What a vLLM version makes of a configuration: spelling, refusals, flags without effect."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from dataclasses import dataclass

from tuner.domain.defaults import hardware_tier
from tuner.domain.engine_config import EngineConfig, FlagValue
from tuner.domain.flag_catalogue import (
    FlagInfo,
    Ignored,
    catalogue,
    flag,
    has_flag,
    version_tuple,
    within,
)

_NOTHING = EngineConfig()


@dataclass(frozen=True, slots=True)
class Fitted:
    """A configuration in the words of one version.

    `renamed` maps old to new names, `dropped` names to reasons why nothing changes without them,
    `refused` names to reasons why that version does not start with them.
    """

    config: EngineConfig
    renamed: tuple[tuple[str, str], ...] = ()
    dropped: tuple[tuple[str, str], ...] = ()
    refused: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What decides, beside the version, whether a flag does anything."""

    config: EngineConfig = _NOTHING
    env: tuple[tuple[str, str], ...] = ()
    gpu_memory_gib: float | None = None
    gpu_name: str | None = None


def fitted(config: EngineConfig, version: str) -> Fitted:
    """`config` as that version spells it; unknown flags and unreadable versions are left alone."""
    flags: dict[str, FlagValue] = {}
    renamed: list[tuple[str, str]] = []
    dropped: list[tuple[str, str]] = []
    refused: list[tuple[str, str]] = []
    for name, value in config.flags:
        info = flag(name)
        if info is None:
            flags[name] = value
        elif has_flag(info, version) is not False:
            flags[name] = value
            refused += _refused_value(info, value, version)
        elif (other := _counterpart(info, version)) is not None:
            flags[other] = value
            renamed.append((name, other))
        elif (why := _needless(info, value)) is not None:
            dropped.append((name, f"{_gone(info, version)} ({why})"))
        else:
            flags[name] = value
            refused.append((name, _gone(info, version)))
    return Fitted(EngineConfig.of(flags), tuple(renamed), tuple(dropped), tuple(refused))


def _refused_value(info: FlagInfo, value: FlagValue, version: str) -> Iterator[tuple[str, str]]:
    since = value_since(info, value)
    if since is not None and within(version, since, None) is False:
        yield info.name, f"the value {value} is new in {since}"


def value_since(info: FlagInfo, value: FlagValue) -> str | None:
    """The first version that takes this value of a flag; None where the catalogue does not say."""
    text = str(value)
    for known in info.values:
        if any(fnmatch.fnmatchcase(text, name) for name in known.names):
            return known.since
    return None


def _counterpart(info: FlagInfo, version: str) -> str | None:
    """The name of the same flag in that version: its successor's, or its predecessor's."""
    if info.renamed is not None:
        later = flag(info.renamed)
        return info.renamed if later is not None and has_flag(later, version) else None
    for other in catalogue().flags.values():
        if other.renamed == info.name and has_flag(other, version):
            return other.name
    return None


def _needless(info: FlagInfo, value: FlagValue) -> str | None:
    """Why the flag may be left out for a version without it."""
    if info.harmless is not None:
        return info.harmless
    if info.default is not None and value == info.default:
        return "it is the default"
    return None


def _gone(info: FlagInfo, version: str) -> str:
    target, until = version_tuple(version), version_tuple(info.until or "")
    if info.gone is not None and within(version, info.gone, None):
        return f"no longer there in {info.gone}"
    removed = target is not None and until is not None and target >= until
    return f"removed in {info.until}" if removed else f"new in {info.since}"


def ignored(name: str, version: str | None, seen: Circumstances) -> str | None:
    """Why an engine of that version does nothing with a flag; None when it does something.

    A version that is not known is taken for the newest.
    """
    info = flag(name)
    if info is None:
        return None
    target = version or catalogue().newest
    return next((rule.why for rule in info.ignored if _holds(rule, target, seen)), None)


def _holds(rule: Ignored, version: str, seen: Circumstances) -> bool:
    if within(version, rule.since, rule.until) is not True:
        return False
    if rule.beside is not None and seen.config.get(rule.beside) is None:
        return False
    if rule.hardware is not None:
        tier = hardware_tier(seen.gpu_memory_gib, seen.gpu_name, version)
        if tier.name != rule.hardware:
            return False
    if rule.unless_env is not None:
        variable, _, value = rule.unless_env.partition("=")
        return dict(seen.env).get(variable) != value
    return True
