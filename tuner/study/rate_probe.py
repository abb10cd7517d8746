"""One rate tried on a running engine: its load, and what ends it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from objectives.measurement import RateProbe
from objectives.slo import Slo
from tuner.domain.study_spec import WorkloadSpec
from tuner.errors import LoadGeneratorError
from tuner.loadgen.engine_truth import TruthCheck
from tuner.loadgen.instrument import InstrumentLimits
from tuner.loadgen.load_result import LoadProgress, SegmentResult
from tuner.loadgen.plan import OpenLoopSegment
from tuner.loadgen.records import FloatArray
from tuner.loadgen.schedule import open_loop_segment, rate_arrival
from tuner.loadgen.sprt import AttainmentTest, Evidence, Verdict, looks
from tuner.loadgen.statistics import quantile
from tuner.loadgen.verdicts import VerdictSequence, strains_of
from tuner.loadgen.workload import Workload
from tuner.study.load_rules import Backlog, dispersion, too_many_failures

WINDOWS = 2.0
"""Times the document's latency window: a rate is tried that long where the test stays open."""

FIRST_VERDICT = 0.25
"""Of a probe's window: the test does not end sooner. A queue takes time to build up, and the first
requests of a busy moment are bad together."""

FEWEST_TO_COMPARE = 20
"""Judged requests of which the engine's own account has to tell; of fewer a p95 is one of them."""

MOST_DRAIN_S = 30.0
DRAIN_OF_LIMIT = 1.5
"""Times the SLO's longest limit: later, nothing can turn good any more."""


class ProbeEndedError(Exception):
    """Ends a running probe; carries its verdict. Never leaves the search."""

    def __init__(self, probe: RateProbe) -> None:
        super().__init__(probe.evidence)
        self.probe = probe


def probe_segment(
    workload: Workload, spec: WorkloadSpec, rate_per_s: float, slo: Slo, seed: int
) -> OpenLoopSegment:
    """An open loop at the rate, whose requests are judged while it runs."""
    window_s, drain_s = WINDOWS * spec.latency_window_s, _drain_s(slo)
    segment = open_loop_segment(
        workload, rate_arrival(spec.arrival), rate_per_s, spec.warmup_s, window_s, drain_s, seed
    )
    return replace(segment, slo=slo)


def longest_s(spec: WorkloadSpec, slo: Slo) -> float:
    """Engine seconds that a probe takes at most."""
    return spec.warmup_s + WINDOWS * spec.latency_window_s + _drain_s(slo)


def _drain_s(slo: Slo) -> float:
    """After it what has no verdict yet is bad, where the SLO says so."""
    if slo.e2e_ms is None:
        return MOST_DRAIN_S
    return min(MOST_DRAIN_S, DRAIN_OF_LIMIT * max(slo.e2e_ms, slo.ttft_ms or 0.0) / 1000)


class ProbeWatch:
    """Hears of a running probe, and raises ProbeEndedError as soon as its verdict is certain."""

    def __init__(self, rate_per_s: float, segment: OpenLoopSegment, test: AttainmentTest) -> None:
        self._rate_per_s = rate_per_s
        self._segment = segment
        self._test = test
        due_s = np.array([request.due_s or 0.0 for request in segment.requests])
        self._due_s = np.sort(due_s[due_s >= segment.warmup_s])
        first_verdict_s = segment.warmup_s + FIRST_VERDICT * segment.window_s
        self._fewest = int(np.searchsorted(self._due_s, first_verdict_s))
        self._dispersion = dispersion(self._due_s)
        self._verdicts = VerdictSequence(segment)
        self._unanswered: int | None = None
        self._evidence = Evidence(Verdict.OPEN, 0, 0, 0.0, 1.0)

    @property
    def lags_s(self) -> FloatArray:
        """How late the judged requests were sent."""
        return self._verdicts.lags_s

    @property
    def waits_ms(self) -> dict[int, float]:
        """How long the judged requests waited for their first token, by index in the plan."""
        return self._verdicts.waits_ms

    def __call__(self, progress: LoadProgress) -> None:
        self._verdicts.add(progress.verdicts)
        if progress.phase not in ("window", "drain"):
            return
        ended = progress.completed + progress.failed
        evidence = self._look()
        if too_many_failures(ended, progress.failed):
            text = f"{progress.failed} of {ended} requests failed"
            self._end(False, "errors", evidence, progress.elapsed_s, text)
        if evidence.verdict is not Verdict.OPEN:
            holds = evidence.verdict is Verdict.HOLDS
            self._end(holds, "attainment", evidence, progress.elapsed_s, self._counts(evidence))
        if progress.phase == "window":
            self._watch_backlog(progress, evidence)

    def _look(self) -> Evidence:
        """The test at its last look; each look is taken once, as it costs a transform."""
        strains = self._verdicts.strains
        for seen in looks(strains.size):
            due = seen >= self._fewest and seen > self._evidence.requests
            if due and self._evidence.verdict is Verdict.OPEN:
                self._evidence = self._test.look(strains[:seen])
        return self._evidence

    def _watch_backlog(self, progress: LoadProgress, evidence: Evidence) -> None:
        if self._unanswered is None:
            self._unanswered = progress.unanswered
        arrivals = int(np.searchsorted(self._due_s, progress.elapsed_s))
        backlog = Backlog(self._unanswered, progress.unanswered, arrivals, self._dispersion)
        if backlog.rises:
            text = (
                f"{backlog.now} requests without a token after {backlog.before} at the window's "
                f"beginning, {backlog.arrivals} arrivals ago"
            )
            self._end(False, "backlog", evidence, progress.elapsed_s, text)

    def finished(self, result: SegmentResult) -> RateProbe:
        """The verdict of a probe that was run to its end, from its records."""
        segment, records = self._segment, result.records
        end_s = segment.window_end_s
        measured = (records.due_s >= segment.warmup_s) & (records.due_s < end_s)
        if segment.slo is None:
            raise ValueError("a rate is tried against an SLO")
        strains = strains_of(records, measured, segment.slo)
        evidence, rule = self._test.first_decision(strains, self._fewest), "attainment"
        holds = evidence.verdict is Verdict.HOLDS
        if evidence.verdict is Verdict.OPEN:
            holds, rule = self._test.met_by_share(evidence), "share"
        return self._probe(holds, rule, evidence, end_s, self._counts(evidence))

    def _end(self, holds: bool, rule: str, evidence: Evidence, elapsed_s: float, text: str) -> None:
        raise ProbeEndedError(self._probe(holds, rule, evidence, elapsed_s, text))

    def _probe(
        self, holds: bool, rule: str, evidence: Evidence, elapsed_s: float, text: str
    ) -> RateProbe:
        return RateProbe(
            rate_per_s=self._rate_per_s,
            holds=holds,
            rule=rule,
            requests=evidence.requests,
            good=evidence.good,
            log_ratio=evidence.log_ratio,
            inflation=evidence.inflation,
            ended_s=elapsed_s,
            evidence=text,
        )

    def _counts(self, evidence: Evidence) -> str:
        return (
            f"{evidence.good} of {evidence.requests} requests met the SLO, log likelihood ratio "
            f"{evidence.log_ratio:+.1f} of {self._test.boundary:.1f}"
        )


def require_in_time(
    probe: RateProbe, lags_s: FloatArray, slo: Slo, limits: InstrumentLimits
) -> None:
    """Raise LoadGeneratorError where a rate failed that the generator itself did not keep up with.

    By the instrument's own limit for the 95th percentile, against the SLO's time to first token.
    """
    if probe.holds or lags_s.size == 0 or slo.ttft_ms is None:
        return
    lag_ms = quantile(lags_s, 0.95) * 1000
    allowed_ms = max(limits.send_lag_ms, limits.send_lag_p95_share_of_ttft_p95 * slo.ttft_ms)
    if lag_ms > allowed_ms:
        raise LoadGeneratorError(
            f"{probe.rate_per_s:.3g} requests/s are more than this host can send: they left "
            f"{lag_ms:.0f} ms late (p95), more than {allowed_ms:.0f} ms"
        )


def require_truth(probe: RateProbe, check: TruthCheck | None, limits: InstrumentLimits) -> None:
    """Raise LoadGeneratorError where the instrument's error speaks for the verdict.

    By the account of an engine that is faster than real time, within the instrument's own limit: a
    rate must not fail because first tokens were seen late, nor hold because they were seen early.
    """
    if check is None or check.requests < FEWEST_TO_COMPARE:
        return
    towards = -check.error if probe.holds else check.error
    if towards > limits.truth_error:
        verdict = "held" if probe.holds else "failed"
        raise LoadGeneratorError(
            f"{probe.rate_per_s:.3g} requests/s {verdict} with a TTFT p95 of "
            f"{check.client_p95_ms:.0f} ms here, but of {check.engine_p95_ms:.0f} ms by the "
            "engine's own account: lower engine.time_scale"
        )
