from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tuner.domain.engine_config import EngineConfig


@dataclass(frozen=True, slots=True)
class MemoryForecast:
    """What a memory model expects of a configuration.

    `max_safe_utilization` is the largest gpu-memory-utilization at which this sequences/tokens pair
    is expected to survive load, whatever the configuration's own is; None when the model cannot
    tell. `failure_class` (facts/vllm.md §C) is None when the configuration is expected to run;
    `severity` is a diagnosis's: needed over available in the failing resource. `min_utilization` is
    the smallest at which the engine starts at all; above `max_safe_utilization` where none does.
    """

    max_safe_utilization: float | None
    failure_class: str | None = None
    severity: float | None = None
    summary: str = ""
    min_utilization: float | None = None


MARGIN = 0.01
"""Left between a bound of the memory model and what is tried."""

POINTS = 13
"""Nodes per axis: what a table says between two of them is off by less than `MARGIN`."""

MemoryForecaster = Callable[[EngineConfig], MemoryForecast]


@dataclass(frozen=True, slots=True)
class UtilizationTable:
    """A bound of the utilisation less a margin over sequences and tokens, frozen as a table.

    Bilinear in log2 of both; beyond the table its edge holds. A table instead of the model, because
    the map between coordinates and flags must not change while a study runs.
    """

    log2_sequences: tuple[float, ...]
    log2_tokens: tuple[float, ...]
    utilization: tuple[tuple[float, ...], ...]
    """One row per entry of `log2_sequences`, one column per entry of `log2_tokens`."""
    margin: float

    @classmethod
    def ceiling(
        cls,
        forecaster: MemoryForecaster,
        base: EngineConfig,
        *,
        sequences: tuple[int, int],
        tokens: tuple[int, int],
        margin: float = MARGIN,
    ) -> UtilizationTable | None:
        """The largest safe utilisation over both (inclusive) ranges; None when it is not known."""

        def bound(config: EngineConfig) -> float | None:
            return forecaster(config).max_safe_utilization

        return cls._tabulate(bound, base, sequences, tokens, margin)

    @classmethod
    def floor(
        cls,
        forecaster: MemoryForecaster,
        base: EngineConfig,
        *,
        sequences: tuple[int, int],
        tokens: tuple[int, int],
        margin: float = MARGIN,
    ) -> UtilizationTable | None:
        """The smallest that starts, plus `margin`, over both ranges; None when it is not known."""

        def bound(config: EngineConfig) -> float | None:
            return forecaster(config).min_utilization

        return cls._tabulate(bound, base, sequences, tokens, -margin)

    @classmethod
    def _tabulate(
        cls,
        bound: Callable[[EngineConfig], float | None],
        base: EngineConfig,
        sequences: tuple[int, int],
        tokens: tuple[int, int],
        margin: float,
    ) -> UtilizationTable | None:
        rows_at = _spread(*sequences, POINTS)
        columns_at = _spread(*tokens, POINTS)
        table: list[tuple[float, ...]] = []
        for row in rows_at:
            bounds = [bound(_chunked_config(base, row, column)) for column in columns_at]
            known = tuple(value for value in bounds if value is not None)
            if len(known) < len(bounds):
                return None
            table.append(known)
        return cls(rows_at, columns_at, tuple(table), margin)

    def at(self, sequences: int, tokens: int) -> float:
        """The bound with these limits; may lie outside any usable range."""
        row, row_share = _locate(self.log2_sequences, math.log2(sequences))
        column, column_share = _locate(self.log2_tokens, math.log2(tokens))
        upper = _between(self.utilization[row], column, column_share)
        if row_share == 0:
            return upper - self.margin
        lower = _between(self.utilization[row + 1], column, column_share)
        return upper + row_share * (lower - upper) - self.margin

    @property
    def highest(self) -> float:
        """The largest bound anywhere in the table."""
        return max(max(row) for row in self.utilization) - self.margin

    def to_dict(self) -> dict[str, object]:
        return {
            "log2_sequences": list(self.log2_sequences),
            "log2_tokens": list(self.log2_tokens),
            "utilization": [list(row) for row in self.utilization],
            "margin": self.margin,
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, object]) -> UtilizationTable:
        """The inverse of `to_dict`; ValueError for a document of another shape."""
        rows = document.get("utilization")
        margin = document.get("margin")
        if not isinstance(rows, list) or not isinstance(margin, int | float):
            raise ValueError("not a table of utilisations")
        return cls(
            _numbers(document.get("log2_sequences")),
            _numbers(document.get("log2_tokens")),
            tuple(_numbers(row) for row in rows),
            float(margin),
        )


def _chunked_config(base: EngineConfig, log2_sequences: float, log2_tokens: float) -> EngineConfig:
    sequences = round(2**log2_sequences)
    flags = {
        "max-num-seqs": sequences,
        "max-num-batched-tokens": max(round(2**log2_tokens), sequences),
        "enable-chunked-prefill": True,
    }
    return base.with_flags(flags)


def _spread(low: int, high: int, points: int) -> tuple[float, ...]:
    """Log2 nodes from `low` to `high`; a single one for a degenerate range."""
    first, last = math.log2(low), math.log2(high)
    if low == high:
        return (first,)
    step = (last - first) / (points - 1)
    return (*(first + step * i for i in range(points - 1)), last)


def _locate(nodes: Sequence[float], at: float) -> tuple[int, float]:
    """The node below `at` and the share of the way to the next one, held at the edges."""
    if at <= nodes[0]:
        return 0, 0.0
    if at >= nodes[-1]:
        return len(nodes) - 1, 0.0
    index = bisect_right(nodes, at) - 1
    return index, (at - nodes[index]) / (nodes[index + 1] - nodes[index])


def _between(row: Sequence[float], index: int, share: float) -> float:
    if share == 0:
        return row[index]
    return row[index] + share * (row[index + 1] - row[index])


def _numbers(value: object) -> tuple[float, ...]:
    if not isinstance(value, list) or not value:
        raise ValueError("a list of numbers is expected")
    numbers = []
    for item in value:
        if isinstance(item, bool) or not isinstance(item, int | float):
            raise ValueError(f"{item!r} is not a number")
        numbers.append(float(item))
    return tuple(numbers)
