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
        in_flight_mean=_in_flight(series, start_s, end_s),
        generation_tokens=series.delta(EngineMetric.GENERATION_TOKENS, start_s, end_s),
        prompt_tokens=series.delta(EngineMetric.PROMPT_TOKENS, start_s, end_s),
        prefix_query_tokens=series.delta(EngineMetric.PREFIX_QUERIES, start_s, end_s),
        prefix_hit_rate=_prefix_hit_rate(series, start_s, end_s),
        ttft_mean_ms=_mean_ms(
            series, EngineMetric.TTFT_SUM_S, EngineMetric.TTFT_COUNT, start_s, end_s
        ),
        itl_mean_ms=_mean_ms(
            series, EngineMetric.ITL_SUM_S, EngineMetric.ITL_COUNT, start_s, end_s
        ),
        gpu_utilization=_gpu_utilization(series, start_s, end_s),
        gpu_memory_peak_gib=series.peak(EngineMetric.GPU_MEMORY_GIB, start_s, end_s),
        gpu_power_w=series.mean(EngineMetric.GPU_POWER_W, start_s, end_s),
        restarted=was_restarted(series, start_s, end_s),
        cut_off=not series.reaches_over(start_s, end_s),
    )


def _in_flight(series: MetricSeries, start_s: float, end_s: float) -> float | None:
    running = series.mean(EngineMetric.RUNNING, start_s, end_s)
    waiting = series.mean(EngineMetric.WAITING, start_s, end_s)
    return None if running is None or waiting is None else running + waiting


def was_restarted(series: MetricSeries, start_s: float, end_s: float) -> bool:
    """Whether a counter fell within [start_s, end_s]."""
    return any(
        series.was_reset(metric, start_s, end_s)
        for metric, source in SOURCES.items()
        if source.is_counter
    )


def _gpu_utilization(series: MetricSeries, start_s: float, end_s: float) -> float | None:
    """As the driver told it, else the simulated engine's share of time with a step running."""
    told = series.mean(EngineMetric.GPU_UTILIZATION, start_s, end_s)
    if told is not None:
        return told
    busy = _ratio(
        series, EngineMetric.SIMULATED_BUSY_S, EngineMetric.SIMULATED_CLOCK_S, start_s, end_s
    )
    return None if busy is None else min(1.0, busy)


def _prefix_hit_rate(series: MetricSeries, start_s: float, end_s: float) -> float | None:
    """By the counters; from engines without them the gauge, which is -1 while it knows nothing."""
    if any(EngineMetric.PREFIX_QUERIES in scrape.values for scrape in series.scrapes):
        return _ratio(series, EngineMetric.PREFIX_HITS, EngineMetric.PREFIX_QUERIES, start_s, end_s)
    rate = series.mean(EngineMetric.PREFIX_HIT_RATE, start_s, end_s)
    return rate if rate is not None and rate >= 0 else None


def _ratio(
    series: MetricSeries, part: EngineMetric, whole: EngineMetric, start_s: float, end_s: float
) -> float | None:
    """Growth of one counter over that of another; None where the other did not grow."""
    of_part = series.delta(part, start_s, end_s)
    of_whole = series.delta(whole, start_s, end_s)
    return of_part / of_whole if of_whole and of_part is not None else None


def _mean_ms(
    series: MetricSeries, total: EngineMetric, count: EngineMetric, start_s: float, end_s: float
) -> float | None:
    mean_s = _ratio(series, total, count, start_s, end_s)
    return None if mean_s is None else mean_s * 1000
