"""A metric series cut to one window of a load."""

from __future__ import annotations

from tuner.domain.engine_window import EngineWindow
from tuner.telemetry.exposition import SOURCES, EngineMetric
from tuner.telemetry.series import MetricSeries


def engine_window(series: MetricSeries, start_s: float, end_s: float) -> EngineWindow:
    """What the engine reported within [start_s, end_s] of the monotonic clock."""
    preemptions = series.delta(EngineMetric.PREEMPTIONS, start_s, end_s)
    return EngineWindow(
        preemptions=None if preemptions is None else round(preemptions),
        kv_usage_peak=series.peak(EngineMetric.KV_USAGE, start_s, end_s),
        running_peak=series.peak(EngineMetric.RUNNING, start_s, end_s),
        waiting_peak=series.peak(EngineMetric.WAITING, start_s, end_s),
        generation_tokens=series.delta(EngineMetric.GENERATION_TOKENS, start_s, end_s),
        prefix_hit_rate=_prefix_hit_rate(series, start_s, end_s),
        restarted=any(
            series.was_reset(metric, start_s, end_s)
            for metric, source in SOURCES.items()
            if source.is_counter
        ),
    )


def _prefix_hit_rate(series: MetricSeries, start_s: float, end_s: float) -> float | None:
    """Hits over queries, both in the engine's own unit; None without any query."""
    queries = series.delta(EngineMetric.PREFIX_QUERIES, start_s, end_s)
    hits = series.delta(EngineMetric.PREFIX_HITS, start_s, end_s)
    return hits / queries if queries and hits is not None else None
