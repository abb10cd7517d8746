from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from objectives.measurement import Estimate, Measurement
from objectives.score import Score, ScoreTerm
from objectives.weighted import PREEMPTIONS, weighted_penalty

Z_90 = 1.6448536269514722
"""Normal quantile of a two-sided 90% interval, the one every Estimate carries."""


@dataclass(frozen=True, slots=True)
class Slo:
    """Limits in milliseconds that a good request meets; `attainment` is the share that must.

    Raises ValueError without any limit, for one that is not positive, or a share outside (0, 1].
    """

    ttft_ms: float | None = None
    tpot_ms: float | None = None
    e2e_ms: float | None = None
    attainment: float = 0.95

    def __post_init__(self) -> None:
        limits = [x for x in (self.ttft_ms, self.tpot_ms, self.e2e_ms) if x is not None]
        if not limits or not all(limit > 0 for limit in limits):
            raise ValueError("an SLO needs at least one limit, and positive ones")
        if not 0 < self.attainment <= 1:
            raise ValueError("the share of good requests must lie in (0, 1]")

    def met_by(self, outcome: RequestOutcome) -> bool:
        """Whether the request is good.

        An error or an unfinished request never is. A finished one without a first-token or
        end-to-end time fails that limit. TPOT is undefined for an answer of one token: there is no
        second token that could be late, so the TPOT limit does not apply to it.
        """
        if not outcome.completed:
            return False
        if not _within(outcome.ttft_ms, self.ttft_ms) or not _within(outcome.e2e_ms, self.e2e_ms):
            return False
        return outcome.tpot_ms is None or _within(outcome.tpot_ms, self.tpot_ms)


@dataclass(frozen=True, slots=True)
class RequestOutcome:
    """What became of one request, in milliseconds; `completed` is false for errors and unfinished.

    `tpot_ms` is None only where it is undefined: an answer of fewer than two tokens.
    """

    completed: bool
    ttft_ms: float | None = None
    tpot_ms: float | None = None
    e2e_ms: float | None = None


def attainment(outcomes: Iterable[RequestOutcome], slo: Slo) -> Estimate | None:
    """Share of good requests with Wilson's 90% interval; None for no requests at all."""
    verdicts = [slo.met_by(outcome) for outcome in outcomes]
    if not verdicts:
        return None
    good, n = sum(verdicts), len(verdicts)
    low, high = wilson(good, n)
    return Estimate(value=good / n, n=n, low=low, high=high)


def goodput(outcomes: Iterable[RequestOutcome], slo: Slo, window_s: float) -> Estimate | None:
    """Good requests per second over the window they were due in; None for no requests.

    The interval is attainment's, the number of requests offered being known.
    Raises ValueError for a window that is not positive.
    """
    if not window_s > 0:
        raise ValueError("the window must be positive")
    share = attainment(outcomes, slo)
    if share is None or share.low is None or share.high is None:
        return None
    per_s = share.n / window_s
    return Estimate(share.value * per_s, share.n, share.low * per_s, share.high * per_s)


def wilson(successes: int, n: int, z: float = Z_90) -> tuple[float, float]:
    """Wilson's score interval of a proportion; never degenerate at 0 or n successes."""
    if not 0 <= successes <= n or n == 0:
        raise ValueError(f"{successes} successes of {n}")
    share = successes / n
    shrink = 1 + z * z / n
    centre = (share + z * z / (2 * n)) / shrink
    half = z / shrink * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return min(max(0.0, centre - half), share), max(min(1.0, centre + half), share)


def goodput_value(goodput_per_s: float, offered_per_s: float, epsilon: float = 0.02) -> float:
    """ln(goodput + ε·offered): finite on the plateau of zero goodput (facts/optimisation.md §7)."""
    if not (goodput_per_s >= 0 and offered_per_s > 0 and epsilon > 0):
        raise ValueError("goodput must not be negative, the offered rate and ε must be positive")
    return math.log(goodput_per_s + epsilon * offered_per_s)


class GoodputObjective:
    """Gain in `goodput_value` over the baseline's; higher is better.

    Of the highest rate that meets the SLO, where both measurements have one: at a fixed rate all
    configurations that hold it are alike. Else of the goodput at the study's rate, each at its own
    offered rate. The difference to the baseline only moves the zero: 0 is the baseline, as with
    the weighted objective.
    """

    def __init__(self, *, epsilon: float = 0.02, preemption_penalty: float = 0.0) -> None:
        if not (0 < epsilon <= 1 and 0 <= preemption_penalty < math.inf):
            raise ValueError("ε must lie in (0, 1], the preemption penalty must not be negative")
        self._epsilon = epsilon
        self._preemption_penalty = preemption_penalty

    def score(self, measurement: Measurement, baseline: Measurement) -> Score:
        name, own, reference = self._compared(measurement, baseline)
        penalty = weighted_penalty(measurement, self._preemption_penalty)
        named = ((f"baseline.{name}", reference), (name, own), (PREEMPTIONS, penalty))
        missing = tuple(each for each, value in named if value is None)
        if own is None or reference is None or penalty is None:
            return Score(None, (), penalty, missing)
        gain = own[1] - reference[1]
        term = ScoreTerm(name, 1.0, reference[0], own[0], math.exp(gain), gain)
        return Score(gain - penalty, (term,), penalty)

    def _compared(
        self, measurement: Measurement, baseline: Measurement
    ) -> tuple[str, _Valued | None, _Valued | None]:
        own, reference = _max_rate(measurement), _max_rate(baseline)
        if own is None or reference is None or not reference > 0:
            return "goodput", self._at_the_rate(measurement), self._at_the_rate(baseline)
        values = (goodput_value(rate, reference, self._epsilon) for rate in (own, reference))
        return "max_rate", (own, next(values)), (reference, next(values))

    def _at_the_rate(self, measurement: Measurement) -> _Valued | None:
        """Goodput (requests/s) and its value; None when it was not measured."""
        segment = measurement.latency
        estimate = segment.goodput_per_s
        if estimate is None or not estimate.value >= 0 or not segment.offered_per_s > 0:
            return None
        if not math.isfinite(estimate.value):
            return None
        value = goodput_value(estimate.value, segment.offered_per_s, self._epsilon)
        return estimate.value, value


_Valued = tuple[float, float]


def _max_rate(measurement: Measurement) -> float | None:
    found = measurement.max_rate
    return None if found is None else found.value_per_s


def _within(value_ms: float | None, limit_ms: float | None) -> bool:
    return limit_ms is None or (value_ms is not None and value_ms <= limit_ms)
