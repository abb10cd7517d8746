"""What ends a load before its time: rising backlog and failing requests."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tuner.loadgen.records import FloatArray
from tuner.loadgen.sprt import wald_boundary, wald_log_ratio

BACKLOG_ERRORS = 3.0
"""Standard deviations by which the backlog must have grown. It is looked at again and again, so
that two would be reached by chance."""

FEWEST_ARRIVALS = 30
"""Of fewer requests a rising backlog is a burst."""

ARRIVALS_PER_BIN, FEWEST_BINS = 5, 4
"""For the dispersion of arrivals."""

FAILURES_HELD, FAILURES_FAILED = 0.005, 0.02
"""Shares of failed requests of an engine that plainly serves and of one that plainly does not."""

FAILURES_ERROR = 0.01
"""Probability of either mistake about that."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """Requests without a token at a window's beginning and now, and those due between."""

    before: int
    now: int
    arrivals: int
    dispersion: float = 1.0
    """Of the arrivals' counts, variance over mean: 1 for Poisson's, more for bursts."""

    @property
    def allowed(self) -> float:
        """Growth that chance explains at a load just met: arrivals and departures are then two
        independent streams of the same rate, and the variances of their counts add up."""
        return BACKLOG_ERRORS * math.sqrt((1 + self.dispersion) * self.arrivals)

    @property
    def rises(self) -> bool:
        """Whether the engine plainly cannot keep up."""
        return self.arrivals >= FEWEST_ARRIVALS and self.now - self.before > self.allowed


def dispersion(due_s: FloatArray) -> float:
    """Variance over mean of the arrivals' counts in equal bins, at least 1."""
    bins = due_s.size // ARRIVALS_PER_BIN
    if bins < FEWEST_BINS:
        return 1.0
    counts, _ = np.histogram(due_s, bins=bins)
    return max(1.0, float(counts.var(ddof=1) / counts.mean()))


def too_many_failures(ended: int, failed: int) -> bool:
    """Wald's test on the share of requests that ended badly: whether it is plainly too high."""
    ratio = wald_log_ratio(failed, ended - failed, FAILURES_HELD, FAILURES_FAILED)
    return ratio >= wald_boundary(FAILURES_ERROR)
