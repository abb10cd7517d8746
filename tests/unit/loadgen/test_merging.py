from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.load_records import Row, records_of
from tuner.loadgen.closing import Closing
from tuner.loadgen.load_result import (
    GeneratorHealth,
    LoadProgress,
    SegmentReport,
    SegmentWindow,
)
from tuner.loadgen.merging import LookedAt, MergedProgress, merged_records, merged_report
from tuner.loadgen.plan import ClosedLoopSegment, OpenLoopSegment, PlannedRequest, Segment
from tuner.loadgen.prefix import PrefixRow
from tuner.loadgen.records import Outcome, Records

rows = st.builds(
    Row,
    due_s=st.floats(0, 100),
    sent_s=st.floats(0, 100),
    frames=st.lists(st.floats(0, 100), max_size=4).map(lambda at: tuple(sorted(at))),
    outcome=st.sampled_from(list(Outcome)),
    ended_s=st.floats(0, 100),
    prompt_tokens=st.integers(1, 1000),
)
WINDOW = SegmentWindow(1.0, 2.0, 1e9, 1e9 + 1)


def dealt(all_rows: list[Row], processes: int) -> list[Records]:
    """The records each process would leave of its share of these requests."""
    parts = []
    for part in range(processes):
        records = records_of(all_rows[part::processes])
        index = np.arange(part, len(all_rows), processes)
        parts.append(replace(records, index=index))
    return parts


@given(all_rows=st.lists(rows, max_size=25), processes=st.integers(1, 5))
def test_dealt_records_come_back_as_they_were(all_rows: list[Row], processes: int) -> None:
    whole, merged = records_of(all_rows), merged_records(dealt(all_rows, processes))
    for field in fields(Records):
        one, other = getattr(whole, field.name), getattr(merged, field.name)
        assert one.dtype.kind == other.dtype.kind, field.name
        assert np.array_equal(one, other, equal_nan=one.dtype.kind == "f"), field.name


def test_requests_that_were_never_sent_leave_no_gap() -> None:
    first = replace(
        records_of([Row(frames=(1.0,)), Row(frames=(5.0, 6.0))]), index=np.array([0, 4])
    )
    second = replace(records_of([Row(frames=(2.0, 3.0))]), index=np.array([1]))
    merged = merged_records([first, second])
    assert merged.index.tolist() == [0, 1, 4]
    assert merged.frame_s.tolist() == [1.0, 2.0, 3.0, 5.0, 6.0]
    assert merged.frame_start.tolist() == [0, 1, 3, 5]


def report(**changes: object) -> SegmentReport:
    health = GeneratorHealth(0.2, 3.0, 100)
    plain = SegmentReport(WINDOW, "kernel", health, False, None, cache_salt=True)
    return replace(plain, **changes)  # type: ignore[arg-type]  # by field name


def test_one_process_that_heard_of_an_early_end_speaks_for_all() -> None:
    """The other was over before: what it sent later is not in the window."""
    early = replace(WINDOW, end_monotonic_s=WINDOW.end_monotonic_s - 1)
    closing = Closing(5.0, ())
    merged = merged_report([report(), report(window=early, closing=closing)])
    assert (merged.window, merged.closing) == (early, closing)
    assert merged_report([report(), report()]).closing is None


def test_the_worst_process_speaks_for_all() -> None:
    busy = GeneratorHealth(0.9, 1.0, 50)
    merged = merged_report(
        [report(), report(health=busy, clock="user space", clock_step_ms=2.0, cache_salt=False)]
    )
    assert merged.health == GeneratorHealth(0.9, 3.0, 150)
    assert (merged.clock, merged.clock_step_ms, merged.cache_salt) == ("user space", 2.0, False)
    assert (merged.processes, merged.window) == (2, WINDOW)
    assert (merged.list_exhausted, merged.given_up) == (False, None)


def test_one_process_that_gave_up_or_ran_out_is_not_hidden() -> None:
    merged = merged_report([report(), report(health=None, given_up="refused", list_exhausted=True)])
    assert (merged.health, merged.given_up, merged.list_exhausted) == (None, "refused", True)


OPEN = OpenLoopSegment(
    tuple(PlannedRequest(i, 4, 2, i, 1.0 + i * 0.01) for i in range(7)), 1.0, 1.0, 1.0
)
CLOSED = ClosedLoopSegment(tuple(PlannedRequest(i, 4, 2, i) for i in range(7)), 3, 1.0, 1.0)


def progress(segment: int = 0, **changes: object) -> LoadProgress:
    plain = LoadProgress(segment, "window", 1.5, 3.0, completed=2, failed=1, in_flight=3)
    return replace(plain, **changes)  # type: ignore[arg-type]  # by field name


def test_progress_is_told_once_all_have_begun_and_then_with_the_first_process() -> None:
    merged = MergedProgress(2, [LookedAt.of(OPEN, 2)])
    assert merged.take(0, progress()) is None
    assert merged.take(1, progress()) is None
    whole = merged.take(0, progress(elapsed_s=1.75))
    assert whole is not None
    assert (whole.completed, whole.failed, whole.in_flight) == (4, 2, 6)
    assert whole.elapsed_s == 1.5


def test_a_segment_is_over_when_the_last_process_is_through() -> None:
    merged = MergedProgress(2, [LookedAt.of(OPEN, 2), LookedAt.of(CLOSED, 2)])
    merged.take(1, progress())
    ahead = merged.take(0, progress(segment=1, completed=0, failed=0, in_flight=0))
    assert ahead is not None
    assert (ahead.segment, ahead.completed) == (0, 2)
    merged.take(1, progress(segment=1, completed=5))
    whole = merged.take(0, progress(segment=1, completed=6))
    assert whole is not None
    assert (whole.segment, whole.completed) == (1, 11)


def test_the_windows_first_requests_are_told_once_in_the_plans_order() -> None:
    def row(number: int) -> PrefixRow:
        return (1.0 + number * 0.01, None, None, None, 0)

    merged = MergedProgress(2, [LookedAt.of(OPEN, 2)])
    merged.take(0, progress(prefix=[row(n) for n in (0, 2, 4, 6)]))
    merged.take(1, progress(prefix=[row(n) for n in (1, 3, 5)]))
    whole = merged.take(0, progress())
    assert whole is not None
    assert whole.prefix == [row(n) for n in range(7)]
    later = merged.take(0, progress())
    assert later is not None
    assert later.prefix is None


def test_a_part_of_the_first_requests_is_not_told() -> None:
    merged = MergedProgress(2, [LookedAt.of(OPEN, 2)])
    merged.take(1, progress())
    whole = merged.take(0, progress(prefix=[(1.0, None, None, None, 0)]))
    assert whole is not None
    assert whole.prefix is None


@pytest.mark.parametrize("segment", [OPEN, CLOSED])
def test_only_an_open_loop_is_looked_at(segment: Segment) -> None:
    assert (LookedAt.of(segment, 2) is not None) == (segment is OPEN)


def test_conversations_first_requests_come_from_the_process_that_holds_them() -> None:
    """Two conversations of two turns, whose second turns are not looked at, between others."""
    after = {1: 0, 4: 3}
    requests = tuple(replace(each, after=after.get(each.index)) for each in OPEN.requests)
    view = LookedAt.of(replace(OPEN, requests=requests), 2)
    assert view is not None
    assert view.owners == (0, 1, 0, 1, 0), "requests 0, 2, 3, 5 and 6"


def test_verdicts_of_all_processes_are_told_once_and_the_unanswered_add_up() -> None:
    merged, plain = MergedProgress(2, [None]), LoadProgress(0, "window", 1.5, 3.0, 2, 1, 3)
    assert merged.take(1, replace(plain, verdicts=[(1, 0.5, 0.0, 9.0)], unanswered=2)) is None
    assert merged.take(1, replace(plain, verdicts=[(3, 2.0, None, 9.0)], unanswered=4)) is None
    whole = merged.take(0, replace(plain, verdicts=[(0, 0.1, 0.0, 9.0)], unanswered=1))
    assert whole is not None
    assert sorted(whole.verdicts) == [(0, 0.1, 0.0, 9.0), (1, 0.5, 0.0, 9.0), (3, 2.0, None, 9.0)]
    assert whole.unanswered == 5
    later = merged.take(0, replace(plain, verdicts=[(2, 0.2, 0.0, 9.0)], unanswered=0))
    assert later is not None
    assert later.verdicts == ((2, 0.2, 0.0, 9.0),)
