"""When a window may close before its time: what was asked for, where it is looked at, and why."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tuner.loadgen.interval_width import (
    mean_half_width,
    quantile_half_width,
    share_half_width,
)
from tuner.loadgen.records import FloatArray
from tuner.loadgen.steady_state import settling

PARTS = 60
"""Equal parts of the whole window: tokens are counted in each, looks lie between them."""

PARTS_BETWEEN_LOOKS = 3

LAST_LOOK = 0.9
"""Share of the window: what closing later would save is not worth it."""

EARLIEST_LOOK = 0.4
"""An early abort compares the window's first third: every window has to contain it."""

FEWEST_REQUESTS = 60
"""Of a latency: of fewer, not even independent ones bound a 95th percentile."""

THROUGHPUT, ATTAINMENT = "output_tokens_per_s", "slo_attainment"
_LATENCIES = ("ttft", "tpot")


@dataclass(frozen=True, slots=True)
class AdaptiveWindow:
    """A window closes once all `quantities` have 90% intervals with half-widths of at most this
    share of their values, but not before this share of the window. Quantities are `ttft_p95`,
    `tpot_p50`, …, `slo_attainment` and `output_tokens_per_s`; any other one keeps it whole.
    """

    relative_half_width: float
    shortest_share: float
    quantities: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Width:
    """Half of a quantity's 90% interval over its value, from so many observations."""

    quantity: str
    observations: int
    relative_half_width: float


@dataclass(frozen=True, slots=True)
class Closing:
    """A window's early end, engine seconds from the segment's start, and what it rests on."""

    at_s: float
    widths: tuple[Width, ...]


def closing_from(document: Mapping[str, Any]) -> Closing:
    """A closing as JSON gives it back."""
    return Closing(document["at_s"], tuple(Width(**width) for width in document["widths"]))


def looks(rule: AdaptiveWindow, warmup_s: float, window_s: float) -> tuple[tuple[int, float], ...]:
    """The predetermined moments at which a window may close, by parts and by engine seconds from
    the segment's start. They depend on nothing that is measured."""
    first = max(PARTS_BETWEEN_LOOKS, math.ceil(rule.shortest_share * PARTS - 1e-9))
    parts = range(first, int(LAST_LOOK * PARTS) + 1, PARTS_BETWEEN_LOOKS)
    return tuple((part, warmup_s + window_s * part / PARTS) for part in parts)


def closing_at(
    rule: AdaptiveWindow, at_s: float, observations: Mapping[str, FloatArray]
) -> Closing | None:
    """Whether the window closes at a look; `observations` are what was known then, by stem.

    `ttft` and `tpot` are latencies in the order in which the requests were due (infinite: none
    came), `slo_attainment` holds 1 for good and 0 for bad ones, `output_tokens_per_s` the tokens of
    each part. Of the latencies only the unbroken beginning counts: see `docs/measurement.md`.

    Stopping on a width is nearly harmless where stopping on a value is not: it cannot be reached by
    waiting for a value that pleases. Widths and values are not independent where the spread grows
    with the value, so that calm beginnings end a little sooner; relative widths take most of that
    away (Chow and Robbins, 1965, on sequential intervals of fixed width).
    """
    widths = tuple(_width(name, observations) for name in rule.quantities)
    narrow = all(width.relative_half_width <= rule.relative_half_width for width in widths)
    return Closing(at_s, widths) if widths and narrow else None


def _width(name: str, observations: Mapping[str, FloatArray]) -> Width:
    stem, _, percentile = name.partition("_p")
    latency = stem in _LATENCIES and percentile.isdecimal()
    values = observations.get(stem if latency else name)
    if values is None:
        return Width(name, 0, math.inf)
    if name == THROUGHPUT:
        return _throughput_width(values)
    if values.size < FEWEST_REQUESTS:
        return Width(name, values.size, math.inf)
    if latency:
        return Width(name, values.size, quantile_half_width(values, int(percentile) / 100))
    return Width(name, values.size, share_half_width(values))


def _throughput_width(tokens: FloatArray) -> Width:
    """Of the parts that the summary would keep; unknown while the rate has not settled."""
    found = settling(tokens)
    kept = tokens[found.skipped :]
    return Width(THROUGHPUT, kept.size, mean_half_width(kept) if found.steady else math.inf)
