"""The search for the highest rate that meets the SLO: which rate is tried next, and what is known.

Pure bookkeeping. A probe's verdict comes from `tuner.loadgen.sprt` on a running engine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from objectives.measurement import MaxRate, RateProbe, SloLimits
from objectives.slo import Slo
from tuner.loadgen.sprt import AttainmentTest

CONFIDENCE = 0.90
"""That all probes of a search were right, so that the interval holds the rate."""

GROWTH = 2.0
"""From a rate that holds to the next one where nothing has failed yet."""

SHRINKAGE = 0.5
"""From a rate that fails to the next one where nothing has held yet."""

STEP_DOWN = 1.1
"""From a rate that held and was not confirmed down to the next one, at most."""


@dataclass(frozen=True, slots=True)
class RateSearch:
    """Where to look (requests/s) and when to stop.

    The rate is expected within [`low_per_s`, `high_per_s`]; both may turn out wrong. `first_per_s`
    is tried first where given: another configuration's rate, say. `width` is the interval's
    relative width that is narrow enough. `engine_s` is the load it may take, confirmation included;
    `most_confirmations` probes may confirm what was found, 0: it is not confirmed.
    """

    low_per_s: float
    high_per_s: float
    width: float = 0.04
    most_probes: int = 10
    engine_s: float = math.inf
    first_per_s: float | None = None
    most_confirmations: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.low_per_s < self.high_per_s:
            raise ValueError("the bracket must be two positive rates, the lower one first")
        if not (self.width > 0 and self.most_probes >= 1):
            raise ValueError("the width must be positive, and at least one probe allowed")

    def test(self, attainment: float) -> AttainmentTest:
        """Each probe's test. All of them together are right with the probability `CONFIDENCE`.

        A probe can err in one direction only, whatever the true rate: hence no factor of two.
        """
        probes = self.most_probes + self.most_confirmations
        return AttainmentTest(attainment, (1 - CONFIDENCE) / probes)

    def next_rate(self, probes: Sequence[RateProbe]) -> float | None:
        """The rate to try after these probes; None: the interval is narrow, or probes ran out."""
        low, high = bracket(probes)
        if len(probes) >= self.most_probes:
            return None
        if low is not None and high is not None:
            return None if self._is_narrow(low, high) else math.sqrt(low * high)
        if low is not None:
            return self.high_per_s if low < self.high_per_s else low * GROWTH
        if high is not None:
            return self.low_per_s if high > self.low_per_s else high * SHRINKAGE
        return self.first_per_s or math.sqrt(self.low_per_s * self.high_per_s)

    def next_confirmation(
        self, probes: Sequence[RateProbe], confirmations: Sequence[RateProbe]
    ) -> float | None:
        """The rate to try again with new requests: the highest that held, and after a failure the
        next that held below it, or `STEP_DOWN` below it where that is further down.

        None: one was confirmed, there is nothing to confirm, or no more are allowed.
        """
        if len(confirmations) >= self.most_confirmations or any(c.holds for c in confirmations):
            return None
        low, _ = bracket([*probes, *confirmations])
        if not confirmations:
            return low
        below = confirmations[-1].rate_per_s / STEP_DOWN
        return below if low is None else max(low, below)

    def found(
        self,
        probes: Sequence[RateProbe],
        slo: Slo,
        engine_s: float,
        confirmations: Sequence[RateProbe] = (),
    ) -> MaxRate:
        """What these probes say."""
        ended = "probes" if len(probes) >= self.most_probes else "time"
        low, high = bracket(probes)
        if low is not None and high is not None and self._is_narrow(low, high):
            ended = "narrow"
        every = [*probes, *confirmations]
        sure_low, sure_high = bracket([probe for probe in every if probe.sure])
        return MaxRate(
            value_per_s=_middle(*bracket(every)),
            low_per_s=sure_low,
            high_per_s=sure_high,
            slo=limits_of(slo),
            confidence=CONFIDENCE,
            probes=tuple(probes),
            engine_s=engine_s,
            ended=ended,
            confirmations=tuple(confirmations),
            confirmation=self._confirmation(low, confirmations),
        )

    def _confirmation(self, held: float | None, confirmations: Sequence[RateProbe]) -> str | None:
        if self.most_confirmations == 0:
            return None
        if held is None:
            return "nothing"
        if not confirmations:
            return "time"
        return "held" if any(probe.holds for probe in confirmations) else "failed"

    def _is_narrow(self, low: float, high: float) -> bool:
        return high <= low * (1 + self.width)


def limits_of(slo: Slo) -> SloLimits:
    """The SLO as it is stored with a rate."""
    return SloLimits(slo.ttft_ms, slo.tpot_ms, slo.e2e_ms, slo.attainment)


def bracket(probes: Sequence[RateProbe]) -> tuple[float | None, float | None]:
    """The lowest rate that failed, after the highest that held below it; None where none did."""
    high = min((probe.rate_per_s for probe in probes if not probe.holds), default=None)
    held = (probe.rate_per_s for probe in probes if probe.holds)
    low = max((rate for rate in held if high is None or rate < high), default=None)
    return low, high


def _middle(low: float | None, high: float | None) -> float | None:
    """One rate to compare by: the middle of logs, a known end, or half of what failed."""
    if low is None:
        return None if high is None else high * SHRINKAGE
    return low if high is None else math.sqrt(low * high)
