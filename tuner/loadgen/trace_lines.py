"""Reading the lines of a trace. One that cannot be used is an error with its number."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tuner.errors import InvalidTraceError

LONGEST_LENGTH_TOKENS = 10_000_000
"""A length beyond this is a broken file rather than a request."""

MOST_BLOCKS = 5_000_000
"""Of all prompts together: long histories of many turns would grow without bound."""

LATEST_STAMP_S = 1e11
"""A stamp beyond this is not in seconds."""


def fault(source: str, line: int, message: str) -> InvalidTraceError:
    """What is wrong with a line."""
    return InvalidTraceError(message, where=f"{source}, line {line}")


def csv_rows(
    text: str, source: str, columns: Sequence[Sequence[str]]
) -> Iterator[tuple[int, dict[str, str]]]:
    """Line numbers and fields by name. The header must be one of `columns`."""
    reader = csv.reader(text.splitlines(), strict=True)
    try:
        header = tuple(name.strip() for name in next(reader, []))
        if header not in {tuple(names) for names in columns}:
            wanted = ", or ".join(",".join(names) for names in columns)
            raise fault(source, 1, f"expected the columns {wanted}")
        for row in reader:
            if len(row) != len(header):
                found = f"{len(row)} fields instead of {len(header)}"
                raise fault(source, reader.line_num, found if row else "the line is empty")
            yield reader.line_num, dict(zip(header, row, strict=True))
    except csv.Error as error:
        raise fault(source, reader.line_num, f"not CSV: {error}") from error


def json_lines(text: str, source: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Line numbers and the object of each line."""
    # JSON allows in its texts what str.splitlines takes for an end of line.
    lines = text.removesuffix("\n").split("\n") if text else []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            raise fault(source, number, "the line is empty")
        yield number, json_object(line, source, number)


def json_object(text: str, source: str, line: int) -> Mapping[str, Any]:
    """The one JSON object of a line."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise fault(source, line, f"not JSON: {error}") from error
    if not isinstance(found, dict):
        raise fault(source, line, "is not a JSON object")
    return found


def length_of_text(text: str, column: str, source: str, line: int) -> int:
    """A number of tokens written in a CSV field."""
    digits = text.strip()
    value = int(digits) if digits.isascii() and digits.isdecimal() and len(digits) < 12 else 0
    if not 1 <= value <= LONGEST_LENGTH_TOKENS:
        raise fault(source, line, f"{column} must be a whole number of at least 1, not {text!r}")
    return value


def length_of_json(values: Mapping[str, Any], key: str, source: str, line: int) -> int:
    """A number of tokens in a JSON object."""
    value = values.get(key)
    if type(value) is not int or not 1 <= value <= LONGEST_LENGTH_TOKENS:
        raise fault(
            source, line, f"{key} must be a whole number of at least 1, not {_shown(value)}"
        )
    return value


def seconds(value: object, key: str, source: str, line: int) -> float:
    """A moment in seconds from any beginning, as JSON number or CSV text."""
    try:
        moment = float(value) if isinstance(value, str | int | float) else math.nan
    except (ValueError, OverflowError):
        moment = math.nan
    if isinstance(value, bool) or not 0 <= moment <= LATEST_STAMP_S:
        raise fault(source, line, f"{key} must be seconds of at least 0, not {_shown(value)}")
    return moment


def require_order(stamps_s: Sequence[float], shown: object, source: str, line: int) -> None:
    """The newest stamp may not lie before the one above it."""
    if len(stamps_s) > 1 and stamps_s[-1] < stamps_s[-2]:
        raise fault(source, line, f"timestamp {_shown(shown)} lies before the line above it")


def require_few_blocks(count: int, source: str, line: int) -> None:
    """What prompts consist of must fit into memory."""
    if count > MOST_BLOCKS:
        message = (
            f"prompts of more than {MOST_BLOCKS:,} pieces together: too many or too long turns"
        )
        raise fault(source, line, message)


def require_requests(count: int, source: str) -> None:
    """A file without requests is no workload."""
    if count == 0:
        raise InvalidTraceError("there is no request in it", where=source)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
