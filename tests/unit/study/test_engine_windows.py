from __future__ import annotations

from dataclasses import replace

from tests.support.load_records import closed_segment, open_segment, result_of
from tuner.loadgen.load_result import LoadResult
from tuner.study.engine_windows import engine_windows
from tuner.telemetry.exposition import EngineMetric
from tuner.telemetry.series import MetricSeries, Scrape
from tuner.telemetry.window import engine_window


def load() -> LoadResult:
    """Windows from 10 to 20 s and from 60 to 70 s."""
    first, second = (result_of(segment, []) for segment in (open_segment(), closed_segment()))
    parts = []
    for part, start_s in ((first, 10.0), (second, 60.0)):
        window = replace(
            part.report.window, start_monotonic_s=start_s, end_monotonic_s=start_s + 10.0
        )
        parts.append(replace(part, report=replace(part.report, window=window)))
    return LoadResult(tuple(parts), 1.0, engine_lost=False)


def series(*tokens: tuple[float, float]) -> MetricSeries:
    counter = EngineMetric.GENERATION_TOKENS
    return MetricSeries(tuple(Scrape(at_s, at_s, {counter: value}) for at_s, value in tokens))


def test_each_window_has_its_own_growth() -> None:
    windows = engine_windows(load(), series((0, 0), (10, 100), (20, 400), (60, 900), (80, 1500)))
    assert [window.generation_tokens for window in windows] == [300.0, 300.0]
    assert not any(window.restarted for window in windows)


def test_a_restart_between_the_windows_makes_both_worthless() -> None:
    told = series((0, 500), (10, 600), (21, 900), (40, 5), (50, 80), (80, 800))
    assert not engine_window(told, 10, 20).restarted
    assert not engine_window(told, 60, 70).restarted
    assert all(window.restarted for window in engine_windows(load(), told))


def test_a_restart_before_the_first_window_is_none_of_the_loads() -> None:
    windows = engine_windows(load(), series((0, 500), (5, 3), (10, 100), (20, 400), (80, 1500)))
    assert not any(window.restarted for window in windows)


def test_without_segments_there_is_nothing_to_say() -> None:
    assert engine_windows(LoadResult((), 1.0, engine_lost=True), series()) == ()
