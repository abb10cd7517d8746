"""What a handful of paired score differences says about the gain behind them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy import stats

LEVEL = 0.90

SPREAD_FLOOR = 0.005
"""Smallest standard deviation believed of a score difference: three rounds that agree to the third
digit are luck, not precision."""

PRACTICAL_GAIN = math.log(1.01)
"""Gains below 1% are not worth a change of a running service, however certain they are."""


@dataclass(frozen=True, slots=True)
class GainInterval:
    """A mean score difference (logarithm of the improvement) and its two-sided t interval.

    `low` and `high` are None with fewer than two rounds: one pair says nothing of its own spread.
    """

    mean: float
    low: float | None
    high: float | None
    rounds: int
    level: float = LEVEL

    @property
    def significant(self) -> bool:
        """Above zero with confidence, and worth having in practice."""
        return self.low is not None and self.low > 0 and self.mean >= PRACTICAL_GAIN

    @property
    def undecided(self) -> bool:
        """Another round could still change the verdict."""
        if self.low is None or self.high is None:
            return True
        return self.low <= 0 and self.high >= PRACTICAL_GAIN

    @property
    def percent(self) -> str:
        """The gain for people: `4.2 to 9.8 %`, or the mean alone without an interval."""
        if self.low is None or self.high is None:
            return f"{gain_percent(self.mean):.1f} %"
        return f"{gain_percent(self.low):.1f} to {gain_percent(self.high):.1f} %"


def gain_percent(score_difference: float) -> float:
    """Per cent of improvement behind a difference of weighted log-ratio scores."""
    return 100 * math.expm1(score_difference)


def gain_interval(differences: Sequence[float]) -> GainInterval | None:
    """Student's t interval at LEVEL over paired differences, one per round; None without any."""
    count = len(differences)
    if count == 0:
        return None
    mean = math.fsum(differences) / count
    if count == 1:
        return GainInterval(mean, None, None, 1)
    variance = math.fsum((d - mean) ** 2 for d in differences) / (count - 1)
    spread = max(math.sqrt(variance), SPREAD_FLOOR)
    quantile = float(stats.t.ppf(0.5 + LEVEL / 2, count - 1))
    margin = quantile * spread / math.sqrt(count)
    return GainInterval(mean, mean - margin, mean + margin, count)
