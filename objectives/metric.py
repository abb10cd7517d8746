"""The measured quantities an objective can speak of, each with its unit and direction."""

from __future__ import annotations

from enum import Enum


class Direction(Enum):
    """Which way is better."""

    LOWER_IS_BETTER = "lower"
    HIGHER_IS_BETTER = "higher"


class Metric(Enum):
    """A quantity of a measurement; the value is its name in documents and JSON."""

    TTFT_MS = "ttft_ms"
    TPOT_MS = "tpot_ms"
    ITL_MS = "itl_ms"
    E2E_MS = "e2e_ms"
    OUTPUT_TOKENS_PER_S = "output_tokens_per_s"
    GOODPUT_PER_S = "goodput_per_s"
    MAX_RATE_PER_S = "max_rate_per_s"

    @property
    def direction(self) -> Direction:
        """The direction belongs to the quantity and cannot be configured wrongly."""
        return Direction.HIGHER_IS_BETTER if self in _RATES else Direction.LOWER_IS_BETTER


_RATES = (Metric.OUTPUT_TOKENS_PER_S, Metric.GOODPUT_PER_S, Metric.MAX_RATE_PER_S)
