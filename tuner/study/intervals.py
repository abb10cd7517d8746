"""What a handful of paired score differences says about the gain behind them.

Three things would make a plain 90% t interval lie here: it is looked at after every further round
until it is decided, the best of several finalists is quoted, and three rounds can agree by luck.
Against the first two each look is taken at a higher level (`look_level`), against the third the
spread is pooled with what the runs' own intervals lead to expect. Giving up early because nothing
is to be hoped for any more can only keep a baseline, so it costs no honesty.
tests/unit/study/test_coverage.py holds the coverage that results.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import median

from tuner.study.sequential_looks import sequential_level

LEVEL = 0.90
"""The interval covers the true gain this often over whole confirmations: all looks, best arm."""

FINALISTS_EXPONENT = 1 / 2
"""Finalists share the noise of the baseline and of the requests: less than their number (a union
bound) is enough."""

LOOKS_GROWTH = 1.25
"""From one look to the next at least one round, and this much more data, where many are allowed."""

SPREAD_FLOOR = 0.005
"""Smallest standard deviation believed of a score difference: rounds that agree to the third digit
are luck, not precision."""

UNKNOWN_SPREAD = 0.10
"""Expected of a round's difference where the runs have no intervals (too few requests): the middle
of what facts/optimisation.md §4 found, 3 to 21%."""

PRIOR_WEIGHT = 2
"""Degrees of freedom that the expected spread is worth."""

LEAST_CHANCE = 0.05
"""Of ever being significant: with less another round is not worth its engine time."""

PRACTICAL_GAIN = math.log(1.01)
"""Gains below 1% are not worth a change of a running service, however certain they are."""


@dataclass(frozen=True, slots=True)
class GainInterval:
    """A mean score difference (logarithm of the improvement) and its interval at `level`.

    `low` and `high` are None with fewer than two rounds. `spread` is the standard deviation of one
    round's difference that the interval believes.
    """

    mean: float
    low: float | None
    high: float | None
    rounds: int
    level: float = LEVEL
    spread: float | None = None

    @property
    def significant(self) -> bool:
        """Above zero with confidence, and worth having in practice."""
        return self.low is not None and self.low > 0 and self.mean >= PRACTICAL_GAIN

    @property
    def hopeless(self) -> bool:
        """With confidence not worth having."""
        return self.high is not None and self.high < PRACTICAL_GAIN

    @property
    def undecided(self) -> bool:
        """Another round could still change the verdict."""
        if self.low is None or self.high is None:
            return True
        return self.low <= 0 and self.high >= PRACTICAL_GAIN

    @property
    def percent(self) -> str:
        """The gain for people: `4.2 % to 9.8 %` in short, or the mean alone without an interval."""
        if self.low is None or self.high is None:
            return f"{gain_percent(self.mean):.1f} %"
        low, high = gain_percent(self.low), gain_percent(self.high)
        return f"{low:.1f}\N{EN DASH}{high:.1f} %" if low >= 0 else f"{low:.1f} to {high:.1f} %"


def gain_percent(score_difference: float) -> float:
    """Per cent of improvement behind a difference of weighted log-ratio scores."""
    return 100 * math.expm1(score_difference)


def looks(rounds: int, max_rounds: int) -> tuple[int, ...]:
    """The numbers of rounds after which the interval is looked at; fixed before the first."""
    found = [rounds]
    while found[-1] < max_rounds:
        wanted = max(found[-1] + 1, math.floor(found[-1] * LOOKS_GROWTH))
        found.append(min(max_rounds, wanted))
    return tuple(found)


def look_level(rounds: int, max_rounds: int, finalists: int = 1) -> float:
    """The level of each single look at which all of them, at the best finalist, are at LEVEL."""
    return sequential_level(looks(rounds, max_rounds), (1 - LEVEL) / finalists**FINALISTS_EXPONENT)


def expected_spread(per_round: Sequence[float | None]) -> float | None:
    """The median of what is known of single rounds; None where nothing is."""
    known = [spread for spread in per_round if spread is not None]
    return float(median(known)) if known else None


def gain_interval(
    differences: Sequence[float],
    *,
    expected_spread: float | None = None,
    look_level: float = LEVEL,
) -> GainInterval | None:
    """Interval over paired differences, one per round; None without any.

    Student's t at `look_level`, its variance pooled with that of `expected_spread` (the standard
    deviation which the runs' own intervals predict for a difference; None where they have none).
    """
    count = len(differences)
    if count == 0:
        return None
    mean = math.fsum(differences) / count
    if count == 1:
        return GainInterval(mean, None, None, 1)
    expected = UNKNOWN_SPREAD if expected_spread is None else expected_spread
    squares = math.fsum((d - mean) ** 2 for d in differences)
    freedom = count - 1 + PRIOR_WEIGHT
    spread = math.sqrt((squares + PRIOR_WEIGHT * expected**2) / freedom)
    spread = max(spread, SPREAD_FLOOR)
    margin = _quantile(0.5 + look_level / 2, freedom) * spread / math.sqrt(count)
    return GainInterval(mean, mean - margin, mean + margin, count, spread=spread)


def chance_of_significance(
    interval: GainInterval, rounds: int, look_level: float = LEVEL
) -> float | None:
    """The probability that the interval after `rounds` will be significant, given it now.

    Predictive: the later rounds are as spread as the interval believes, around a gain of which only
    the mean so far is known. None with fewer than two rounds or when `rounds` are done.
    """
    if interval.spread is None or interval.rounds >= rounds:
        return None
    final = _quantile(0.5 + look_level / 2, rounds - 1 + PRIOR_WEIGHT)
    needed = max(PRACTICAL_GAIN, final * interval.spread / math.sqrt(rounds))
    deviation = interval.spread * math.sqrt(1 / interval.rounds - 1 / rounds)
    freedom = interval.rounds - 1 + PRIOR_WEIGHT
    from scipy.special import stdtr  # slow to import, and most commands need no interval

    return float(stdtr(freedom, (interval.mean - needed) / deviation))


@lru_cache(maxsize=256)
def _quantile(share: float, freedom: int) -> float:
    from scipy.special import stdtrit  # as above

    return float(stdtrit(freedom, share))
