from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from objectives.slo import RequestOutcome, Slo
from tests.support.load_records import Row, records_of
from tuner.loadgen.plan import OpenLoopSegment, PlannedRequest
from tuner.loadgen.records import Outcome
from tuner.loadgen.request_log import RequestLog
from tuner.loadgen.verdicts import (
    BAD,
    RunningVerdicts,
    VerdictRow,
    VerdictSequence,
    strain,
    strains_of,
    verdicts_of,
)

SLO = Slo(ttft_ms=500, tpot_ms=100, e2e_ms=5000)
START_S = 1000.0

maybe_ms = st.none() | st.floats(0.1, 10_000)
outcomes = st.builds(
    RequestOutcome, completed=st.booleans(), ttft_ms=maybe_ms, tpot_ms=maybe_ms, e2e_ms=maybe_ms
)
slos = st.builds(
    Slo,
    ttft_ms=st.floats(1, 5000),
    tpot_ms=st.none() | st.floats(1, 5000),
    e2e_ms=st.none() | st.floats(1, 5000),
)


@given(outcome=outcomes, slo=slos)
def test_a_request_is_good_exactly_when_its_strain_is_at_most_one(
    outcome: RequestOutcome, slo: Slo
) -> None:
    found = strain(outcome, slo)
    assert (found <= 1) == slo.met_by(outcome)
    assert 0 <= found <= BAD


def test_the_strain_is_the_share_of_the_limit_that_is_nearest() -> None:
    assert strain(RequestOutcome(True, 250, 90, 1000), SLO) == pytest.approx(0.9)
    assert strain(RequestOutcome(True, 250, None, 1000), SLO) == pytest.approx(0.5)


def test_strains_come_in_the_order_in_which_requests_were_due() -> None:
    rows = [
        Row(due_s=3.0, sent_s=3.0, frames=(3.1, 3.15)),
        Row(due_s=1.0, sent_s=1.0, frames=(1.4, 1.45)),
        Row(due_s=2.0, sent_s=2.0, outcome=Outcome.HTTP_ERROR, ended_s=2.1),
    ]
    records, every = records_of(rows), np.ones(3, dtype=bool)
    assert strains_of(records, every, SLO).tolist() == pytest.approx([0.8, BAD, 0.5])
    assert verdicts_of(records, every, SLO).tolist() == [True, True, False]


def segment(*due_s: float) -> OpenLoopSegment:
    requests = tuple(PlannedRequest(i, 4, 2, i, due) for i, due in enumerate(due_s))
    return OpenLoopSegment(requests, 10.0, 20.0, 5.0, SLO)


class Load:
    """A running segment whose answers the test gives; times are seconds of the segment."""

    def __init__(self, *due_s: float) -> None:
        self.segment = segment(*due_s)
        self.log = RequestLog(self.segment.requests)
        self.running = RunningVerdicts(self.segment, SLO, self.log)

    def send(self, row: int, late_s: float = 0.0) -> None:
        due_s = self.segment.requests[row].due_s
        assert due_s is not None
        self.log.begin(row).sent_s = START_S + due_s + late_s

    def token(self, row: int, at_s: float) -> None:
        stream = self.log.stream(row)
        assert stream is not None
        stream._add_frame(START_S + at_s, 1)

    def end(self, row: int, at_s: float, outcome: Outcome = Outcome.COMPLETED) -> None:
        self.log.end(row, outcome, START_S + at_s)

    def new(self, at_s: float) -> list[VerdictRow]:
        return self.running.new(START_S, 1.0, START_S + at_s)


def test_a_request_is_told_once_when_it_has_ended() -> None:
    load = Load(12.0)
    load.send(0, late_s=0.01)
    load.token(0, 12.2)
    assert load.new(12.3) == []
    load.token(0, 12.25)
    load.end(0, 12.25)
    ((place, used, lag_s, ttft_ms),) = load.new(12.3)
    assert place == 0
    assert (used, lag_s, ttft_ms) == pytest.approx((0.5, 0.01, 200.0))
    assert load.new(12.4) == []


def test_a_request_too_late_for_its_first_token_is_bad_before_it_ends() -> None:
    load = Load(12.0)
    load.send(0)
    assert load.new(12.4) == []
    assert load.new(12.6) == [(0, BAD, 0.0, 600.0)]


def test_one_that_was_never_sent_is_bad_as_soon_as_it_is_late() -> None:
    load = Load(12.0)
    assert load.new(12.6) == [(0, BAD, None, 600.0)]


def test_an_answer_that_lasts_too_long_is_bad_before_it_ends() -> None:
    load = Load(12.0)
    load.send(0)
    load.token(0, 12.1)
    assert load.new(16.9) == []
    assert load.new(17.1) == [(0, BAD, 0.0, 100.0)]


def test_an_error_is_bad_and_warm_up_and_what_is_not_due_yet_are_not_told() -> None:
    load = Load(5.0, 12.0, 13.0, 31.0)
    for row in range(4):
        load.send(row)
    load.end(1, 12.1, Outcome.HTTP_ERROR)
    assert load.new(12.4) == [(1, BAD, 0.0, None)], "it ended and never had a first token"


def test_a_faster_engines_times_are_its_own() -> None:
    load = Load(12.0)
    stream = load.log.begin(0)
    stream.sent_s = START_S + 1.2
    stream._add_frame(START_S + 1.22, 1)
    load.log.end(0, Outcome.COMPLETED, START_S + 1.22)
    ((_, used, lag_s, ttft_ms),) = load.running.new(START_S, 10.0, START_S + 1.3)
    assert (used, lag_s, ttft_ms) == pytest.approx((0.4, 0.0, 200.0))


@given(
    strains=st.lists(st.floats(0, 2), min_size=1, max_size=40),
    seed=st.integers(0, 1000),
    known=st.integers(0, 40),
)
def test_only_the_unbroken_beginning_counts_whatever_the_order(
    strains: list[float], seed: int, known: int
) -> None:
    rows = [(place, value, 0.001 * place, 1.0 + place) for place, value in enumerate(strains)]
    random.Random(seed).shuffle(rows)
    arrived = rows[:known]
    sequence = VerdictSequence(segment(*(10.0 + 0.1 * place for place in range(len(rows)))))
    for row in arrived:
        sequence.add([row])
    places = {row[0] for row in arrived}
    unbroken = next(place for place in range(len(rows) + 1) if place not in places)
    assert sequence.strains.tolist() == strains[:unbroken]
    assert sequence.lags_s.size == unbroken
    assert sequence.waits_ms == {place: 1.0 + place for place in range(unbroken)}


def test_lags_of_requests_never_sent_are_left_out() -> None:
    sequence = VerdictSequence(segment(5.0, 12.0, 11.0))
    sequence.add([(2, BAD, None, None), (1, 0.5, 0.25, 40.0)])
    assert sequence.lags_s.tolist() == [0.25]
    assert sequence.waits_ms == {1: 40.0}
