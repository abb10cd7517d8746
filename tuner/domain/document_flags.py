"""Faults of the flags and environment variables in a study document."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from tuner.domain.document_text import excerpt, nearest, path_text
from tuner.domain.engine_config import FlagValue
from tuner.domain.flag_catalogue import (
    FlagInfo,
    FlagType,
    closest,
    closest_environment,
    flag,
    has_flag,
    is_allowed_environment,
    is_secret_environment,
    resolve,
    within,
)
from tuner.domain.flag_values import describe, parse_size, range_fault, typed_value
from tuner.domain.version_fit import value_since
from tuner.errors import Fault


def flag_faults(
    section: str,
    flags: Mapping[str, object],
    vllm_version: str | None,
    *,
    guarded_only: bool = False,
) -> Iterator[Fault]:
    """Faults of one `flags` mapping; `section` is its path in the document.

    With `guarded_only`, only flags that load code, name things on the host or reach out.
    """
    for name, value in flags.items():
        path = path_text((*section.split("."), name))
        info = flag(name)
        if guarded_only:
            if info is not None and info.guarded:
                message = f"is not accepted over HTTP: {info.guarded}"
                yield Fault(path, message, "use a study file on the host")
            continue
        if info is None or name != info.name:
            yield _misspelt(path, name, value)
        else:
            yield from _known_flag_faults(path, info, value, vllm_version)


def _misspelt(path: str, given: str, value: object) -> Fault:
    name, negated = resolve(given)
    info = flag(name)
    if info is not None and name != given:
        if negated:
            meant = excerpt(value is False)
            return Fault(path, f"is the negation of {name}", f"write {name}: {meant}")
        known_alias = flag(given) is not None
        message = f"is another name of {name}" if known_alias else "is not vLLM's spelling"
        shown = "…" if info.secret else excerpt(value)
        return Fault(path, message, f"write {name}: {shown}")
    near = closest(given)
    hint = f"did you mean {near}?" if near else "see docs/study-document.md for the known flags"
    return Fault(path, "is not a flag of vLLM that ServeTune knows", hint)


def _known_flag_faults(
    path: str, info: FlagInfo, value: object, vllm_version: str | None
) -> Iterator[Fault]:
    if info.managed:
        yield Fault(path, f"is not for a study to set: {info.managed}", "delete it")
        return
    if vllm_version is not None and has_flag(info, vllm_version) is False:
        span = " and ".join(
            part
            for part in (
                f"exists since {info.since}" if info.since else "",
                f"was removed in {info.until}" if info.until else "",
                f"is no longer there in {info.gone}" if info.gone else "",
            )
            if part
        )
        hint = f"write {info.renamed}" if info.renamed else info.harmless or info.note
        yield Fault(path, f"vLLM {vllm_version} does not have it: it {span}", hint)
    if isinstance(value, bool | int | float | str):
        yield from _value_faults(path, info, value)
        since = value_since(info, value)
        if vllm_version is not None and within(vllm_version, since, None) is False:
            yield Fault(path, f"vLLM {vllm_version} does not take {value}: it is new in {since}")


def _value_faults(path: str, info: FlagInfo, value: FlagValue) -> Iterator[Fault]:
    """Numbers must be numbers here: text that vLLM would convert hides what was meant."""
    expected = f"expected {describe(info)}, got {excerpt(value)}"
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    numeric = info.is_integer or info.type is FlagType.NUMBER
    if numeric and isinstance(value, str) and value not in info.words:
        yield Fault(path, expected, _integer_hint(value) if info.is_integer else None)
        return
    if info.is_boolean != isinstance(value, bool) or (
        not numeric and not info.is_boolean and is_number
    ):
        hint = f'quote it: "{value}"' if is_number and not info.is_boolean else None
        yield Fault(path, expected, hint)
        return
    try:
        wrong = range_fault(info, typed_value(info.name, value))
    except ValueError:
        yield Fault(path, expected)
        return
    if wrong:
        near = nearest(str(value), info.choices) if info.choices else None
        yield Fault(path, wrong, f"did you mean {near}?" if near else None)
    elif info.type is FlagType.JSON and not _is_json(str(value)):
        yield Fault(path, "is not valid JSON", "write it as text: '{\"key\": 1}'")


def _integer_hint(text: str) -> str:
    try:
        return f"write plain integers: {parse_size(text)}"
    except ValueError:
        return "write plain integers: 8192"


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def environment_faults(section: str, variables: Mapping[str, object]) -> Iterator[Fault]:
    """Faults of the engine's environment variables."""
    for name in variables:
        path = path_text((*section.split("."), name))
        if is_secret_environment(name):
            message = "secrets are never part of a study"
            yield Fault(path, message, f"set {name} in the environment of the worker")
        elif not is_allowed_environment(name):
            near = closest_environment(name)
            hint = f"did you mean {near}?" if near else None
            yield Fault(path, "is not an allowed environment variable", hint)
