from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.load_records import NAN, Row, records_of
from tuner.loadgen.records import FloatArray, Outcome
from tuner.loadgen.request_metrics import (
    e2e_ms,
    first_token_mean_ms,
    frame_gaps_ms,
    itl_ms,
    token_gap_mean_ms,
    tokens_within,
    tpot_ms,
    ttft_from_due_ms,
    ttft_from_send_ms,
)

ROW = Row(due_s=1.0, sent_s=1.25, frames=(2.0, 2.5, 4.0))


def only(values: FloatArray) -> float:
    (value,) = values.tolist()
    return float(value)


def test_ttft_counts_from_the_schedule_and_from_the_send() -> None:
    records = records_of([ROW])
    assert only(ttft_from_due_ms(records)) == 1000.0
    assert only(ttft_from_send_ms(records)) == 750.0


def test_e2e_counts_from_the_send_to_the_last_token() -> None:
    row = Row(sent_s=1.25, frames=(2.0, 4.0), ended_s=9.0)
    assert only(e2e_ms(records_of([row]))) == 2750.0


def test_tpot_spreads_the_decode_over_the_later_tokens() -> None:
    assert only(tpot_ms(records_of([ROW]))) == 1000.0


def test_tpot_takes_the_first_frames_tokens_out() -> None:
    row = Row(frames=(2.0, 3.0), frame_tokens=(4.0, 2.0))
    assert only(tpot_ms(records_of([row]))) == 500.0


@pytest.mark.parametrize(
    "row",
    [
        Row(frames=(2.0,)),
        Row(frames=(2.0,), frame_tokens=(5.0,)),
        Row(outcome=Outcome.STALLED),
        Row(frames=(2.0, 3.0), outcome=Outcome.STALLED),
        Row(outcome=Outcome.UNFINISHED),
        Row(outcome=Outcome.NOT_SENT),
    ],
    ids=["one token", "one frame", "failed", "failed midway", "no token yet", "not sent"],
)
def test_tpot_is_undefined_rather_than_zero(row: Row) -> None:
    assert np.isnan(only(tpot_ms(records_of([row]))))


def test_tpot_of_an_interrupted_request_counts_what_it_had() -> None:
    row = Row(frames=(2.0, 3.0, 4.0), outcome=Outcome.UNFINISHED)
    assert only(tpot_ms(records_of([row]))) == 1000.0


@pytest.mark.parametrize("outcome", [Outcome.UNFINISHED, Outcome.ERROR_EVENT])
def test_only_completed_requests_have_an_end_to_end_time(outcome: Outcome) -> None:
    row = Row(sent_s=0.0, frames=(1.0, 2.0), outcome=outcome)
    assert np.isnan(only(e2e_ms(records_of([row]))))


def test_a_request_without_a_token_has_no_ttft() -> None:
    records = records_of([Row(due_s=1.0, sent_s=1.0, outcome=Outcome.HTTP_ERROR)])
    assert np.isnan(only(ttft_from_due_ms(records)))


def test_gaps_never_cross_requests_and_come_in_order_of_time() -> None:
    records = records_of([Row(frames=(1.0, 5.0)), Row(frames=(2.0, 3.0, 3.5))])
    gaps, tokens = frame_gaps_ms(records, np.array([True, True]))
    assert gaps.tolist() == [1000.0, 500.0, 4000.0]
    assert tokens.tolist() == [1.0, 1.0, 1.0]


def test_gaps_of_other_requests_are_left_out() -> None:
    records = records_of([Row(frames=(1.0, 5.0)), Row(frames=(2.0, 3.0)), Row()])
    gaps, _ = frame_gaps_ms(records, np.array([False, True, True]))
    assert gaps.tolist() == [1000.0]


def test_itl_is_per_token_where_a_frame_holds_several() -> None:
    records = records_of([Row(frames=(1.0, 3.0, 4.0), frame_tokens=(1.0, 4.0, 1.0))])
    assert itl_ms(records, np.array([True])).tolist() == [500.0] * 4 + [1000.0]


def test_no_frames_no_gaps() -> None:
    records = records_of([Row(outcome=Outcome.NOT_SENT)])
    assert itl_ms(records, np.array([True])).size == 0


def test_means_of_a_window_count_what_arrived_in_it() -> None:
    records = records_of(
        [
            Row(sent_s=9.0, frames=(9.5, 10.5, 12.5), frame_tokens=(1, 1, 2)),
            Row(sent_s=10.0, frames=(11.0, 21.0)),
            Row(sent_s=12.0, frames=(15.0,)),
        ]
    )
    assert first_token_mean_ms(records, 10.0, 20.0) == pytest.approx(2000.0)
    assert token_gap_mean_ms(records, 10.0, 20.0) == pytest.approx(1000.0)
    assert first_token_mean_ms(records, 30.0, 40.0) is None
    assert token_gap_mean_ms(records, 30.0, 40.0) is None


def test_tokens_count_where_they_arrive() -> None:
    records = records_of([Row(frames=(9.9, 10.0, 14.9, 15.0, 20.1), frame_tokens=(1, 2, 3, 4, 5))])
    assert tokens_within(records, 10.0, 20.0, 2).tolist() == [5.0, 4.0]


@given(
    frames=st.lists(st.floats(0.001, 100.0), min_size=2, max_size=30, unique=True).map(sorted),
)
def test_tpot_is_the_mean_gap_and_within_the_gaps(frames: list[float]) -> None:
    records = records_of([Row(frames=tuple(frames))])
    gaps = itl_ms(records, np.array([True]))
    assert only(tpot_ms(records)) == pytest.approx(gaps.mean())
    assert gaps.sum() == pytest.approx((frames[-1] - frames[0]) * 1000)


def test_nan_marks_what_never_came() -> None:
    assert np.isnan(NAN)
    assert np.isnan(records_of([Row()]).due_s).all()
