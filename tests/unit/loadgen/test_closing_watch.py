from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support.load_records import Row, closed_segment, records_of
from tuner.loadgen.closing import PARTS, THROUGHPUT, AdaptiveWindow
from tuner.loadgen.closing_watch import ClosingWatch, closing_of
from tuner.loadgen.load_result import LoadProgress
from tuner.loadgen.plan import OpenLoopSegment, PlannedRequest
from tuner.loadgen.running_latencies import LatencyRow, rows_of_records

LATENCY = AdaptiveWindow(0.1, 0.5, ("ttft_p95", "tpot_p95"))
RATE = AdaptiveWindow(0.05, 0.5, (THROUGHPUT,))
COUNT = 1000


def open_loop(rule: AdaptiveWindow | None = LATENCY) -> OpenLoopSegment:
    """Ten requests a second, measured from 10 s to 110 s."""
    requests = tuple(PlannedRequest(i, 10, 3, i, due_s=10.0 + i / 10) for i in range(COUNT + 50))
    return OpenLoopSegment(requests, 10.0, 100.0, 5.0, adaptive=rule)


def answered(sigma: float = 0.1) -> list[Row]:
    rng = np.random.default_rng(5)
    found = []
    for number in range(COUNT + 50):
        due_s, first_s = 10.0 + number / 10, float(rng.lognormal(-1.0, sigma))
        gap_s = float(rng.lognormal(-3.0, sigma))
        frames = tuple(due_s + first_s + gap_s * each for each in range(3))
        found.append(Row(due_s=due_s, sent_s=due_s, frames=frames))
    return found


def progress(
    elapsed_s: float,
    latencies: tuple[LatencyRow, ...] = (),
    part_tokens: tuple[int, ...] = (),
    segment: int = 0,
) -> LoadProgress:
    told = {"latencies": latencies, "part_tokens": part_tokens}
    return LoadProgress(segment, "window", elapsed_s, 115.0, 0, 0, 0, **told)  # type: ignore[arg-type]


def told_until(rows: list[LatencyRow], begin_s: float, end_s: float) -> tuple[LatencyRow, ...]:
    return tuple(row for row in rows if begin_s < row[1] <= end_s)


@pytest.mark.parametrize("processes", [1, 3])
def test_the_running_load_is_closed_where_its_records_say(processes: int) -> None:
    segment = open_loop()
    records = records_of(answered())
    expected = closing_of(segment, records)
    assert expected is not None
    assert 60.0 <= expected.at_s < 100.0
    rows = rows_of_records(segment, records)
    watch, found = ClosingWatch([segment], processes), []
    for tick in range(480):
        end_s = 0.25 * tick
        for part in range(processes):
            told = tuple(
                row for row in told_until(rows, end_s - 0.25, end_s) if row[0] % processes == part
            )
            closing = watch.hear(part, progress(end_s, told))
            found += [] if closing is None else [(part, end_s, closing)]
    ((part, heard_s, closing),) = found
    assert closing == expected
    assert part == processes - 1
    assert 0 <= heard_s - closing.at_s < 0.25 + 1e-9


def test_nothing_is_decided_before_the_slowest_process_has_told() -> None:
    segment = open_loop()
    rows = tuple(rows_of_records(segment, records_of(answered())))
    watch = ClosingWatch([segment], 2)
    assert watch.hear(0, progress(120.0, rows)) is None
    assert watch.hear(1, progress(59.9)) is None
    assert watch.hear(1, progress(60.0)) is not None


def test_wide_intervals_keep_the_window_whole() -> None:
    assert closing_of(open_loop(), records_of(answered(sigma=1.5))) is None


def test_a_window_that_nobody_asked_to_close_stays_whole() -> None:
    segment = open_loop(None)
    records = records_of(answered())
    assert closing_of(segment, records) is None
    rows = tuple(rows_of_records(segment, records))
    assert ClosingWatch([segment], 1).hear(0, progress(120.0, rows)) is None


def test_tokens_of_all_processes_are_one_rate() -> None:
    """Alone each would be judged too restless; what one lacks the other brings."""
    segment = replace(closed_segment(), adaptive=RATE)
    swing = np.random.default_rng(1).integers(-400, 401, PARTS)
    watch = ClosingWatch([open_loop(), segment], 2)
    one, two = tuple((1000 + swing).tolist()), tuple((1000 - swing).tolist())
    assert watch.hear(0, progress(20.0, part_tokens=one, segment=1)) is None
    assert watch.hear(1, progress(20.0, part_tokens=two[:29], segment=1)) is None
    closing = watch.hear(1, progress(20.0, part_tokens=two[29:30], segment=1))
    assert closing is not None
    assert closing.at_s == pytest.approx(15.0)
    alone = ClosingWatch([open_loop(), segment], 1)
    assert alone.hear(0, progress(20.0, part_tokens=one, segment=1)) is None


def test_a_saturated_window_is_closed_where_its_records_say() -> None:
    segment = replace(closed_segment(), adaptive=RATE)
    rng = np.random.default_rng(3)
    frames = tuple(np.sort(rng.uniform(0.0, 20.0, 40_000)).tolist())
    closing = closing_of(segment, records_of([Row(sent_s=0.0, frames=frames)]))
    assert closing is not None
    assert closing.at_s == pytest.approx(15.0)
