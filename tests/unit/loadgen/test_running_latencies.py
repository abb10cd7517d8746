from __future__ import annotations

import math

import pytest

from objectives.slo import Slo
from tests.support.load_records import Row, records_of
from tests.support.scripted_server import DONE_EVENT, token_event, usage_event
from tuner.loadgen.closing import ATTAINMENT
from tuner.loadgen.plan import OpenLoopSegment, PlannedRequest
from tuner.loadgen.records import Outcome
from tuner.loadgen.request_log import RequestLog
from tuner.loadgen.running_latencies import KnownLatencies, RunningLatencies, rows_of_records

START_S, SCALE = 1000.0, 10.0


def segment(*due_s: float, slo: Slo | None = None) -> OpenLoopSegment:
    """Measured are those due in [10, 50)."""
    requests = tuple(PlannedRequest(i, 10, 3, i, due_s=at) for i, at in enumerate(due_s))
    return OpenLoopSegment(requests, 10.0, 40.0, 5.0, slo)


def wall_s(engine_s: float) -> float:
    return START_S + engine_s / SCALE


class Load:
    """A running segment whose answers come when the test says so."""

    def __init__(self, planned: OpenLoopSegment) -> None:
        self.log = RequestLog(planned.requests)
        self._told = RunningLatencies(planned, self.log)

    def send(self, row: int, at_s: float) -> None:
        self.log.begin(row).sent_s = wall_s(at_s)

    def token(self, row: int, at_s: float, number: int) -> None:
        stream = self.log.stream(row)
        assert stream is not None
        reason = "length" if number == 3 else None
        stream.feed(wall_s(at_s), token_event(total=number, finish_reason=reason))
        if reason:
            stream.feed(wall_s(at_s), usage_event(3) + DONE_EVENT)

    def end(self, row: int, at_s: float, outcome: Outcome = Outcome.COMPLETED) -> None:
        self.log.end(row, outcome, wall_s(at_s))

    def new(self, at_s: float) -> list[tuple[object, ...]]:
        rows = self._told.new(START_S, SCALE, wall_s(at_s))
        return [tuple(_rounded(value) for value in row) for row in rows]


def _rounded(value: object) -> object:
    return pytest.approx(value) if isinstance(value, float) else value


def test_a_request_is_told_when_answered_and_when_ended() -> None:
    load = Load(segment(12.0))
    load.send(0, 12.5)
    assert load.new(13.0) == []
    load.token(0, 14.0, 1)
    assert load.new(14.5) == [(0, 14.0, None, 2000.0, None, None)]
    assert load.new(15.0) == []
    load.token(0, 16.0, 2)
    load.token(0, 18.0, 3)
    load.end(0, 18.0)
    assert load.new(19.0) == [(0, 18.0, True, 2000.0, 2000.0, 5500.0)]
    assert load.new(20.0) == []


def test_warm_up_and_drain_are_not_told() -> None:
    load = Load(segment(9.0, 50.0))
    for row, at_s in ((0, 9.0), (1, 50.0)):
        load.send(row, at_s)
        load.token(row, at_s + 1, 1)
    assert load.new(52.0) == []


@pytest.mark.parametrize("sent", [True, False])
def test_a_failure_without_a_token_is_known_with_its_end(sent: bool) -> None:
    load = Load(segment(12.0))
    stream = load.log.begin(0)
    stream.sent_s = wall_s(12.0) if sent else None
    load.end(0, 12.5, Outcome.CONNECT_FAILED)
    assert load.new(13.0) == [(0, 12.5, False, None, None, None)]


def test_a_turn_that_had_to_wait_is_due_when_it_may_go() -> None:
    load = Load(segment(12.0))
    load.log.wait(0)
    assert load.new(15.0) == []
    load.log.due(0, wall_s(20.0))
    load.send(0, 20.0)
    load.token(0, 21.0, 1)
    assert load.new(22.0) == [(0, 21.0, None, 1000.0, None, None)]


def rows() -> list[Row]:
    return [
        Row(due_s=12.0, sent_s=12.5, frames=(14.0, 16.0, 18.0)),
        Row(due_s=13.0, sent_s=13.0, frames=(13.5,), ended_s=15.0, outcome=Outcome.DISCONNECTED),
        Row(due_s=14.0, sent_s=14.0, ended_s=14.5, outcome=Outcome.HTTP_ERROR),
        Row(due_s=15.0, sent_s=15.0, frames=(16.0,), ended_s=math.nan, outcome=Outcome.NOT_SENT),
    ]


def test_records_tell_the_same_as_the_running_segment() -> None:
    planned = segment(12.0, 13.0, 14.0, 15.0)
    load = Load(planned)
    for row, each in enumerate(rows()):
        load.send(row, each.sent_s)
    found = []
    for number, at_s in enumerate((14.0, 16.0, 18.0), start=1):
        load.token(0, at_s, number)
        if number == 1:
            load.token(1, 13.5, 1)
            load.token(3, 16.0, 1)
            found += load.new(16.0)
    load.end(0, 18.0)
    load.end(1, 15.0, Outcome.DISCONNECTED)
    load.end(2, 14.5, Outcome.HTTP_ERROR)
    found += load.new(20.0)
    later = rows_of_records(planned, records_of(rows()))
    assert sorted(later, key=str) == sorted(found, key=lambda row: str(tuple(map(_plain, row))))


def _plain(value: object) -> object:
    return getattr(value, "expected", value)


def test_of_a_latency_only_the_unbroken_beginning_counts() -> None:
    known = KnownLatencies(segment(11.0, 12.0, 13.0, 14.0))
    known.add([(0, 12.0, None, 1000.0, None, None), (1, 13.0, None, 900.0, None, None)])
    known.add([(3, 14.5, True, 500.0, 20.0, 500.0), (0, 15.0, True, 1000.0, 30.0, 4000.0)])
    found = known.observations(16.0)
    assert found["ttft"].tolist() == [1000.0, 900.0]
    assert found["tpot"].tolist() == [30.0]
    known.add([(2, 15.5, None, 2500.0, None, None)])
    assert known.observations(16.0)["ttft"].tolist() == [1000.0, 900.0, 2500.0, 500.0]


def test_what_came_later_was_not_known_and_what_is_due_later_is_not_missed() -> None:
    known = KnownLatencies(segment(11.0, 12.0, 13.0, 30.0))
    known.add([(i, 13.0 + i, True, 100.0 * i, None, 1.0) for i in range(3)])
    assert known.observations(14.0)["ttft"].tolist() == [0.0, 100.0]
    assert known.observations(20.0)["ttft"].tolist() == [0.0, 100.0, 200.0]
    assert known.observations(20.0)["tpot"].size == 0


def test_a_failure_without_a_token_is_an_endless_wait_and_bad() -> None:
    known = KnownLatencies(segment(11.0, 12.0, slo=Slo(ttft_ms=500)))
    known.add([(0, 12.0, False, None, None, None), (1, 13.0, True, 400.0, None, 400.0)])
    found = known.observations(20.0)
    assert found["ttft"].tolist() == [math.inf, 400.0]
    assert found[ATTAINMENT].tolist() == [0.0, 1.0]


def test_without_an_slo_nothing_is_good_or_bad() -> None:
    assert ATTAINMENT not in KnownLatencies(segment(11.0)).observations(20.0)


def test_requests_of_another_part_of_the_load_are_not_counted() -> None:
    known = KnownLatencies(segment(9.0, 11.0))
    known.add([(0, 10.0, None, 1.0, None, None)])
    assert known.observations(10.5)["ttft"].size == 0
