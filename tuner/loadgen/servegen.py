"""Requests drawn from ServeGen's description of clients.

A client is two files: `NAME-trace.csv` with rows of window start (s), rate (requests/s),
coefficient of variation of the gaps, their family (Gamma or Weibull) with shape and scale; and
`NAME-dataset.json` with distributions of lengths by the start of their window.
"""

from __future__ import annotations

import ast
import csv
import json
import math
from dataclasses import dataclass

import numpy as np

from tuner.errors import InvalidTraceError
from tuner.loadgen.trace import FloatArray, IntArray, Trace, gaps_between
from tuner.loadgen.trace_lines import LONGEST_LENGTH_TOKENS, fault, require_requests

WINDOW_S = 600.0
MOST_REQUESTS = 500_000
COLUMNS = 6
PARTS = ("input_tokens", "output_tokens")


@dataclass(frozen=True, slots=True)
class ClientFiles:
    """The text of a client's two files, and what they are called."""

    trace: str
    trace_source: str
    dataset: str
    dataset_source: str


@dataclass(frozen=True, slots=True)
class _Window:
    start_s: float
    rate_per_s: float
    family: str
    shape: float
    scale: float

    def gaps_s(self, count: int, rng: np.random.Generator) -> FloatArray:
        if self.family == "Gamma":
            return rng.gamma(self.shape, self.scale, count)
        return self.scale * rng.weibull(self.shape, count)


@dataclass(frozen=True, slots=True, eq=False)
class _Lengths:
    start_s: float
    values: dict[str, tuple[IntArray, FloatArray]]


def draw_clients(clients: list[ClientFiles], *, source: str, rng: np.random.Generator) -> Trace:
    """The busiest ten minutes of these clients together, drawn anew."""
    read = [(_windows(each), _lengths(each)) for each in clients]
    rates: dict[float, float] = {}
    for windows, _ in read:
        for window in windows:
            rates[window.start_s] = rates.get(window.start_s, 0.0) + window.rate_per_s
    busiest_s = max(rates, key=lambda start_s: (rates[start_s], -start_s))
    if rates[busiest_s] * WINDOW_S > MOST_REQUESTS:
        raise InvalidTraceError(f"more than {MOST_REQUESTS:,} requests", where=source)
    drawn = [
        _draw(window, lengths, rng)
        for windows, lengths in read
        for window in windows
        if window.start_s == busiest_s
    ]
    stamps, prompts, outputs = (np.concatenate(column) for column in zip(*drawn, strict=True))
    require_requests(int(stamps.size), source)
    order = np.argsort(stamps, kind="stable")
    note = f"drawn from ServeGen's window at {busiest_s:g} s, the busiest; {len(clients)} client(s)"
    return Trace(
        source,
        "servegen",
        prompts[order],
        outputs[order],
        gaps_between(stamps[order]),
        notes=(note,),
    )


def _draw(
    window: _Window, lengths: list[_Lengths], rng: np.random.Generator
) -> tuple[FloatArray, IntArray, IntArray]:
    expected = window.rate_per_s * WINDOW_S
    stamps = np.cumsum(window.gaps_s(int(expected + 1), rng))
    while stamps[-1] < WINDOW_S and stamps.size < MOST_REQUESTS:
        more = np.cumsum(window.gaps_s(stamps.size, rng))
        stamps = np.concatenate((stamps, stamps[-1] + more))
    stamps = stamps[stamps < WINDOW_S]
    known = [each for each in lengths if each.start_s <= window.start_s] or lengths[:1]
    columns = (
        rng.choice(values, size=stamps.size, p=shares)
        for values, shares in (known[-1].values[part] for part in PARTS)
    )
    prompts, outputs = columns
    return stamps, prompts, outputs


def _windows(files: ClientFiles) -> list[_Window]:
    windows = []
    source = files.trace_source
    for line, row in enumerate(csv.reader(files.trace.splitlines()), 1):
        if len(row) != COLUMNS:
            raise fault(source, line, f"{len(row)} fields instead of {COLUMNS}")
        family = row[3].strip()
        numbers = [_number(text, source, line) for at, text in enumerate(row) if at != 3]
        start_s, rate_per_s, _, shape, scale = numbers
        if rate_per_s == 0:
            continue
        if family not in ("Gamma", "Weibull"):
            raise fault(source, line, f"{family!r} is neither Gamma nor Weibull")
        if not (shape > 0 and scale > 0):
            raise fault(source, line, "shape and scale must be above 0")
        windows.append(_Window(start_s, rate_per_s, family, shape, scale))
    require_requests(len(windows), source)
    return windows


def _number(text: str, source: str, line: int) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise fault(source, line, f"{text!r} is not a number of at least 0")
    return value


def _lengths(files: ClientFiles) -> list[_Lengths]:
    source = files.dataset_source
    try:
        document = json.loads(files.dataset)
    except (ValueError, RecursionError) as error:
        raise InvalidTraceError(f"not JSON: {error}", where=source) from error
    if not isinstance(document, dict) or not document:
        raise InvalidTraceError("expected an object of windows", where=source)
    found = []
    for name, parts in document.items():
        if not isinstance(parts, dict):
            raise InvalidTraceError(f"window {name!r} is not an object", where=source)
        if all(not parts.get(part) or parts[part] == "{}" for part in PARTS):
            continue
        values = {part: _distribution(parts.get(part), f"{name}.{part}", source) for part in PARTS}
        found.append(_Lengths(_start_s(name, source), values))
    if not found:
        raise InvalidTraceError("no window has lengths", where=source)
    return sorted(found, key=lambda each: each.start_s)


def _start_s(name: str, source: str) -> float:
    try:
        return float(name)
    except ValueError:
        raise InvalidTraceError(f"{name!r} is no window's start in seconds", where=source) from None


def _distribution(text: object, path: str, source: str) -> tuple[IntArray, FloatArray]:
    """Lengths and their shares from `{length: share, …}` written as text."""
    try:
        pairs = ast.literal_eval(text) if isinstance(text, str) else text
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        pairs = None
    if not isinstance(pairs, dict) or not pairs or not all(map(_is_share, pairs.items())):
        raise InvalidTraceError(f"{path} is no distribution of lengths", where=source)
    # ServeGen counts requests without output, too; the engine is asked for at least one token.
    values = np.maximum(np.array([int(length) for length in pairs], dtype=np.int64), 1)
    shares = np.array(list(pairs.values()), dtype=np.float64)
    if not shares.sum() > 0:
        raise InvalidTraceError(f"{path} has no share above 0", where=source)
    return values, shares / shares.sum()


def _is_share(pair: tuple[object, object]) -> bool:
    length, share = pair
    if isinstance(length, str) and length.isdecimal() and len(length) < 12:
        length = int(length)
    return (
        isinstance(length, int | float)
        and 0 <= length <= LONGEST_LENGTH_TOKENS
        and isinstance(share, int | float)
        and 0 <= share < math.inf
    )
