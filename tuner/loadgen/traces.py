"""Recorded requests read from files. A line that cannot be used is an error, never dropped."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tuner.errors import InvalidTraceError

BUILTIN_PREFIX = "builtin:"
BUILTIN_TRACES = {"azure-conv-2023": "azure_conv_2023.csv"}
AZURE_COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
LONGEST_LENGTH_TOKENS = 10_000_000
"""A length beyond this is a broken file rather than a request."""

LARGEST_FILE_BYTES = 256 << 20
"""Some six million requests; every trial reads the whole."""


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Requests in order of arrival. `gaps_s[i]` lies before request i; the first is the mean."""

    source: str
    prompt_tokens: npt.NDArray[np.int64]
    output_tokens: npt.NDArray[np.int64]
    gaps_s: npt.NDArray[np.float64]


def read_azure_trace(file: str, *, base_dir: Path) -> Trace:
    """An Azure LLM inference trace from `builtin:NAME` or a path relative to `base_dir`.

    Raises InvalidTraceError naming file and line.
    """
    return parse_azure_trace(_text(file, base_dir), source=file)


def parse_azure_trace(text: str, *, source: str) -> Trace:
    """Parse CSV with the columns TIMESTAMP, ContextTokens, GeneratedTokens."""
    stamps: list[float] = []
    prompts: list[int] = []
    outputs: list[int] = []
    for line, row in _rows(text, source):
        stamps.append(_timestamp(row[0], source, line))
        prompts.append(_length(row[1], AZURE_COLUMNS[1], source, line))
        outputs.append(_length(row[2], AZURE_COLUMNS[2], source, line))
        if len(stamps) > 1 and stamps[-1] < stamps[-2]:
            raise _fault(source, line, f"timestamp {row[0]!r} lies before the line above it")
    if len(stamps) < 2 or stamps[-1] == stamps[0]:
        raise InvalidTraceError(
            f"{len(stamps)} request(s) over no time: a trace needs at least two arrival times",
            where=source,
        )
    gaps = np.diff(np.asarray(stamps))
    return Trace(
        source=source,
        prompt_tokens=np.asarray(prompts, dtype=np.int64),
        output_tokens=np.asarray(outputs, dtype=np.int64),
        gaps_s=np.concatenate(([gaps.mean()], gaps)),
    )


def _text(file: str, base_dir: Path) -> str:
    if file.startswith(BUILTIN_PREFIX):
        name = file.removeprefix(BUILTIN_PREFIX)
        if name not in BUILTIN_TRACES:
            known = ", ".join(BUILTIN_PREFIX + known for known in BUILTIN_TRACES)
            raise InvalidTraceError(f"no such trace is shipped; there are: {known}", where=file)
        packaged = resources.files("tuner.loadgen") / "data" / BUILTIN_TRACES[name]
        return packaged.read_text(encoding="utf-8")
    try:
        return _read(base_dir / file, file).decode("utf-8-sig")
    except OSError as error:
        raise InvalidTraceError(
            f"cannot be read: {error.strerror or error}",
            where=file,
            hint=f"relative names are looked up in {base_dir}",
        ) from error
    except UnicodeDecodeError as error:
        raise InvalidTraceError(f"not UTF-8 text: {error}", where=file) from error


def _read(path: Path, source: str) -> bytes:
    """The file's bytes; a pipe would be empty for the next trial, a device has no end."""
    if path.exists() and not path.is_dir() and not path.is_file():
        raise InvalidTraceError("is not a regular file", where=source)
    with path.open("rb") as file:
        content = file.read(LARGEST_FILE_BYTES + 1)
    if len(content) > LARGEST_FILE_BYTES:
        raise InvalidTraceError(
            f"more than {LARGEST_FILE_BYTES >> 20} MiB", where=source, hint="cut the trace"
        )
    return content


def _rows(text: str, source: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(text.splitlines(), strict=True)
    try:
        header = next(reader, [])
        if tuple(name.strip() for name in header) != AZURE_COLUMNS:
            raise _fault(source, 1, f"expected the columns {','.join(AZURE_COLUMNS)}")
        for row in reader:
            if len(row) != len(AZURE_COLUMNS):
                found = f"{len(row)} fields instead of {len(AZURE_COLUMNS)}"
                raise _fault(source, reader.line_num, found if row else "the line is empty")
            yield reader.line_num, row
    except csv.Error as error:
        raise _fault(source, reader.line_num, f"not CSV: {error}") from error


def _timestamp(text: str, source: str, line: int) -> float:
    # The trace has seven fractional digits; datetime takes at most six.
    whole, dot, fraction = text.strip().partition(".")
    if dot and not fraction.isdecimal():
        raise _fault(source, line, f"{text!r} is not a timestamp")
    try:
        moment = datetime.fromisoformat(whole)
    except ValueError as error:
        raise _fault(source, line, f"{text!r} is not a timestamp") from error
    return moment.replace(tzinfo=UTC).timestamp() + float(f"0.{fraction or 0}")


def _length(text: str, column: str, source: str, line: int) -> int:
    digits = text.strip()
    value = int(digits) if digits.isascii() and digits.isdecimal() and len(digits) < 12 else 0
    if not 1 <= value <= LONGEST_LENGTH_TOKENS:
        raise _fault(source, line, f"{column} must be a whole number of at least 1, not {text!r}")
    return value


def _fault(source: str, line: int, message: str) -> InvalidTraceError:
    return InvalidTraceError(message, where=f"{source}, line {line}")
