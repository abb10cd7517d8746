"""Reading and writing YAML that other programs' parsers must understand in the same way."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping

import yaml

from tuner.errors import InvalidCommandError

MAX_NODES = 20_000
"""More values than any deployment has; aliases count as often as they are used."""


class Quoted(str):
    """Text that is written in double quotes.

    YAML's versions disagree on what plain text means (`1e5`, `0o17`, `on`): a string in quotes is a
    string for every parser.
    """

    __slots__ = ()


class _Writer(yaml.SafeDumper):
    """Indents lists below their key and never writes aliases."""

    def ignore_aliases(self, data: object) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _represent_quoted(writer: yaml.SafeDumper, text: Quoted) -> yaml.ScalarNode:
    return writer.represent_scalar("tag:yaml.org,2002:str", str(text), style='"')


_Writer.add_representer(Quoted, _represent_quoted)


def write_yaml(documents: Iterable[Mapping[str, object]]) -> str:
    """The documents in YAML, keys in the order given, without a newline at the end."""
    text = yaml.dump_all(
        documents,
        Dumper=_Writer,
        sort_keys=False,
        default_flow_style=False,
        width=sys.maxsize,
        explicit_start=None,
    )
    return str(text).removesuffix("\n")


def quoted(words: Iterable[str]) -> list[Quoted]:
    """Each word in double quotes."""
    return [Quoted(word) for word in words]


def read_yaml(text: str) -> list[object]:
    """The documents in YAML text; nothing is constructed from a tag.

    Raises InvalidCommandError with where it is wrong, and for documents that only aliases make
    large.
    """
    try:
        documents = [document for document in yaml.safe_load_all(text) if document is not None]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else None
        raise InvalidCommandError(f"not YAML: {error.problem}", where=where) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InvalidCommandError(f"not YAML: {reason}") from None
    _refuse_bombs(documents)
    return documents


def _refuse_bombs(documents: list[object]) -> None:
    waiting: list[object] = list(documents)
    seen = 0
    while waiting:
        value = waiting.pop()
        seen += 1
        if seen > MAX_NODES:
            raise InvalidCommandError(f"more than {MAX_NODES} values")
        if isinstance(value, Mapping):
            waiting.extend(value.values())
        elif isinstance(value, list | set | tuple):
            waiting.extend(value)
