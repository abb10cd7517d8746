"""Watches a running load test for the moment at which its beginning can be judged."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tuner.errors import LoadGeneratorError
from tuner.loadgen.instrument import InstrumentLimits
from tuner.loadgen.load_result import LoadProgress
from tuner.loadgen.plan import OpenLoopSegment, Segment
from tuner.loadgen.prefix import Look, PrefixRow, mean_gap_ms, prefix_summary, send_lags_s
from tuner.loadgen.statistics import quantile
from tuner.study.early_abort import CutShortError, judge
from tuner.study.executor import AttemptRequest
from tuner.telemetry.series import MetricSeries
from tuner.telemetry.window import engine_window

CLOCK_ERROR = 0.25
"""Wider than the instrument's own limit: not quite the same tokens are averaged."""

CLOCK_ERROR_FLOOR_MS = 5.0

Watch = Callable[[LoadProgress], None]


def abort_watch(
    request: AttemptRequest, segments: Sequence[Segment], limits: InstrumentLimits
) -> Watch:
    """Raises CutShortError out of the load's progress when the request's bar says so."""
    bar, latency = request.bar, segments[0]
    if bar is None or not isinstance(latency, OpenLoopSegment):
        return _see_nothing
    look = Look.of(latency)
    whole_s = sum(segment.window_end_s for segment in segments)

    def watch(progress: LoadProgress) -> None:
        if progress.segment != 0 or progress.prefix is None:
            return
        prefix = prefix_summary(look, progress.prefix, seed=request.workload_seed)
        abort = judge(bar, prefix, max(0.0, whole_s - progress.elapsed_s))
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
