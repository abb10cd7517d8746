"""The bar of goodput mode: a trial that fails the SLO at the study's rate has no higher one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from objectives.slo import Slo, goodput_value
from tuner.domain.states import AttemptPurpose
from tuner.loadgen.instrument import InstrumentLimits
from tuner.loadgen.load_result import LoadProgress
from tuner.loadgen.plan import OpenLoopSegment, Segment
from tuner.loadgen.sprt import AttainmentTest
from tuner.study.early_abort import ERRORS, Abort, RateBar, failed_share
from tuner.study.ledger import History
from tuner.study.monitor import best_trial
from tuner.study.rate_probe import ProbeEndedError, ProbeWatch, require_in_time
from tuner.study.running_rules import left_s

ERROR = 0.01
"""Probability with which a configuration that holds the rate is cut short: a good one is lost."""


def rate_bar_of(history: History) -> RateBar | None:
    """The best trial's highest rate as a bar; None where to fail the study's proves nothing."""
    best, calibration = best_trial(history), history.calibration
    reference = history.reference_measurement
    if best is None or calibration is None or reference is None or reference.max_rate is None:
        return None
    number, score = best
    measurement = history.measured(number, AttemptPurpose.SEARCH)
    if measurement is None or measurement.max_rate is None:
        return None
    to_beat = measurement.max_rate.value_per_s
    base, rate = reference.max_rate.value_per_s, calibration.rate_per_s
    if to_beat is None or base is None or rate is None or not base > 0 or to_beat < rate:
        return None
    worth = goodput_value(rate, base) - goodput_value(base, base)
    return RateBar(number, score, rate, to_beat, worth, failed_share(measurement))


class AttainmentRule:
    """Wald's test of the latency segment's requests, as of a rate that is tried, with its rule for
    a backlog."""

    def __init__(
        self,
        bar: RateBar,
        segments: Sequence[Segment],
        latency: OpenLoopSegment,
        slo: Slo,
        limits: InstrumentLimits,
    ) -> None:
        self._bar = bar
        self._segments = segments
        self._slo = slo
        self._limits = limits
        test = AttainmentTest(slo.attainment, ERROR)
        segment = replace(latency, slo=slo)
        self._probe: ProbeWatch | None = ProbeWatch(bar.rate_per_s, segment, test)

    def look(self, progress: LoadProgress) -> Abort | None:
        """At a report of the latency segment; a rate that plainly holds is not watched further.

        Raises LoadGeneratorError where requests fail the SLO because they left late.
        """
        if self._probe is None or progress.segment != 0:
            return None
        try:
            self._probe(progress)
        except ProbeEndedError as ended:
            watch, self._probe = self._probe, None
            if ended.probe.holds or ended.probe.rule == ERRORS:
                return None  # failing requests have a rule of their own
            require_in_time(ended.probe, watch.lags_s, self._slo, self._limits)
            return self._abort(ended, progress)
        return None

    def _abort(self, ended: ProbeEndedError, progress: LoadProgress) -> Abort:
        bar, probe = self._bar, ended.probe
        return Abort(
            incumbent=bar.incumbent,
            behind=bar.incumbent_score - bar.worth,
            allowed=0.0,
            extrapolated=bar.worth,
            requests=probe.requests,
            unanswered=progress.unanswered,
            looked_at_s=progress.elapsed_s,
            saved_s=left_s(self._segments, progress),
            reason=f"cut short: fails the SLO at {bar.rate_per_s:.3g} requests/s "
            f"({probe.evidence}); trial {bar.incumbent} holds {bar.rate_to_beat_per_s:.3g}",
            rule=probe.rule,
            evidence={
                "rate_per_s": bar.rate_per_s,
                "rate_to_beat_per_s": bar.rate_to_beat_per_s,
                "good": probe.good,
                "log_ratio": probe.log_ratio,
                "inflation": probe.inflation,
            },
        )
