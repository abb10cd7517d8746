from __future__ import annotations

import numpy as np

from tests.support.scripted_server import DONE_EVENT, token_event, usage_event
from tuner.loadgen.plan import PlannedRequest
from tuner.loadgen.records import Outcome
from tuner.loadgen.request_log import RequestLog

PLAN = (
    PlannedRequest(index=0, prompt_tokens=11, output_tokens=2, prompt_seed=1, due_s=0.0),
    PlannedRequest(index=1, prompt_tokens=12, output_tokens=3, prompt_seed=2, due_s=1.0),
    PlannedRequest(index=2, prompt_tokens=13, output_tokens=4, prompt_seed=3, due_s=2.0),
)


def filled() -> RequestLog:
    """Row 0 completed, row 1 failed after one token, row 2 never sent. Segment begins at 100."""
    log = RequestLog(PLAN)
    first = log.begin(0)
    first.sent_s, first.http_status = 100.1, 200
    first.feed(100.2, token_event(total=1))
    second = log.begin(1)
    second.sent_s, second.http_status = 100.15, 200
    first.feed(100.3, token_event(total=2, finish_reason="length") + usage_event(2) + DONE_EVENT)
    log.end(0, Outcome.COMPLETED, 100.35)
    second.feed(100.4, token_event())
    log.end(1, Outcome.DISCONNECTED, 100.5, "gone")
    return log


def test_times_become_engine_seconds_of_the_segment() -> None:
    records = filled().records(100.0, 10.0, only_sent=False)
    assert np.round(records.sent_s, 6).tolist()[:2] == [1.0, 1.5]
    assert np.round(records.first_s, 6).tolist()[:2] == [2.0, 4.0]
    assert np.round(records.last_s, 6).tolist()[:2] == [3.0, 4.0]
    assert np.round(records.ended_s, 6).tolist()[:2] == [3.5, 5.0]
    assert np.round(records.frame_s, 6).tolist() == [2.0, 3.0, 4.0]


def test_due_times_are_engine_time_already() -> None:
    assert filled().records(100.0, 10.0, only_sent=False).due_s.tolist() == [0.0, 1.0, 2.0]


def test_outcomes_counts_and_details_are_kept() -> None:
    records = filled().records(100.0, 1.0, only_sent=False)
    expected = [Outcome.COMPLETED, Outcome.DISCONNECTED, Outcome.NOT_SENT]
    assert records.outcome.tolist() == expected
    assert records.received_tokens.tolist() == [2, 1, 0]
    assert records.asked_tokens.tolist() == [2, 3, 4]
    assert records.prompt_tokens.tolist() == [11, 12, 13]
    assert records.http_status.tolist() == [200, 200, 0]
    assert records.detail.tolist() == ["", "gone", ""]
    assert records.frame_start.tolist() == [0, 2, 3, 3]
    assert records.first_frame_tokens.tolist() == [1, 1, 0]


def test_what_never_happened_has_no_time() -> None:
    records = filled().records(100.0, 1.0, only_sent=False)
    for column in (records.sent_s, records.first_s, records.last_s, records.ended_s):
        assert np.isnan(column[2])


def test_unsent_rows_of_a_closed_loop_are_left_out() -> None:
    records = filled().records(100.0, 1.0, only_sent=True)
    assert records.index.tolist() == [0, 1]


def test_a_log_of_nothing_has_empty_records() -> None:
    records = RequestLog(()).records(0.0, 1.0, only_sent=True)
    assert (records.size, records.frame_s.size) == (0, 0)
    assert records.frame_start.tolist() == [0]


def test_uncounted_tokens_are_spread_over_the_frames() -> None:
    log = RequestLog(PLAN[:1])
    stream = log.begin(0)
    for second in range(4):
        stream.feed(second, token_event())
    stream.feed(4.0, usage_event(8) + DONE_EVENT)
    log.end(0, Outcome.COMPLETED, 5.0)
    assert log.records(0.0, 1.0, only_sent=True).frame_tokens.tolist() == [2.0] * 4


def test_counted_tokens_stay_where_they_came() -> None:
    log = RequestLog(PLAN[:1])
    stream = log.begin(0)
    stream.feed(1.0, token_event(total=1))
    stream.feed(2.0, token_event(total=5))
    log.end(0, Outcome.UNFINISHED, 5.0)
    assert log.records(0.0, 1.0, only_sent=True).frame_tokens.tolist() == [1.0, 4.0]


def test_progress_counts_follow() -> None:
    log = filled()
    counts = [log.completed, log.failed, log.in_flight]
    log.begin(2)
    counts.append(log.in_flight)
    assert counts == [1, 1, 0, 1]
    assert len(list(log.active_streams())) == 1


def test_a_success_ends_a_row_of_failures_and_a_cancellation_does_not_count() -> None:
    log = RequestLog(PLAN)
    for row, outcome in enumerate((Outcome.STALLED, Outcome.UNFINISHED)):
        log.begin(row)
        log.end(row, outcome, 1.0)
    assert log.failed_in_a_row == 1
    log.begin(2)
    log.end(2, Outcome.COMPLETED, 1.0)
    assert log.failed_in_a_row == 0


def test_the_last_token_of_any_request_is_known() -> None:
    assert RequestLog(PLAN).last_token_s is None
    log = RequestLog(PLAN)
    running = log.begin(0)
    running.feed(3.0, token_event())
    assert log.last_token_s == 3.0
    finished = log.begin(1)
    finished.feed(9.0, token_event())
    log.end(1, Outcome.COMPLETED, 9.5)
    running.feed(7.0, token_event())
    assert log.last_token_s == 9.0
