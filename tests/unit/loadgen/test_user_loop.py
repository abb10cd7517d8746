"""Users in a closed loop: each waits for an answer, thinks, and sends the next request."""

from __future__ import annotations

import asyncio

import numpy as np
import uvloop

from tests.support.fake_transport import SCALE, FakeTransport, answer, good, hang, refuse, settings
from tuner.loadgen.closed_loop import PAUSE_AFTER_FAILURE_S, UserLoopRun
from tuner.loadgen.generator import segment_run
from tuner.loadgen.plan import PlannedRequest, UserLoopSegment
from tuner.loadgen.records import Outcome, Records
from tuner.loadgen.response_stream import ResponseStream
from tuner.loadgen.segment_run import SegmentEnd


def users(
    count: int = 4000,
    *,
    concurrency: int = 3,
    pause_s: float = 0.0,
    warmup_s: float = 1.0,
    window_s: float = 40.0,
    drain_s: float = 30.0,
) -> UserLoopSegment:
    requests = tuple(PlannedRequest(i, 4, 2, i, pause_after_s=pause_s) for i in range(count))
    return UserLoopSegment(requests, concurrency, warmup_s, window_s, drain_s, pause_s)


def run(segment: UserLoopSegment, transport: FakeTransport) -> tuple[SegmentEnd, Records]:
    async def whole() -> tuple[SegmentEnd, Records]:
        running = segment_run(segment, settings(transport))
        assert isinstance(running, UserLoopRun)
        end = await running.run()
        return end, running.log.records(end.start_s, SCALE, only_sent=True)

    found = uvloop.run(whole())
    assert transport.in_flight == 0
    return found


async def slow(_: int, stream: ResponseStream) -> None:
    await asyncio.sleep(0.01)  # a second of engine time
    answer(stream)


def measured(
    segment: UserLoopSegment, records: Records
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    due_s = records.due_s
    return np.asarray((due_s >= segment.warmup_s) & (due_s < segment.window_end_s))


def test_no_user_sends_before_the_answer_to_the_last_request() -> None:
    transport = FakeTransport(good)
    end, records = run(users(), transport)
    assert transport.most_in_flight == 3
    assert transport.prepared == [(3, 0)]
    assert end.given_up is None
    assert not end.list_exhausted
    assert records.index.tolist() == list(range(records.size))


def test_a_request_is_due_when_its_users_turn_has_come() -> None:
    _, records = run(users(), FakeTransport(good))
    assert not np.isnan(records.due_s).any()
    assert (records.sent_s >= records.due_s).all()
    ends = np.sort(records.ended_s[records.completed])
    for row in range(3, records.size):
        earlier = np.searchsorted(ends, records.due_s[row], side="right")
        assert earlier >= row - 2, "somebody sent while nobody's answer had come"


def test_measured_requests_are_waited_for_while_the_others_go_on() -> None:
    segment = users()
    end, records = run(segment, FakeTransport(slow))
    chosen = measured(segment, records)
    assert records.completed[chosen].all()
    assert (records.due_s >= segment.window_end_s).any()
    assert np.nanmax(records.ended_s[chosen]) > segment.window_end_s
    assert np.nanmax(records.ended_s) < segment.window_end_s + segment.drain_s
    assert end.health is not None


def test_an_answer_that_never_comes_is_waited_for_until_the_drain_ends() -> None:
    async def second_hangs(number: int, stream: ResponseStream) -> None:
        await (hang if number == 1 else slow)(number, stream)

    segment = users(warmup_s=0.0, window_s=20.0, drain_s=3.0)
    _, records = run(segment, FakeTransport(second_hangs))
    (row,) = np.flatnonzero(records.index == 1).tolist()
    assert measured(segment, records)[row]
    assert records.outcome[row] == Outcome.UNFINISHED
    assert records.ended_s[row] >= segment.window_end_s + segment.drain_s


def test_a_user_thinks_before_the_next_request() -> None:
    segment = users(concurrency=1, pause_s=0.9, warmup_s=2.0, window_s=60.0)
    transport = FakeTransport(good)
    _, records = run(segment, transport)
    thought_s = records.due_s[1:] - records.ended_s[:-1]
    assert thought_s.size > 0
    assert np.median(thought_s) > 0.7, "the loop's timers count from when it last looked"


def test_users_who_think_are_met_thinking() -> None:
    segment = users(concurrency=4, pause_s=3.0)
    _, records = run(segment, FakeTransport(good))
    assert records.due_s.min() >= 3.0


def test_a_user_whose_request_fails_rests_and_goes_on() -> None:
    async def refuse_some(number: int, stream: ResponseStream) -> None:
        await (refuse if number % 2 else good)(number, stream)

    _, records = run(users(concurrency=1, window_s=40.0), FakeTransport(refuse_some))
    failed = np.flatnonzero(records.failed)[:-1]
    assert failed.size > 0
    rested_s = records.due_s[failed + 1] - records.ended_s[failed]
    assert np.median(rested_s) > PAUSE_AFTER_FAILURE_S - 0.06


def test_users_whom_nobody_serves_give_up() -> None:
    end, records = run(users(window_s=60.0), FakeTransport(refuse))
    assert end.given_up is not None
    assert "requests in a row failed" in end.given_up
    assert end.health is None
    assert records.size < 60


def test_a_list_that_is_used_up_is_told() -> None:
    end, _ = run(users(count=6), FakeTransport(good))
    assert end.list_exhausted
