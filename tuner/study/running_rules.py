"""What cuts a searched trial's load short at any moment: failing requests, a backlog that rises.

Its beginning is compared with the best trial's besides, once (`tuner.study.early_abort`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from objectives.score import bounded_log
from tuner.loadgen.load_result import LoadProgress
from tuner.loadgen.plan import OpenLoopSegment, Segment
from tuner.study.early_abort import CALM_SHARE, ERRORS, Abort, Bar
from tuner.study.load_rules import FAILURES_HELD, Backlog, dispersion, too_many_failures

UNSEEN_FACTOR = 2.0
"""By which a weighted latency that is not seen may turn out better than the best trial's."""

EARLIEST_TREND = 0.15
"""Share of the window: what is drawn out of less is not a trend."""

STILL_SERVED = 10
"""Requests an engine still answers well after too many have failed. One that is about to die
answers none, and what it died of is its diagnosis."""


class FailureRule:
    """Too many requests fail while the best trial's did not."""

    def __init__(self, incumbent: int, failed_share: float, segments: Sequence[Segment]) -> None:
        """`failed_share` is that of the best trial's requests, whose number is `incumbent`."""
        self._incumbent = incumbent
        self._failed_share = failed_share
        self._segments = segments
        self._segment = 0
        self._completed: int | None = None

    def look(self, progress: LoadProgress) -> Abort | None:
        """Wald's test, until it is certain and the engine has gone on serving."""
        if progress.segment != self._segment:
            self._segment, self._completed = progress.segment, None
        ended = progress.completed + progress.failed
        if self._failed_share > FAILURES_HELD or not too_many_failures(ended, progress.failed):
            self._completed = None
            return None
        if self._completed is None:
            self._completed = progress.completed
        if progress.completed - self._completed < STILL_SERVED:
            return None
        text = f"{progress.failed} of {ended} requests failed"
        return Abort(
            incumbent=self._incumbent,
            behind=None,
            allowed=None,
            # No number is worth a failure: it is told as a configuration that does not run.
            extrapolated=None,
            requests=ended,
            unanswered=progress.unanswered,
            looked_at_s=progress.elapsed_s,
            saved_s=left_s(self._segments, progress),
            reason=f"cut short: {text}, {self._failed_share:.1%} with trial {self._incumbent}",
            rule=ERRORS,
            evidence={"ended": ended, "failed": progress.failed},
        )


class BacklogRule:
    """Requests without a token pile up at the study's rate, which the best trial holds.

    Where that is plain, the wait at the window's end is drawn out of the trend. It has to lie so
    far above the best trial's TTFT that nothing which is not seen yet may make up for it.
    """

    def __init__(self, bar: Bar, segments: Sequence[Segment], latency: OpenLoopSegment) -> None:
        self._bar = bar
        self._segments = segments
        self._warmup_s, self._window_s = latency.warmup_s, latency.longest_window_s
        due_s = np.array([request.due_s or 0.0 for request in latency.requests])
        measured = (due_s >= latency.warmup_s) & (due_s < latency.warmup_s + self._window_s)
        self._due_s = np.sort(due_s[measured])
        self._dispersion = dispersion(self._due_s)
        self._before: int | None = None

    def look(self, progress: LoadProgress) -> Abort | None:
        """At a report of the latency segment."""
        if progress.segment != 0 or progress.phase != "window":
            return None
        if self._before is None:
            self._before = progress.unanswered
        seen_s = progress.elapsed_s - self._warmup_s
        arrivals = int(np.searchsorted(self._due_s, progress.elapsed_s))
        backlog = Backlog(self._before, progress.unanswered, arrivals, self._dispersion)
        if seen_s < EARLIEST_TREND * self._window_s or not backlog.rises or not self._calm:
            return None
        return self._judged(backlog, seen_s, progress)

    @property
    def _calm(self) -> bool:
        prefix = self._bar.prefix
        return prefix.unanswered <= CALM_SHARE * prefix.requests

    def _judged(self, backlog: Backlog, seen_s: float, progress: LoadProgress) -> Abort | None:
        bar, reference = self._bar, self._bar.prefix.ttft_ms
        if reference is None:
            return None
        theirs_ms = reference.percentile(bar.ttft_percentile).value
        share = int(bar.ttft_percentile.removeprefix("p")) / 100
        growth = (backlog.now - backlog.before) * share * self._window_s / seen_s
        wait_ms = 1000 * (backlog.before + growth) * seen_s / backlog.arrivals
        behind = bar.ttft_weight * bounded_log(wait_ms / theirs_ms) if theirs_ms > 0 else 0.0
        allowed = bar.margin + bar.hope + bar.tpot_weight * math.log(UNSEEN_FACTOR)
        if behind <= allowed:
            return None
        return Abort(
            incumbent=bar.incumbent,
            behind=behind,
            allowed=allowed,
            extrapolated=bar.incumbent_score - behind,
            requests=backlog.arrivals,
            unanswered=backlog.now,
            looked_at_s=progress.elapsed_s,
            saved_s=left_s(self._segments, progress),
            reason=f"cut short: {backlog.now} requests without a token after {backlog.before} at "
            f"the window's beginning, {backlog.arrivals} arrivals ago: a wait of "
            f"{wait_ms / 1000:.0f} s by its end, {theirs_ms / 1000:.1f} s with trial "
            f"{bar.incumbent}",
            rule="backlog",
            evidence={
                "before": backlog.before,
                "now": backlog.now,
                "arrivals": backlog.arrivals,
                "dispersion": backlog.dispersion,
                "allowed_growth": backlog.allowed,
                "wait_ms": wait_ms,
                "incumbent_ttft_ms": theirs_ms,
            },
        )


def left_s(segments: Sequence[Segment], progress: LoadProgress) -> float:
    """Engine seconds of windows and warm-ups that are still to come, at most."""
    planned_s = sum(segment.window_end_s for segment in segments[progress.segment :])
    return max(0.0, planned_s - progress.elapsed_s)
