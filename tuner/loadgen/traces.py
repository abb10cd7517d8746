"""Traces read from files, in any format that is known."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import get_args

import numpy as np

from tuner.domain.study_spec import TraceFormat
from tuner.errors import InvalidTraceError
from tuner.loadgen.jsonl_trace import parse_jsonl
from tuner.loadgen.mooncake_trace import parse_mooncake
from tuner.loadgen.servegen import ClientFiles, draw_clients
from tuner.loadgen.sharegpt_trace import parse_sharegpt
from tuner.loadgen.trace import Trace
from tuner.loadgen.trace_csv import (
    AZURE_COLUMNS,
    BURSTGPT_COLUMNS,
    VIDUR_COLUMNS,
    parse_azure,
    parse_burstgpt,
    parse_vidur,
)

BUILTIN_PREFIX = "builtin:"
BUILTIN_TRACES = {"azure-conv-2023": "azure_conv_2023.csv"}
FORMATS: tuple[TraceFormat, ...] = get_args(TraceFormat)
SERVEGEN_TRACE, SERVEGEN_DATASET = "-trace.csv", "-dataset.json"

LARGEST_FILE_BYTES = 256 << 20
"""Some six million requests; every trial reads the whole."""

Parser = Callable[[str, str, np.random.Generator], Trace]

_PARSERS: dict[str, Parser] = {
    "azure": lambda text, source, rng: parse_azure(text, source=source),
    "burstgpt": lambda text, source, rng: parse_burstgpt(text, source=source, rng=rng),
    "vidur": lambda text, source, rng: parse_vidur(text, source=source),
    "mooncake": lambda text, source, rng: parse_mooncake(text, source=source, rng=rng),
    "sharegpt": lambda text, source, rng: parse_sharegpt(text, source=source),
    "jsonl": lambda text, source, rng: parse_jsonl(text, source=source),
}


def read_trace(
    file: str,
    *,
    base_dir: Path,
    format: TraceFormat = "auto",
    rng: np.random.Generator | None = None,
) -> Trace:
    """A trace from `builtin:NAME` or a path relative to `base_dir`.

    `rng` spreads rounded stamps and draws from distributions; seeded with 0 when absent. Raises
    InvalidTraceError naming file and line.
    """
    rng = rng or np.random.default_rng(0)
    if format == "servegen" or (format == "auto" and file.endswith(SERVEGEN_TRACE)):
        return _servegen(file, base_dir, rng)
    return parse_trace(_text(file, base_dir), source=file, format=format, rng=rng)


def parse_trace(
    text: str,
    *,
    source: str,
    format: TraceFormat = "auto",
    rng: np.random.Generator | None = None,
) -> Trace:
    """A trace from the text of one file; `auto` tells the format by its beginning."""
    rng = rng or np.random.default_rng(0)
    known = format_of(text, source) if format == "auto" else format
    if known == "servegen":
        raise InvalidTraceError(
            "a ServeGen client is two files",
            where=source,
            hint="name NAME-trace.csv in a study file, with NAME-dataset.json beside it",
        )
    return _PARSERS[known](text, source, rng)


def format_of(text: str, source: str) -> str:
    """The format that the beginning of a file shows. InvalidTraceError where it shows none."""
    first = text.lstrip().split("\n", 1)[0].strip()
    if first.startswith("["):
        return "sharegpt"
    if first.startswith("{"):
        return _json_format(first)
    columns = tuple(name.strip() for name in first.split(","))
    for name, known in (
        ("azure", (AZURE_COLUMNS,)),
        ("burstgpt", BURSTGPT_COLUMNS),
        ("vidur", (VIDUR_COLUMNS, VIDUR_COLUMNS[:2])),
    ):
        if columns in known:
            return name
    raise InvalidTraceError(
        f"expected the columns {','.join(AZURE_COLUMNS)}, or those of another known format",
        where=f"{source}, line 1",
        hint=f"formats: {', '.join(name for name in FORMATS if name != 'auto')}",
    )


def _json_format(line: str) -> str:
    try:
        keys = set(json.loads(line))
    except (ValueError, RecursionError):
        return "jsonl"
    if "hash_ids" in keys:
        return "mooncake"
    return "sharegpt" if keys & {"conversations", "messages"} else "jsonl"


def _servegen(file: str, base_dir: Path, rng: np.random.Generator) -> Trace:
    """A client by the name of its trace, or all clients of a directory."""
    if file.startswith(BUILTIN_PREFIX):
        raise InvalidTraceError("no ServeGen client is shipped", where=file)
    names = [file]
    if (base_dir / file).is_dir():
        found = sorted((base_dir / file).glob(f"*{SERVEGEN_TRACE}"))
        names = [str(Path(file) / path.name) for path in found]
    if not names:
        raise InvalidTraceError(f"no *{SERVEGEN_TRACE} in the directory", where=file)
    clients = []
    for name in names:
        if not name.endswith(SERVEGEN_TRACE):
            message = f"a ServeGen client's file ends in {SERVEGEN_TRACE}"
            raise InvalidTraceError(message, where=name)
        dataset = name.removesuffix(SERVEGEN_TRACE) + SERVEGEN_DATASET
        clients.append(ClientFiles(_text(name, base_dir), name, _text(dataset, base_dir), dataset))
    return draw_clients(clients, source=file, rng=rng)


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
