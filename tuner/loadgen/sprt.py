"""Whether a rate meets the SLO: Wald's sequential probability ratio test on good and bad requests.

Wald, Sequential Tests of Statistical Hypotheses (1945). It supposes independent requests, and those
of a busy engine are not: they are bad together. So the log likelihood ratio is divided by how much
more the requests' strain varies in the long run than independent ones would. The strain, the used
share of the SLO, shows a queue's memory long before the first request is bad.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

import numpy as np

from tuner.loadgen.records import FloatArray

SMALLEST_TOLERANCE = 0.005
"""Share of bad requests that even an attainment of 1 is tested against: no sample shows 0."""

LESS, MORE = 0.6, 1.4
"""Times the tolerated share of bad requests: what plainly holds and what plainly fails. Between
them lies the zone in which either answer is right."""

FIRST_LOOK = 20
"""Requests."""

GROWTH_OF_LOOKS = 1.05
"""Requests at a look over those at the one before: the memory is estimated anew at each."""

LONGEST_REACH = 0.25
"""Of the requests seen: memory that reaches further cannot be told from a trend."""


ROUNDING = 1e-18
"""Variance that is none: equal values that were computed differently."""


def wald_log_ratio(bad: int, good: int, held: float, failed: float) -> float:
    """Log likelihood of so many bad and good requests where the share `failed` of them is bad, over
    that where the share `held` is."""
    if_bad, if_good = math.log(failed / held), math.log((1 - failed) / (1 - held))
    return bad * if_bad + good * if_good


def wald_boundary(error: float) -> float:
    """Log likelihood ratio beyond which, on either side, a test errs with this probability."""
    return math.log((1 - error) / error)


class Verdict(Enum):
    HOLDS = "holds"
    FAILS = "fails"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the requests seen so far say. `log_ratio` is after division by `inflation`."""

    verdict: Verdict
    requests: int
    good: int
    log_ratio: float
    inflation: float


@dataclass(frozen=True, slots=True)
class AttainmentTest:
    """Tests whether at least `target` of all requests are good.

    An engine with `LESS` of the tolerated bad share is failed, one with `MORE` of it passed, with
    at most the probability `error` each. Raises ValueError outside (0, 1] and (0, 0.5).
    """

    target: float
    error: float = 0.05

    def __post_init__(self) -> None:
        if not (0 < self.target <= 1 and 0 < self.error < 0.5):
            raise ValueError("the target must lie in (0, 1], the error below one half")

    @property
    def bad_share_held(self) -> float:
        """Bad requests of an engine that plainly holds."""
        return LESS * self._tolerance

    @property
    def bad_share_failed(self) -> float:
        """Bad requests of an engine that plainly fails."""
        return min(0.99, MORE * self._tolerance)

    @property
    def boundary(self) -> float:
        """Log likelihood ratio at which the test ends, on either side."""
        return wald_boundary(self.error)

    @property
    def _tolerance(self) -> float:
        return max(1 - self.target, SMALLEST_TOLERANCE)

    def first_decision(self, strain: FloatArray, fewest: int = 0) -> Evidence:
        """The first look at `fewest` requests or more at which the test ends.

        One at everything where it does not end. `strain` in the order in which the requests were
        due; at most 1 is good.
        """
        for seen in (each for each in looks(strain.size) if each >= fewest):
            evidence = self.look(strain[:seen])
            if evidence.verdict is not Verdict.OPEN:
                return evidence
        return self.look(strain)

    def look(self, strain: FloatArray) -> Evidence:
        """What all these requests say, whatever was seen before."""
        count, good = int(strain.size), int(np.count_nonzero(strain <= 1))
        inflation = max(memory(strain), memory((strain > 1).astype(np.float64)))
        shares = self.bad_share_held, self.bad_share_failed
        log_ratio = wald_log_ratio(count - good, good, *shares) / inflation
        verdict = Verdict.OPEN
        if log_ratio >= self.boundary:
            verdict = Verdict.FAILS
        elif log_ratio <= -self.boundary:
            verdict = Verdict.HOLDS
        return Evidence(verdict, count, good, log_ratio, inflation)

    def met_by_share(self, evidence: Evidence) -> bool:
        """Whether a test that ran out of requests holds, by the share of good ones."""
        return evidence.requests > 0 and evidence.good >= self.target * evidence.requests


def looks(count: int) -> tuple[int, ...]:
    """Numbers of requests, at most `count`, at which the test is looked at: the same for all."""
    found, seen = [], float(FIRST_LOOK)
    while seen <= count:
        found.append(int(seen))
        seen = max(seen * GROWTH_OF_LOOKS, seen + 1)
    return tuple(found)


def memory(values: FloatArray) -> float:
    """Long-run variance over that of independent values, at least 1 (Bartlett's window).

    1 where all values are equal: then nothing is known of it.
    """
    count = values.size
    reach = int(LONGEST_REACH * count)
    centred = values - values.mean() if count else values
    variance = float(centred @ centred)
    if variance <= ROUNDING * count or reach == 0:
        return 1.0
    spectrum = np.abs(np.fft.rfft(centred, 2 * count)) ** 2
    covariance = np.fft.irfft(spectrum)[1 : reach + 1]
    taper = 1 - np.arange(1, reach + 1) / (reach + 1)
    return max(1.0, 1 + 2 * float(taper @ covariance) / variance)
