from __future__ import annotations

from pathlib import Path

import pytest

from tuner.study.load_progress import MEASUREMENT, SERIES_FILE
from tuner.study.series_view import MOST_POINTS, series_points
from tuner.telemetry.exposition import EngineMetric
from tuner.telemetry.series import MetricSeries, Scrape


def scrape(at_s: float, **values: float) -> Scrape:
    return Scrape(at_s, 1e9 + at_s, {EngineMetric(name): value for name, value in values.items()})


def stored(directory: Path, *scrapes: Scrape) -> Path:
    (directory / MEASUREMENT).mkdir(parents=True)
    MetricSeries(scrapes).save(directory / MEASUREMENT / SERIES_FILE)
    return directory


def test_points_are_in_engine_seconds_from_the_first(tmp_path: Path) -> None:
    directory = stored(tmp_path, scrape(50.0, running=1), scrape(50.5, running=2))
    assert [p["at_s"] for p in series_points(directory, 10.0)] == [0.0, 5.0]
    assert [p["running"] for p in series_points(directory, 10.0)] == [1, 2]


def test_preemptions_count_from_the_first_scrape(tmp_path: Path) -> None:
    directory = stored(
        tmp_path,
        scrape(1, running=1, preemptions=7),
        scrape(2, running=1, preemptions=7),
        scrape(3, running=1, preemptions=9),
    )
    assert [p["preemptions"] for p in series_points(directory, 1.0)] == [0, 0, 2]


def test_what_the_engine_does_not_tell_is_null(tmp_path: Path) -> None:
    (point,) = series_points(stored(tmp_path, scrape(1, running=3)), 1.0)
    assert point == {
        "at_s": 0.0,
        "running": 3,
        "waiting": None,
        "kv_usage": None,
        "preemptions": None,
    }


def test_gaps_and_the_drivers_samples_are_no_points(tmp_path: Path) -> None:
    gap = Scrape(2.0, 1e9, {}, "TimeoutError")
    busy = scrape(1.5, gpu_utilization=0.9)
    directory = stored(tmp_path, scrape(1, kv_usage=0.1), busy, gap, scrape(3, kv_usage=0.2))
    assert [p["kv_usage"] for p in series_points(directory, 1.0)] == [0.1, 0.2]


def test_a_long_series_is_thinned(tmp_path: Path) -> None:
    many = [scrape(float(i), running=i) for i in range(3 * MOST_POINTS)]
    points = series_points(stored(tmp_path, *many), 1.0)
    assert len(points) == MOST_POINTS
    assert points[1]["at_s"] == 3.0


@pytest.mark.parametrize("content", [None, b"", b"{", b"[]", b'{"format_version": 99}'])
def test_files_that_cannot_be_read_have_no_points(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / MEASUREMENT).mkdir()
        (tmp_path / MEASUREMENT / SERIES_FILE).write_bytes(content)
    assert series_points(tmp_path, 1.0) == ()
