"""Logs of the long-running processes: one line a record, with its study, trial and attempt.

Nothing that a caller wrote can begin a line of its own or move a terminal's cursor.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Literal, TextIO

LogFormat = Literal["console", "json"]
MASK = "***"

_NO_FIELDS: Mapping[str, object] = MappingProxyType({})
_fields: ContextVar[Mapping[str, object]] = ContextVar("log_fields", default=_NO_FIELDS)
_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_SECRETS = re.compile(
    r"(?P<key>\bst_[0-9a-f]{12}_)[A-Za-z0-9_-]{43}"  # a key of the API
    r"|(?P<url>://[^\s:/@]*:)[^\s/@]+(?=@)"  # a password in a URL
    r"|(?P<hub>\bhf_)[A-Za-z0-9]{20,}"  # a token of the model hub
    r"|(?P<bearer>\bBearer\s+)[^\s\"',]+",
    re.ASCII,
)
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


@contextmanager
def log_fields(**fields: object) -> Iterator[None]:
    """Add fields to every record that this thread or task logs within the block."""
    token = _fields.set({**_fields.get(), **fields})
    try:
        yield
    finally:
        _fields.reset(token)


def configure_logs(level: str, form: LogFormat, stream: TextIO | None = None) -> logging.Handler:
    """Send every record of `level` and above to `stream`, standard error by default.

    Replaces what the root logger had; called once by a process's composition root.
    """
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(JsonFormatter() if form == "json" else ConsoleFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # It tells of each connection what kind of database it is.
    logging.getLogger("alembic").setLevel(max(logging.WARNING, root.level))
    return handler


def masked(text: str) -> str:
    """The text without keys, tokens and passwords of the forms that are known."""
    return _SECRETS.sub(lambda found: f"{found[found.lastgroup or 0]}{MASK}", text)


class JsonFormatter(logging.Formatter):
    """One object a line, ASCII only: `at`, `level`, `logger`, `event`, then the fields."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "at": _at(record).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": masked(record.getMessage()),
        }
        for name, value in _fields_of(record).items():
            line.setdefault(name, _plain(value))
        trace = _trace(self, record)
        if trace:
            line["exception"] = masked(trace)
        return json.dumps(line)


class ConsoleFormatter(logging.Formatter):
    """For people: time, level, event and the fields; a traceback follows, indented with a bar."""

    def format(self, record: logging.LogRecord) -> str:
        words = [f"{_at(record):%Y-%m-%d %H:%M:%S}", record.levelname, masked(record.getMessage())]
        words += [f"{name}={_quoted(_plain(value))}" for name, value in _fields_of(record).items()]
        trace = masked(_trace(self, record))
        below = [f"  | {_visible(line)}" for line in trace.split("\n")] if trace else []
        return "\n".join([_visible(" ".join(words)), *below])


def _fields_of(record: logging.LogRecord) -> dict[str, object]:
    """What the block and the call say; the call is the more exact one."""
    given = {name: value for name, value in vars(record).items() if name not in _OWN}
    given.pop("color_message", None)  # uvicorn's message once more, with colours
    return {**_fields.get(), **given}


def _at(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC)


def _plain(value: object) -> object:
    """As JSON has it; anything else as masked text."""
    if value is None or isinstance(value, bool | int | float):
        return value
    return masked(str(value))


def _quoted(value: object) -> str:
    text = str(value)
    return text if re.fullmatch(r"[\w@./:+-]+", text, re.ASCII) else json.dumps(text)


def _trace(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    parts = [] if not record.exc_info else [formatter.formatException(record.exc_info)]
    if record.stack_info:
        parts.append(formatter.formatStack(record.stack_info))
    return "\n".join(parts)


def _visible(text: str) -> str:
    """Control and format characters (line ends, escapes, bidirectional marks) as escapes."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        char.encode("unicode_escape").decode("ascii")
        if unicodedata.category(char) in _INVISIBLE
        else char
        for char in text
    )
