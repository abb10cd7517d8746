from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.telemetry.exposition import EngineMetric
from tuner.telemetry.series import MetricSeries, Scrape

COUNTER = EngineMetric.PREEMPTIONS
GAUGE = EngineMetric.KV_USAGE


def series_of(*points: tuple[float, float | None], metric: EngineMetric = COUNTER) -> MetricSeries:
    """(time, value) pairs; None is a scrape that failed."""
    return MetricSeries(
        tuple(
            Scrape(at, 1e9 + at, error="refused")
            if value is None
            else Scrape(at, 1e9 + at, {metric: value})
            for at, value in points
        )
    )


def test_a_counters_delta_between_scrapes_is_their_difference() -> None:
    series = series_of((0, 100), (1, 103), (2, 110), (3, 111))
    assert series.delta(COUNTER, 1, 3) == 8.0


def test_a_delta_is_interpolated_inside_scrapes() -> None:
    assert series_of((0, 0), (10, 100)).delta(COUNTER, 2.5, 5.0) == pytest.approx(25.0)


def test_a_gap_is_bridged() -> None:
    assert series_of((0, 0), (1, None), (2, None), (3, 30)).delta(COUNTER, 1, 2) == pytest.approx(
        10
    )


def test_nothing_is_known_beyond_the_scrapes() -> None:
    series = series_of((1, 0), (2, 5))
    assert series.delta(COUNTER, 0.5, 2) is None
    assert series.delta(COUNTER, 1, 2.5) is None
    assert series.delta(COUNTER, 1, 2) == 5.0


@pytest.mark.parametrize("points", [(), ((1.0, 5.0),), ((0.0, None), (9.0, None))])
def test_too_few_scrapes_say_nothing(points: tuple[tuple[float, float | None], ...]) -> None:
    assert series_of(*points).delta(COUNTER, 1, 2) is None


def test_a_metric_that_was_never_reported_is_none() -> None:
    series = series_of((0, 0), (5, 5))
    assert series.delta(EngineMetric.GENERATION_TOKENS, 1, 2) is None
    assert series.peak(GAUGE, 0, 5) is None


def test_a_counter_that_falls_was_reset() -> None:
    series = series_of((0, 50), (1, 60), (2, 3), (3, 9))
    assert series.was_reset(COUNTER, 0, 3)
    assert series.delta(COUNTER, 0, 3) is None
    assert series.was_reset(COUNTER, 1.5, 1.6)


def test_a_reset_outside_the_window_does_not_matter() -> None:
    series = series_of((0, 50), (1, 3), (2, 9), (3, 10), (4, 0))
    assert not series.was_reset(COUNTER, 1.5, 2.5)
    assert series.delta(COUNTER, 1.5, 2.5) == pytest.approx(3.5)


def test_a_gauge_has_no_delta() -> None:
    with pytest.raises(ValueError, match="gauge"):
        series_of((0, 0.5), metric=GAUGE).delta(GAUGE, 0, 1)


def test_peak_and_mean_of_a_gauge_stay_within_the_window() -> None:
    series = series_of((0, 0.9), (1, 0.2), (2, None), (3, 0.6), (4, 0.95), metric=GAUGE)
    assert series.peak(GAUGE, 1, 3) == 0.6
    assert series.mean(GAUGE, 1, 3) == pytest.approx(0.4)


def test_a_window_between_scrapes_has_no_peak() -> None:
    series = series_of((0, 0.9), (1, 0.2), metric=GAUGE)
    assert series.peak(GAUGE, 0.2, 0.8) is None
    assert series.mean(GAUGE, 0.2, 0.8) is None


def test_a_gauge_of_zero_is_zero_and_not_missing() -> None:
    series = series_of((0, 0.0), (1, 0.0), metric=GAUGE)
    assert series.peak(GAUGE, 0, 1) == 0.0
    assert series.mean(GAUGE, 0, 1) == 0.0


def test_failed_scrapes_are_gaps() -> None:
    gaps = series_of((0, 1), (1, None), (2, 3)).gaps
    assert [(gap.monotonic_s, gap.error) for gap in gaps] == [(1, "refused")]


values = st.dictionaries(st.sampled_from(EngineMetric), st.floats(0, 1e12), max_size=4)
scrapes = st.builds(
    Scrape,
    monotonic_s=st.floats(0, 1e6),
    unix_s=st.floats(1e9, 2e9),
    values=values,
    error=st.none() | st.text(),
)


@given(series=st.lists(scrapes, max_size=5).map(lambda rows: MetricSeries(tuple(rows))))
def test_a_series_survives_the_file_exactly(
    series: MetricSeries, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("series") / "metrics.json"
    series.save(path)
    assert MetricSeries.load(path) == series
    assert [entry.name for entry in path.parent.iterdir()] == ["metrics.json"]


@pytest.mark.parametrize("document", ["[]", '{"format_version": 2, "scrapes": []}', "{}"])
def test_files_of_another_format_are_refused(document: str, tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text(document)
    with pytest.raises(ValueError, match="no metric series of format 1"):
        MetricSeries.load(tmp_path / "m.json")


def test_a_stored_scrape_without_values_is_refused(tmp_path: Path) -> None:
    row = {"monotonic_s": 1.0, "unix_s": 1.0, "values": None, "error": None}
    (tmp_path / "m.json").write_text(json.dumps({"format_version": 1, "scrapes": [row]}))
    with pytest.raises(ValueError, match="without values"):
        MetricSeries.load(tmp_path / "m.json")


@given(
    steps=st.lists(st.floats(0, 1000), min_size=3, max_size=20),
    cuts=st.lists(st.floats(0.0, 1.0), min_size=3, max_size=3).map(sorted),
)
def test_deltas_of_adjacent_windows_add_up(steps: list[float], cuts: list[float]) -> None:
    total = 0.0
    points = []
    for second, step in enumerate(steps):
        total += step
        points.append((float(second), total))
    series = series_of(*points)
    start, middle, end = (cut * (len(steps) - 1) for cut in cuts)
    first, second_part = series.delta(COUNTER, start, middle), series.delta(COUNTER, middle, end)
    whole = series.delta(COUNTER, start, end)
    assert first is not None
    assert second_part is not None
    assert whole == pytest.approx(first + second_part, abs=1e-6)
    assert first >= 0


def test_two_series_are_merged_in_order_of_time_and_do_not_disturb_each_other() -> None:
    counters = series_of((0, 0), (10, 100), (20, 200))
    gauges = series_of((5, 0.3), (15, 0.9), metric=GAUGE)
    both = counters.merged(gauges)
    assert [scrape.monotonic_s for scrape in both.scrapes] == [0, 5, 10, 15, 20]
    assert both.delta(COUNTER, 0, 20) == counters.delta(COUNTER, 0, 20)
    assert both.peak(GAUGE, 0, 20) == 0.9
