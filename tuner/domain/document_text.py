"""From the text of a YAML or JSON document to plain values, with every fault of the text.

YAML is read by the 1.2 core schema: only `true` and `false` are booleans, dates stay text, a
leading zero is a fault. Nothing is ever constructed from a tag.
"""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import yaml

from tuner.errors import Fault

MAX_CHARACTERS = 200_000
MAX_DEPTH = 40
MAX_NODES = 5_000
_LARGEST_INTEGER = 2**63 - 1
_PLAIN_KEY = re.compile(r"[A-Za-z_][\w-]*", re.ASCII)

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class DocumentText:
    """The values of a document (None when there are none) and what is wrong with its text."""

    values: Mapping[str, object] | None
    faults: tuple[Fault, ...]


def path_text(path: Path) -> str:
    """`search_space.max_num_seqs.low`, `choices[0]`; odd keys are quoted."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _PLAIN_KEY.fullmatch(part):
            text += f".{part}" if text else part
        else:
            text += f"[{json.dumps(part)}]"
    return text


def excerpt(value: object, limit: int = 60) -> str:
    """A value for a message: short and on one line, whatever the document holds."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    text = json.dumps(value) if isinstance(value, str) else str(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def nearest(text: str, choices: Sequence[str]) -> str | None:
    """The choice that a mistyped text most likely means, whatever its case and separators."""
    plain = {re.sub(r"[\s_.-]+", "", choice).casefold(): choice for choice in choices}
    wanted = re.sub(r"[\s_.-]+", "", text).casefold()
    near = difflib.get_close_matches(wanted, list(plain), n=1, cutoff=0.6)
    return plain[near[0]] if near else None


def read_document(text: str) -> DocumentText:
    """Values and faults of a whole document; never raises for anything in the text."""
    if len(text) > MAX_CHARACTERS:
        message = f"the document is longer than {MAX_CHARACTERS} characters"
        return DocumentText(None, (Fault("", message),))
    text = text.removeprefix("\ufeff")
    faults: list[Fault] = []
    try:
        root = _read_json(text, faults) if text.lstrip()[:1] in ("{", "[") else None
        values = root if root is not None else _read_yaml(text, faults)
    except RecursionError:
        return DocumentText(None, (_too_deep(),))
    except _UnreadableError as error:
        return DocumentText(None, (error.fault,))
    if not isinstance(values, dict):
        return DocumentText(None, (*faults, _not_a_mapping(values)))
    faults += _value_faults(values, ())
    return DocumentText(values, tuple(faults))


class _UnreadableError(Exception):
    """The text stops being a document somewhere."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


def _too_deep() -> Fault:
    return Fault("", f"nested more than {MAX_DEPTH} levels deep", "a study needs six")


def _not_a_mapping(values: object) -> Fault:
    hint = "the smallest study: model: {id: Qwen/Qwen2.5-7B-Instruct}, engine: {kind: simulated}"
    if values is None:
        return Fault("", "the document is empty", hint)
    return Fault("", f"expected a mapping of keys to values, got {excerpt(values)}", hint)


# JSON


class _Pairs(list[tuple[str, object]]):
    """A JSON object before its duplicate keys are looked for."""


def _read_json(text: str, faults: list[Fault]) -> object | None:
    """The document as JSON; None when it is not JSON (it may be a YAML flow mapping)."""
    try:
        root = json.loads(text, object_pairs_hook=_Pairs, parse_int=_json_integer)
    except ValueError as error:
        if isinstance(error, json.JSONDecodeError) and re.match(r'[\s{\[]*"', text) is None:
            return None
        return _yaml_or_json_error(text, faults, error)
    return _plain_json(root, (), faults)


def _json_integer(text: str) -> int | float:
    """Integers of any length without Python's limit on digits; the long ones are faults later."""
    return int(text) if len(text) <= 40 else math.inf


def _yaml_or_json_error(text: str, faults: list[Fault], error: ValueError) -> object:
    """YAML flow style with quoted keys looks like JSON: only when it is neither, JSON's error."""
    try:
        return _read_yaml(text, faults)
    except _UnreadableError:
        if not isinstance(error, json.JSONDecodeError):
            raise
        message = f"line {error.lineno}, column {error.colno}: {error.msg}"
        raise _UnreadableError(Fault("", message, "the document is not valid JSON")) from None


def _plain_json(value: object, path: Path, faults: list[Fault]) -> object:
    if len(path) > MAX_DEPTH:
        raise _UnreadableError(_too_deep())
    if isinstance(value, _Pairs):
        mapping: dict[str, object] = {}
        for key, item in value:
            if key in mapping:
                faults.append(_duplicate((*path, key)))
            else:
                mapping[key] = _plain_json(item, (*path, key), faults)
        return mapping
    if isinstance(value, list):
        return [_plain_json(item, (*path, i), faults) for i, item in enumerate(value)]
    return value


def _duplicate(path: Path, line: int | None = None) -> Fault:
    where = f" on line {line}" if line is not None else ""
    return Fault(path_text(path), f"the key is given twice, again{where}", "keep one of them")


# YAML


class _CoreSchemaLoader(yaml.SafeLoader):
    """PyYAML's parser with YAML 1.2's implicit types instead of 1.1's."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - PyYAML's own class attribute


_INTEGER = re.compile(r"(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)\Z")
_FLOAT = re.compile(
    r"(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z"
)


def _add_implicit_types() -> None:
    types = (
        ("null", re.compile(r"(?:~|null|Null|NULL|)\Z"), ["~", "n", "N", ""]),
        ("bool", re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z"), list("tTfF")),
        ("int", _INTEGER, list("-+0123456789")),
        ("float", _FLOAT, list("-+0123456789.")),
    )
    for name, pattern, first in types:
        _CoreSchemaLoader.add_implicit_resolver(f"tag:yaml.org,2002:{name}", pattern, first)


_add_implicit_types()


def _read_yaml(text: str, faults: list[Fault]) -> object:
    try:
        _check_depth(text)
        node = yaml.compose(text, Loader=_CoreSchemaLoader)
    except yaml.MarkedYAMLError as error:
        raise _UnreadableError(_syntax_fault(error)) from None
    except yaml.reader.ReaderError as error:
        character = f"character {error.character!r} at position {error.position}"
        raise _UnreadableError(Fault("", f"{character} is not allowed in YAML")) from None
    if node is None:
        return None
    return _Converter(faults).value(node, ())


def _check_depth(text: str) -> None:
    """Refuse deep nesting before the composer, which recurses, sees it, and endless lists."""
    depth = 0
    for count, event in enumerate(yaml.parse(text, Loader=_CoreSchemaLoader)):
        if count > 4 * MAX_NODES:
            raise _UnreadableError(Fault("", f"more than {MAX_NODES} values"))
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            raise _UnreadableError(_too_deep())


def _syntax_fault(error: yaml.MarkedYAMLError) -> Fault:
    mark = error.problem_mark or error.context_mark
    where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    problem = error.problem or error.context or "not valid YAML"
    hint = None
    if "\\t" in problem:
        hint = "indent with spaces"
    elif "mapping values are not allowed" in problem:
        hint = "check the indentation, and quote text that contains ': '"
    elif "another document" in problem:
        hint = "one study per file"
    return Fault("", where + problem, hint)


class _Converter:
    """Turns a node graph into plain values, counting nodes so that aliases cannot explode."""

    def __init__(self, faults: list[Fault]) -> None:
        self._faults = faults
        self._nodes = 0

    def value(self, node: yaml.Node, path: Path) -> object:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise _UnreadableError(Fault("", f"more than {MAX_NODES} values"))
        if len(path) > MAX_DEPTH:
            raise _UnreadableError(_too_deep())
        if isinstance(node, yaml.MappingNode) and node.tag == "tag:yaml.org,2002:map":
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode) and node.tag == "tag:yaml.org,2002:seq":
            return [self.value(item, (*path, i)) for i, item in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        return self._unknown_tag(node, path)

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, object]:
        mapping: dict[str, object] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            key = self._key(key_node, path)
            if key is None:
                continue
            if key in mapping:
                self._faults.append(_duplicate((*path, key), line))
                continue
            mapping[key] = self.value(value_node, (*path, key))
        return mapping

    def _key(self, node: yaml.Node, path: Path) -> str | None:
        line = node.start_mark.line + 1
        if not isinstance(node, yaml.ScalarNode):
            self._faults.append(Fault(path_text(path), f"line {line}: a key must be text"))
            return None
        if node.value == "<<" and node.style is None:
            message = f"line {line}: merge keys (<<) are not supported"
            self._faults.append(Fault(path_text(path), message, "write the keys out"))
            return None
        if node.tag != "tag:yaml.org,2002:str":
            message = f"line {line}: the key {excerpt(node.value)} must be text"
            self._faults.append(Fault(path_text(path), message, "quote it"))
            return None
        return cast(str, node.value)

    def _scalar(self, node: yaml.ScalarNode, path: Path) -> object:
        text = cast(str, node.value)
        match node.tag.removeprefix("tag:yaml.org,2002:"):
            case "str":
                return text
            case "null":
                return None
            case "bool" if text.lower() in ("true", "false"):
                return text.lower() == "true"
            # A tag written out (`!!int abc`) has been held against nothing yet.
            case "int" if _INTEGER.match(text):
                return self._integer(text, path)
            case "float" if _FLOAT.match(text):
                return _float(text)
        return self._unknown_tag(node, path)

    def _integer(self, text: str, path: Path) -> object:
        if re.fullmatch(r"[-+]?0[0-9]+", text):
            message = f"{excerpt(text)[1:-1]} has a leading zero: octal or decimal?"
            hint = f"write {text.lstrip('-+0') or '0'}, or quote it if it is text"
            self._faults.append(Fault(path_text(path), message, hint))
            return int(text) if len(text) <= 40 else 0
        return int(text, 0) if len(text) <= 40 else math.inf

    def _unknown_tag(self, node: yaml.Node, path: Path) -> object:
        message = f"line {node.start_mark.line + 1}: the tag {excerpt(str(node.tag))} is refused"
        self._faults.append(Fault(path_text(path), message, "write plain values"))
        return None


def _float(text: str) -> float:
    lowered = text.lower()
    if lowered.endswith((".inf", ".nan")):
        return float(lowered.replace(".", "", 1))
    return float(text)


# Values that no part of a study can have, wherever they stand


def _value_faults(value: object, path: Path) -> Iterator[Fault]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _text_faults(key, path)
            yield from _value_faults(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _value_faults(item, (*path, index))
    elif isinstance(value, str):
        yield from _text_faults(value, path)
    elif isinstance(value, float) and not math.isfinite(value):
        yield Fault(path_text(path), "expected a finite number")
    elif isinstance(value, int) and abs(value) > _LARGEST_INTEGER:
        yield Fault(path_text(path), "the number is too large")


def _text_faults(text: str, path: Path) -> Iterator[Fault]:
    if "\x00" in text or any("\ud800" <= character <= "\udfff" for character in text):
        yield Fault(path_text(path), "the text has a character that cannot be stored")
