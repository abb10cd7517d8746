"""Watches a running load test for the moment at which its beginning can be judged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from tuner.errors import LoadGeneratorError
from tuner.loadgen.instrument import InstrumentLimits
from tuner.loadgen.load_result import LoadProgress
from tuner.loadgen.plan import OpenLoopSegment, Segment
from tuner.loadgen.prefix import Look, PrefixRow, mean_gap_ms, prefix_summary, send_lags_s
from tuner.loadgen.statistics import quantile
from tuner.study.early_abort import Abort, CutShortError, judge
from tuner.study.engine_launch import time_scale
from tuner.study.executor import AttemptRequest
from tuner.study.rate_bar import AttainmentRule
from tuner.study.running_rules import BacklogRule, FailureRule, left_s
from tuner.telemetry.series import MetricSeries
from tuner.telemetry.window import engine_window

CLOCK_ERROR = 0.25
"""Wider than the instrument's own limit: not quite the same tokens are averaged."""

CLOCK_ERROR_FLOOR_MS = 5.0

Watch = Callable[[LoadProgress], None]


def abort_watch(
    request: AttemptRequest, segments: Sequence[Segment], limits: InstrumentLimits
) -> Watch:
    """Raises CutShortError out of the load's progress when one of the request's bars says so."""
    latency = segments[0]
    if not isinstance(latency, OpenLoopSegment):
        return _see_nothing
    rules = _rules(request, segments, latency, limits)
    beginning = _beginning_watch(request, segments, latency, limits)

    def watch(progress: LoadProgress) -> None:
        beginning(progress)
        for rule in rules:
            abort = rule.look(progress)
            if abort is not None:
                raise CutShortError(abort)

    return watch


class Rule(Protocol):
    """Looks at every report of a load."""

    def look(self, progress: LoadProgress) -> Abort | None:
        """Why the load is to end; None: it goes on."""


def _rules(
    request: AttemptRequest,
    segments: Sequence[Segment],
    latency: OpenLoopSegment,
    limits: InstrumentLimits,
) -> list[Rule]:
    bar, rate_bar, slo = request.bar, request.rate_bar, request.slo
    rules: list[Rule] = []
    # A busy machine slows an embedded engine down that is to be faster than real time: its queue
    # then says nothing of the configuration, and no gap between tokens tells the two apart.
    in_real_time = time_scale(request.engine) <= 1.0
    if bar is not None:
        rules.append(FailureRule(bar.incumbent, bar.failed_share, segments))
        if in_real_time and bar.ttft_weight > 0:
            rules.append(BacklogRule(bar, segments, latency))
    if rate_bar is not None:
        rules.append(FailureRule(rate_bar.incumbent, rate_bar.failed_share, segments))
        if in_real_time and slo is not None:
            rules.append(AttainmentRule(rate_bar, segments, latency, slo, limits))
    return rules


def _beginning_watch(
    request: AttemptRequest,
    segments: Sequence[Segment],
    latency: OpenLoopSegment,
    limits: InstrumentLimits,
) -> Watch:
    bar, look = request.bar, Look.of(latency)
    if bar is None:
        return _see_nothing

    def watch(progress: LoadProgress) -> None:
        if progress.segment != 0 or progress.prefix is None:
            return
        prefix = prefix_summary(look, progress.prefix, seed=request.workload_seed)
        abort = judge(bar, prefix, left_s(segments, progress))
        if abort is not None and in_time(progress.prefix, look, limits):
            seen_s = progress.elapsed_s - latency.warmup_s
            raise CutShortError(abort, mean_gap_ms(progress.prefix), seen_s)

    return watch


def require_engine_in_time(
    cut: CutShortError, series: MetricSeries, now_s: float, time_scale: float
) -> None:
    """Raise LoadGeneratorError where an embedded engine is slow only because this machine is.

    Its own clock then shows other gaps between tokens than ours. A real engine has no such clock.
    """
    if time_scale <= 1.0 or cut.gap_ms is None:
        return
    theirs_ms = engine_window(series, now_s - cut.seen_s / time_scale, now_s).itl_mean_ms
    if theirs_ms is None:
        return
    if abs(cut.gap_ms - theirs_ms) > max(CLOCK_ERROR * theirs_ms, CLOCK_ERROR_FLOOR_MS):
        gaps = f"{cut.gap_ms:.0f} ms here but {theirs_ms:.0f} ms by the engine's own clock"
        raise LoadGeneratorError(f"a load test would have been cut short, but tokens took {gaps}")


def in_time(rows: Sequence[PrefixRow], look: Look, limits: InstrumentLimits) -> bool:
    """Whether the requests left when they were due: a late generator proves nothing.

    By the instrument's own limit for the 95th percentile, the TTFT being the wait so far.
    """
    lags_s = send_lags_s(rows)
    ttft = prefix_summary(look, rows).ttft_ms
    if lags_s.size == 0 or ttft is None:
        return False
    allowed_ms = max(limits.send_lag_ms, limits.send_lag_p95_share_of_ttft_p95 * ttft.p95.value)
    return quantile(lags_s, 0.95) * 1000 <= allowed_ms


def _see_nothing(progress: LoadProgress) -> None:
    """There is no bar."""
