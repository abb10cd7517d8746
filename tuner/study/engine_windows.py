"""What the engine reported of the segments of one load."""

from __future__ import annotations

from dataclasses import replace

from tuner.domain.engine_window import EngineWindow
from tuner.loadgen.load_result import LoadResult
from tuner.telemetry.series import MetricSeries
from tuner.telemetry.window import engine_window, was_restarted


def engine_windows(result: LoadResult, series: MetricSeries) -> tuple[EngineWindow, ...]:
    """One for each segment's window.

    All segments belong to one start: a restart between two windows counts in each.
    """
    spans = [(s.window.start_monotonic_s, s.window.end_monotonic_s) for s in result.segments]
    windows = tuple(engine_window(series, *span) for span in spans)
    if spans and was_restarted(series, spans[0][0], spans[-1][1]):
        return tuple(replace(window, restarted=True) for window in windows)
    return windows
