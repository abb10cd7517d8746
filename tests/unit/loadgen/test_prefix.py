from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.load_records import Row, records_of, result_of
from tuner.domain.engine_window import EngineWindow
from tuner.loadgen.plan import OpenLoopSegment, PlannedRequest
from tuner.loadgen.prefix import (
    FEWEST_FRAMES,
    MOST_REQUESTS,
    Look,
    PrefixRow,
    mean_gap_ms,
    prefix_summary,
    rows_of_log,
    rows_of_records,
    send_lags_s,
)
from tuner.loadgen.records import Outcome
from tuner.loadgen.request_log import RequestLog
from tuner.loadgen.summary import latency_segment

START_S = 1000.0
SCALE = 10.0


def segment(*due_s: float) -> OpenLoopSegment:
    """Warm-up 10 s and window 40 s: due in [10, 20) is looked at, at 24 s."""
    requests = tuple(PlannedRequest(i, 10, 20, i, due_s=at) for i, at in enumerate(due_s))
    return OpenLoopSegment(requests, warmup_s=10.0, window_s=40.0, drain_s=5.0)


def frames(first_s: float, count: int, gap_s: float) -> tuple[float, ...]:
    return tuple(first_s + gap_s * number for number in range(count))


def test_the_windows_first_quarter_is_looked_at_a_tenth_of_the_window_later() -> None:
    look = Look.of(segment(9.99, 10.0, 19.99, 20.0))
    assert look.rows == (1, 2)
    assert look.window_s == pytest.approx(10.0)
    assert look.at_s == pytest.approx(24.0)


def test_a_window_that_closed_early_is_looked_at_as_the_whole_one() -> None:
    whole = segment(9.99, 10.0, 19.99, 20.0)
    assert Look.of(whole.closed_at(30.0)) == Look.of(whole)


def test_no_more_requests_are_looked_at_than_can_be_told_in_passing() -> None:
    look = Look.of(segment(*([11.0] * (MOST_REQUESTS + 5))))
    assert look.rows == tuple(range(MOST_REQUESTS))


def test_what_happens_after_the_look_is_not_known() -> None:
    planned = segment(12.0)
    one = Row(due_s=12.0, sent_s=12.0, frames=frames(13.0, 100, 0.5))
    rows = rows_of_records(Look.of(planned), planned, records_of([one]))
    assert rows == [(12.0, 12.0, 13.0, 24.0, 23)]


def test_a_request_without_a_token_has_waited_so_far() -> None:
    planned = segment(12.0, 14.0, 15.0)
    look = Look.of(planned)
    late = Row(due_s=12.0, sent_s=12.0, frames=(30.0, 31.0))
    failed = Row(due_s=14.0, sent_s=14.0, outcome=Outcome.HTTP_ERROR, ended_s=14.1)
    unsent = Row(due_s=15.0, outcome=Outcome.NOT_SENT)
    records = records_of([late, failed, unsent])
    found = prefix_summary(look, rows_of_records(look, planned, records))
    assert found.requests == found.unanswered == 3
    assert found.ttft_ms is not None
    assert found.ttft_ms.max.value == pytest.approx(12_000.0)
    assert found.ttft_ms.p50.value == pytest.approx(10_000.0)
    assert found.ttft_ms.censored == 3
    assert found.tpot_ms is None


def test_gaps_count_once_a_request_has_enough_of_them() -> None:
    planned = segment(11.0, 12.0)
    look = Look.of(planned)
    begun = Row(due_s=11.0, sent_s=11.0, frames=frames(12.0, FEWEST_FRAMES - 1, 1.0))
    going = Row(due_s=12.0, sent_s=12.0, frames=frames(13.0, 50, 0.25))
    found = prefix_summary(look, rows_of_records(look, planned, records_of([begun, going])))
    assert found.tpot_ms is not None
    assert found.tpot_ms.mean.n == 1
    assert found.tpot_ms.p95.value == pytest.approx(250.0)


def log_of(rows: list[Row], planned: OpenLoopSegment) -> RequestLog:
    """The generator's log of these rows, as it stands when the segment has ended."""
    log = RequestLog(planned.requests)
    for number, row in enumerate(rows):
        if row.outcome is Outcome.NOT_SENT:
            continue
        stream = log.begin(number)
        stream.sent_s = START_S + row.sent_s / SCALE
        for at in row.frames:
            stream._add_frame(START_S + at / SCALE, 1)
    return log


@given(
    st.lists(
        st.tuples(st.floats(0, 49), st.floats(0, 0.5), st.floats(0.01, 30), st.integers(0, 40)),
        max_size=12,
    )
)
def test_the_running_generator_and_the_records_tell_the_same(
    shapes: list[tuple[float, float, float, int]],
) -> None:
    planned = segment(*(due for due, *_ in shapes))
    rows = [
        Row(due_s=due, sent_s=due + lag, frames=frames(due + lag + ttft, count, 0.3))
        for due, lag, ttft, count in shapes
    ]
    look = Look.of(planned)
    live = rows_of_log(look, planned, log_of(rows, planned), START_S, SCALE)
    live = [tuple(row) for row in json.loads(json.dumps(live))]
    later = rows_of_records(look, planned, records_of(rows))
    assert [row[4] for row in live] == pytest.approx([row[4] for row in later], abs=1)
    for one, other in zip(live, later, strict=True):
        if one[4] == other[4]:
            assert one[:4] == pytest.approx(other[:4], abs=1e-5)


def test_unsent_requests_are_unsent_in_the_log_too() -> None:
    planned = segment(11.0, 12.0)
    unsent = [Row(due_s=11.0, outcome=Outcome.NOT_SENT), Row(due_s=12.0, sent_s=30.0)]
    rows = rows_of_log(Look.of(planned), planned, log_of(unsent, planned), START_S, SCALE)
    assert rows == [(11.0, None, None, None, 0), (12.0, None, None, None, 0)]


def test_lags_and_gaps_leave_out_what_did_not_happen() -> None:
    rows: list[PrefixRow] = [
        (10.0, 10.25, 11.0, 13.0, 5),
        (11.0, 11.0, 12.0, 12.0, 1),
        (12.0, None, None, None, 0),
    ]
    assert send_lags_s(rows).tolist() == [0.25, 0.0]
    assert mean_gap_ms(rows) == pytest.approx(500.0)
    assert mean_gap_ms(rows[1:]) is None


def test_a_prefix_without_requests_is_empty_and_not_good() -> None:
    planned = segment(40.0)
    found = prefix_summary(Look.of(planned), [])
    assert (found.requests, found.unanswered) == (0, 0)
    assert found.ttft_ms is None
    assert found.tpot_ms is None


def test_a_measurement_keeps_its_prefix() -> None:
    planned = segment(12.0, 30.0)
    rows = [Row(due_s=at, sent_s=at, frames=frames(at + 1.0, 20, 0.1)) for at in (12.0, 30.0)]
    prefix = latency_segment(result_of(planned, rows), EngineWindow()).prefix
    assert prefix is not None
    assert prefix.requests == 1
    assert prefix.ttft_ms is not None
    assert prefix.ttft_ms.p95.value == pytest.approx(1000.0)
