"""From Pydantic's errors to faults a person can act on: path, plain words, a hint."""

from __future__ import annotations

import difflib
import re
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from tuner.domain.document_text import Path, excerpt, nearest, path_text
from tuner.domain.flag_values import parse_size
from tuner.domain.study_spec import StudySpec
from tuner.errors import Fault

_EXAMPLES = {
    "model": "model: {id: Qwen/Qwen2.5-7B-Instruct}",
    "engine": "engine: {kind: simulated, gpu: L4}",
    "low": "{low: 8, high: 1024}",
    "high": "{low: 8, high: 1024}",
    "choices": "choices: [true, false]",
    "file": "file: builtin:azure-conv-2023",
    "prompt_tokens": "prompt_tokens: {type: lognormal, median: 400, sigma: 0.8}",
    "output_tokens": "output_tokens: {type: constant, value: 128}",
    "median": "{type: lognormal, median: 400, sigma: 0.8}",
    "sigma": "{type: lognormal, median: 400, sigma: 0.8}",
    "value": "{type: constant, value: 128}",
    "cv": "{process: gamma, cv: 3}",
    "concurrency": "{process: closed_loop, concurrency: 32}",
}
_DISCRIMINATOR_EXAMPLES = {
    "kind": _EXAMPLES["engine"],
    "type": _EXAMPLES["prompt_tokens"],
}


def validate(values: Mapping[str, object]) -> tuple[StudySpec | None, tuple[Fault, ...]]:
    """The specification, or None and every structural fault of the values."""
    try:
        return StudySpec.model_validate(values), ()
    except ValidationError as error:
        errors = error.errors(include_url=False)
    faults = _faults(values, errors)
    repaired = _with_likely_tags(values, errors)
    if repaired is not None:
        _, hidden = validate(repaired)
        faults += hidden
    return None, faults


def _faults(values: Mapping[str, object], errors: Sequence[ErrorDetails]) -> tuple[Fault, ...]:
    faults: dict[Path, Fault] = {}
    for error in errors:
        path = document_path(values, error["loc"])
        if error["type"].startswith("union_tag"):
            path = (*path, _discriminator(error))
        unknown = error["type"] == "extra_forbidden"
        fault = _unknown_key(values, path) if unknown else _fault(error, path)
        faults.setdefault(path, fault)
    return tuple(faults.values())


def _unknown_key(values: Mapping[str, object], path: Path) -> Fault:
    model = model_at(values, path[:-1])
    known = list(model.model_fields) if model else []
    near = nearest(str(path[-1]), known)
    elsewhere = [key for key in key_paths(StudySpec) if key[-1] == path[-1] and key != path]
    if near:
        hint = f"did you mean {near}?"
    elif elsewhere:
        hint = f"it belongs in {path_text(elsewhere[0][:-1]) or 'the top level'}"
    else:
        hint = f"known keys: {', '.join(known)}"
    return Fault(path_text(path), "unknown key", hint)


def key_paths(model: type[BaseModel], prefix: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Every key of a model and of the models in it, shallow ones first, without repetition."""
    own = {(*prefix, name): field for name, field in model.model_fields.items()}
    deeper = [
        path
        for key, field in own.items()
        for inner in models_in(field.annotation)
        for path in key_paths(inner, key)
    ]
    return list(dict.fromkeys([*own, *deeper]))


def _with_likely_tags(
    values: Mapping[str, object], errors: Sequence[ErrorDetails]
) -> dict[str, object] | None:
    """A copy in which mistyped discriminators are what was probably meant, so that the faults
    behind them show too; None when there is nothing to repair."""
    copy: Any = None
    for error in errors:
        if error["type"] != "union_tag_invalid":
            continue
        choices = _quoted(error.get("ctx", {}).get("expected_tags", ""))
        near = difflib.get_close_matches(str(error.get("ctx", {}).get("tag")), choices, n=1)
        if near:
            copy = _deep_copy(values) if copy is None else copy
            node = copy
            for part in document_path(values, error["loc"]):
                node = node[part]
            node[_discriminator(error)] = near[0]
    return typing.cast("dict[str, object] | None", copy)


def _discriminator(error: ErrorDetails) -> str:
    return _quoted(error.get("ctx", {}).get("discriminator", "'type'"))[0]


def _deep_copy(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _deep_copy(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_deep_copy(item) for item in value]
    return value


def document_path(values: object, location: Sequence[str | int]) -> Path:
    """Pydantic's location without the parts that stand in no document: tags and union members."""
    path: list[str | int] = []
    model: type[BaseModel] | None = StudySpec
    skip_tag = False
    for part in location:
        if skip_tag:
            skip_tag = False
            continue
        path.append(part)
        field = model.model_fields.get(part) if model and isinstance(part, str) else None
        if "flags" in path[:-1]:
            break
        values = _child(values, part)
        if field is None:
            model = None
            continue
        models = models_in(field.annotation)
        skip_tag = len(models) > 1
        model = _chosen(models, values)
    return tuple(path)


def _child(values: object, part: str | int) -> object:
    if isinstance(values, Mapping):
        return values.get(part)
    if isinstance(values, list) and isinstance(part, int) and part < len(values):
        return values[part]
    return None


def models_in(annotation: Any) -> tuple[type[BaseModel], ...]:
    """The models that a field may hold: none for scalars, several for a discriminated union."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return (annotation,)
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType, typing.Annotated):
        parts = typing.get_args(annotation)
        return tuple(model for part in parts for model in models_in(part))
    return ()


def _chosen(models: Sequence[type[BaseModel]], values: object) -> type[BaseModel] | None:
    """The member of a union whose tag the values carry, or that is meant where they carry none."""
    if len(models) <= 1:
        return models[0] if models else None
    for model in models:
        for tag in ("kind", "type", "process"):
            field = model.model_fields.get(tag)
            if field is None:
                continue
            given = _child(values, tag)
            meant = field.default if given is None and not field.is_required() else given
            if meant in typing.get_args(field.annotation):
                return model
    return None


def model_at(values: object, path: Path) -> type[BaseModel] | None:
    """The model that the mapping at this path of a document must fit, None where there is none."""
    model: type[BaseModel] | None = StudySpec
    for part in path:
        field = model.model_fields.get(part) if model and isinstance(part, str) else None
        if field is None:
            return None
        values = _child(values, part)
        model = _chosen(models_in(field.annotation), values)
    return model


# Words


def _fault(error: ErrorDetails, path: Path) -> Fault:
    message, hint = _message_and_hint(error, path)
    return Fault(path_text(path), message, hint)


def _message_and_hint(error: ErrorDetails, path: Path) -> tuple[str, str | None]:
    kind, value, context = error["type"], error.get("input"), error.get("ctx", {})
    name = str(path[-1]) if path else ""
    match kind:
        case "missing":
            example = _EXAMPLES.get(name)
            return "is required", f"for example {example}" if example else None
        case "union_tag_not_found":
            return "is required", f"for example {_DISCRIMINATOR_EXAMPLES.get(name)}"
        case "union_tag_invalid":
            return _not_among(context.get("tag"), _quoted(context.get("expected_tags", "")))
        case "literal_error":
            return _not_among(value, _quoted(context.get("expected", "")))
        case "string_pattern_mismatch" if name == "credentials_env":
            # Not repeated: it may be the words themselves, put here by mistake.
            allowed = "capital letters, digits and '_', a letter first, at most 100"
            return "is not an environment variable's name", allowed
        case "string_pattern_mismatch":
            allowed = "letters, digits, '.', '_' and '-', a letter or digit first, at most 100"
            return f"{excerpt(value)} is not a valid name", allowed
        case "too_short" if value == [] and name not in _EXAMPLES:
            return "is empty", "give a list of at least one word"
        case "too_short" | "too_long" if isinstance(value, list):
            return f"expected one or two values, got {len(value)}", _EXAMPLES.get(name)
    return _wrong_value(kind, value, context, error["msg"], path)


def _wrong_value(
    kind: str, value: object, context: Mapping[str, Any], message: str, path: Path
) -> tuple[str, str | None]:
    if "flags" in path[:-1]:
        hint = "write JSON as text: '{\"mode\": 3}'" if isinstance(value, dict) else None
        return f"expected true, false, a number or text, got {excerpt(value)}", hint
    expected = {
        "int_type": "an integer",
        "int_from_float": "an integer",
        "float_type": "a number",
        "bool_type": "true or false",
        "string_type": "text",
        "datetime_type": "a date and time",
        "list_type": "a list",
        "dict_type": "a mapping of keys to values",
        "model_type": "a mapping of keys to values",
        "model_attributes_type": "a mapping of keys to values",
    }.get(kind)
    if expected:
        return f"expected {expected}, got {excerpt(value)}", _type_hint(expected, value)
    limit = {
        "greater_than": "must be greater than",
        "greater_than_equal": "must be at least",
        "less_than": "must be less than",
        "less_than_equal": "must be at most",
    }.get(kind)
    if limit:
        bound = next(iter(context.values()), "")
        return f"{excerpt(value)} {limit} {_plain(bound)}", None
    return _rest(kind, message)


def _rest(kind: str, message: str) -> tuple[str, str | None]:
    match kind:
        case "timezone_aware":
            return "has no time zone", "append Z for UTC: 2030-01-31T18:00:00Z"
        case "finite_number":
            return "expected a finite number", None
        case "string_too_short":
            return "is empty", None
    return message.removeprefix("Value error, "), None


def _plain(bound: object) -> str:
    if isinstance(bound, float) and bound.is_integer():
        return str(int(bound))
    return str(bound)


def _not_among(value: object, choices: Sequence[str]) -> tuple[str, str | None]:
    near = nearest(str(value), choices)
    hint = f"did you mean {near}?" if near else None
    return f"{excerpt(value)} is not one of {', '.join(choices)}", hint


def _quoted(text: object) -> list[str]:
    return re.findall(r"'([^']*)'", str(text))


def _type_hint(expected: str, value: object) -> str | None:
    if value is None:
        return "delete the key or give it a value"
    if expected == "true or false" and isinstance(value, str):
        return _boolean_hint(value)
    if expected in ("an integer", "a number"):
        return number_hint(value)
    if expected == "text" and not isinstance(value, dict | list):
        return f'quote it: "{excerpt(value)}"'
    return None


def _boolean_hint(text: str) -> str | None:
    word = text.strip().lower()
    if word in ("on", "yes", "y", "1", "true"):
        return "write true"
    return "write false" if word in ("off", "no", "n", "0", "false") else None


def number_hint(value: object) -> str | None:
    """How to write what was probably meant as a number."""
    if isinstance(value, float) and value.is_integer():
        return f"write {int(value)}"
    if not isinstance(value, str):
        return None
    text = re.sub(r"(?<=\d)[_,' ](?=\d)", "", value.strip())
    if re.fullmatch(r"[+-]?\d{1,18}(?:\.\d{1,18})?", text):
        return f"write {text.lstrip('+')}, without quotes or separators"
    try:
        return f"write plain integers: {excerpt(parse_size(text))}"
    except ValueError:
        return None
