"""The engine's metrics over one measurement, as points to draw."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tuner.study.load_progress import MEASUREMENT, SERIES_FILE
from tuner.telemetry.exposition import EngineMetric
from tuner.telemetry.series import MetricSeries, Scrape

MOST_POINTS = 600
"""More are not seen on any screen."""

_GAUGES = {
    "running": EngineMetric.RUNNING,
    "waiting": EngineMetric.WAITING,
    "kv_usage": EngineMetric.KV_USAGE,
}


def series_points(attempt_directory: Path, time_scale: float) -> tuple[dict[str, object], ...]:
    """Points of the attempt's measurement in engine seconds; empty when it has no readable series.

    `preemptions` counts from the first scrape; what a scrape lacks is None.
    """
    try:
        series = MetricSeries.load(attempt_directory / MEASUREMENT / SERIES_FILE)
    except (OSError, ValueError, KeyError, TypeError):
        return ()
    scrapes = [scrape for scrape in series.scrapes if _told(scrape)]
    if not scrapes:
        return ()
    began_s = scrapes[0].monotonic_s
    counted = [s.values.get(EngineMetric.PREEMPTIONS) for s in scrapes]
    first = next((value for value in counted if value is not None), None)
    return tuple(_point(s, began_s, first, time_scale) for s in _thinned(scrapes))


def _told(scrape: Scrape) -> bool:
    """Whether it holds what is drawn; samples of the GPU driver stand in scrapes of their own."""
    return any(metric in scrape.values for metric in _GAUGES.values())


def _thinned(scrapes: Sequence[Scrape]) -> Sequence[Scrape]:
    step = -(-len(scrapes) // MOST_POINTS)
    return scrapes[::step]


def _point(
    scrape: Scrape, began_s: float, first: float | None, time_scale: float
) -> dict[str, object]:
    counted = scrape.values.get(EngineMetric.PREEMPTIONS)
    return {
        "at_s": (scrape.monotonic_s - began_s) * time_scale,
        **{name: scrape.values.get(metric) for name, metric in _GAUGES.items()},
        "preemptions": None if counted is None or first is None else counted - first,
    }
