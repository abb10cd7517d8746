from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.load_records import Row, closed_segment, open_segment, records_of
from tuner.loadgen.closing import Closing, Width
from tuner.loadgen.load_result import (
    GeneratorHealth,
    SegmentReport,
    SegmentWindow,
    load_segments,
    records_path,
    save_segment,
)
from tuner.loadgen.plan import LoadPlan

PLAN = LoadPlan("http://x", "m", (open_segment(), closed_segment()), 1000, 1, 1.0, 60.0)
WINDOW = SegmentWindow(10.0, 20.0, 1e9, 1e9 + 10)
REPORTS = (
    SegmentReport(WINDOW, "a clock", GeneratorHealth(0.25, 3.5, 17), False, None, True),
    SegmentReport(WINDOW, "a clock", None, True, "32 in a row", False),
)


def save(directory: Path, number: int) -> None:
    rows = [Row(due_s=1.0, sent_s=1.0, frames=(2.0,))] * (number + 1)
    save_segment(directory, number, records_of(rows), REPORTS[number])


def test_segments_come_back_with_their_plan_records_and_report(tmp_path: Path) -> None:
    for number in range(2):
        save(tmp_path, number)
    first, second = load_segments(PLAN, tmp_path)
    assert (first.report, second.report) == REPORTS
    assert (first.segment, second.segment) == PLAN.segments
    assert (first.records.size, second.records.size) == (1, 2)
    assert first.window == WINDOW


def test_a_window_that_closed_early_is_the_one_that_was_measured(tmp_path: Path) -> None:
    closing = Closing(PLAN.segments[0].warmup_s + 0.5, (Width("ttft_p95", 70, 0.04),))
    save_segment(tmp_path, 0, records_of([]), replace(REPORTS[0], closing=closing))
    (found,) = load_segments(PLAN, tmp_path)
    assert found.report.closing == closing
    assert found.segment.window_s == 0.5
    assert found.segment.longest_window_s == PLAN.segments[0].window_s
    assert found.segment.requests == PLAN.segments[0].requests


def test_reports_of_older_versions_are_of_whole_windows(tmp_path: Path) -> None:
    save(tmp_path, 0)
    path = tmp_path / "segment-0.json"
    document = json.loads(path.read_text())
    del document["closing"]
    path.write_text(json.dumps(document))
    (found,) = load_segments(PLAN, tmp_path)
    assert found.segment == PLAN.segments[0]


def test_a_segment_without_its_report_was_not_finished(tmp_path: Path) -> None:
    save(tmp_path, 0)
    records_of([]).save(records_path(tmp_path, 1))
    assert len(load_segments(PLAN, tmp_path)) == 1


def test_segments_after_a_missing_one_do_not_count(tmp_path: Path) -> None:
    save(tmp_path, 1)
    assert load_segments(PLAN, tmp_path) == ()


def test_a_number_that_is_none_cannot_be_reported(tmp_path: Path) -> None:
    broken = SegmentReport(WINDOW, "c", GeneratorHealth(float("nan"), 0.0, 0), False, None, True)
    with pytest.raises(ValueError, match="JSON"):
        save_segment(tmp_path, 0, records_of([]), broken)
    assert load_segments(PLAN, tmp_path) == ()


def test_reports_are_plain_json(tmp_path: Path) -> None:
    save(tmp_path, 1)
    document = json.loads((tmp_path / "segment-1.json").read_text())
    assert document["given_up"] == "32 in a row"
    assert document["health"] is None
