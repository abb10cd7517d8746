from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import uvloop

from tests.support.fake_transport import SCALE, FakeTransport, answer, good, hang, refuse, settings
from tests.support.scripted_server import token_event
from tuner.loadgen.closed_loop import PAUSE_AFTER_FAILURE_S, ClosedLoopRun
from tuner.loadgen.closing import Closing, Width
from tuner.loadgen.generator import accepts_cache_salt, segment_run
from tuner.loadgen.open_loop import MOST_KEPT, OpenLoopRun, most_due_within
from tuner.loadgen.plan import ClosedLoopSegment, LoadPlan, OpenLoopSegment, PlannedRequest
from tuner.loadgen.records import Outcome, Records
from tuner.loadgen.response_stream import ResponseStream
from tuner.loadgen.segment_run import FAILURES_IN_A_ROW, SegmentEnd, SegmentRun
from tuner.loadgen.stream_fault import StreamFault


def open_segment(
    *due_s: float, warmup_s: float = 1.0, window_s: float = 4.0, drain_s: float = 2000.0
) -> OpenLoopSegment:
    requests = tuple(PlannedRequest(i, 4, 2, i, due) for i, due in enumerate(due_s))
    return OpenLoopSegment(requests, warmup_s, window_s, drain_s)


def closed_segment(
    count: int, *, concurrency: int = 4, warmup_s: float = 1.0, window_s: float = 9.0
) -> ClosedLoopSegment:
    requests = tuple(PlannedRequest(i, 4, 2, i) for i in range(count))
    return ClosedLoopSegment(requests, concurrency, warmup_s, window_s)


def run(
    segment: OpenLoopSegment | ClosedLoopSegment,
    transport: FakeTransport,
    *,
    scale: float = SCALE,
) -> tuple[SegmentRun, SegmentEnd, Records]:
    async def whole() -> tuple[SegmentRun, SegmentEnd]:
        segment_to_run = segment_run(segment, settings(transport, scale=scale))
        end = await segment_to_run.run()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return segment_to_run, end

    segment_ran, end = uvloop.run(whole())
    assert transport.in_flight == 0
    return segment_ran, end, segment_ran.log.records(end.start_s, scale, only_sent=False)


def outcomes(records: Records) -> list[Outcome]:
    return [Outcome(value) for value in records.outcome.tolist()]


def test_the_kind_of_segment_decides_how_it_runs() -> None:
    async def kinds() -> list[type[SegmentRun]]:
        transport = FakeTransport(good)
        segments = (open_segment(1.0), closed_segment(3))
        return [type(segment_run(segment, settings(transport))) for segment in segments]

    assert uvloop.run(kinds()) == [OpenLoopRun, ClosedLoopRun]


def test_an_open_loop_sends_everything_and_nothing_before_it_is_due() -> None:
    _, end, records = run(open_segment(0.0, 0.5, 1.0, 2.5, 2.5, 4.9), FakeTransport(good))
    assert outcomes(records) == [Outcome.COMPLETED] * 6
    assert (records.sent_s >= records.due_s).all()
    assert end.given_up is None
    assert not end.list_exhausted
    assert end.health is not None


def test_an_open_loop_does_not_wait_for_answers_before_it_sends() -> None:
    transport = FakeTransport(hang)
    _, _, records = run(open_segment(1.0, 1.1, 1.2, drain_s=1.0), transport)
    assert transport.most_in_flight == 3
    assert outcomes(records) == [Outcome.UNFINISHED] * 3


def with_turns(
    segment: OpenLoopSegment | ClosedLoopSegment, after: dict[int, int]
) -> OpenLoopSegment | ClosedLoopSegment:
    requests = tuple(replace(each, after=after.get(each.index)) for each in segment.requests)
    return replace(segment, requests=requests)


def test_a_turn_that_is_due_waits_for_the_end_of_the_one_before() -> None:
    async def slow(_: int, stream: ResponseStream) -> None:
        await asyncio.sleep(0.02)  # 2 s of engine time
        answer(stream)

    segment = with_turns(open_segment(1.0, 1.1, 1.2, 4.0), {1: 0, 3: 2})
    _, _, records = run(segment, FakeTransport(slow))
    assert outcomes(records) == [Outcome.COMPLETED] * 4
    assert records.due_s[[0, 2]].tolist() == [1.0, 1.2]
    assert records.due_s[3] == 4.0 or records.ended_s[2] > 4.0  # a busy machine may stand still
    assert records.ended_s[0] - 0.2 <= records.due_s[1] <= records.sent_s[1]
    assert records.sent_s[1] >= records.ended_s[0]


def test_a_turn_whose_predecessor_never_ends_was_never_due() -> None:
    segment = with_turns(open_segment(1.0, 1.1, 1.2, drain_s=1.0), {1: 0})
    _, _, records = run(segment, FakeTransport(hang))
    assert outcomes(records) == [Outcome.UNFINISHED, Outcome.NOT_SENT, Outcome.UNFINISHED]
    assert np.isnan(records.due_s).tolist() == [False, True, False]


def test_a_conversation_goes_on_after_a_turn_that_failed() -> None:
    async def first_refused(number: int, stream: ResponseStream) -> None:
        if number == 0:
            await refuse(number, stream)
        await good(number, stream)

    segment = with_turns(open_segment(1.0, 1.0), {1: 0})
    _, _, records = run(segment, FakeTransport(first_refused))
    assert outcomes(records) == [Outcome.CONNECT_FAILED, Outcome.COMPLETED]


def test_a_slot_of_a_closed_loop_goes_on_with_its_conversation() -> None:
    # Two slots: requests 0, 2, 4, … are one conversation, 1, 3, 5, … the other.
    segment = with_turns(closed_segment(400, concurrency=2), {i: i - 2 for i in range(2, 400)})
    transport = FakeTransport(good)
    _, end, records = run(segment, transport)
    assert transport.most_in_flight == 2
    assert not end.list_exhausted
    done = np.flatnonzero(records.outcome == Outcome.COMPLETED)
    assert done.size > 20
    later = done[done >= 2]
    assert (records.sent_s[later] >= records.ended_s[later - 2]).all()


def test_a_closed_loop_whose_conversations_have_ended_begins_others_and_then_has_none() -> None:
    segment = with_turns(closed_segment(6, concurrency=1), {1: 0, 4: 3})
    _, end, records = run(segment, FakeTransport(good))
    assert outcomes(records) == [Outcome.COMPLETED] * 6
    assert np.argsort(records.sent_s).tolist() == [0, 1, 2, 3, 4, 5]
    assert end.list_exhausted


def test_an_open_loop_ends_when_every_measured_request_has_ended() -> None:
    async def only_measured(number: int, stream: ResponseStream) -> None:
        await (good if number == 1 else hang)(number, stream)

    # One in the warm-up, one measured, one in the drain and one an hour of wall time later.
    segment = open_segment(0.5, 2.0, 5.0, 360_000.0, drain_s=400_000.0)
    _, _, records = run(segment, FakeTransport(only_measured))
    assert outcomes(records)[:2] == [Outcome.UNFINISHED, Outcome.COMPLETED]
    assert outcomes(records)[3] is Outcome.NOT_SENT


def test_load_goes_on_in_the_drain_while_measured_requests_run() -> None:
    transport = FakeTransport(good)
    drained = asyncio.Event()

    async def slow_measured(number: int, stream: ResponseStream) -> None:
        if number == 0:
            await drained.wait()
        elif number == 2:
            drained.set()
        await good(number, stream)

    transport = FakeTransport(slow_measured)
    _, _, records = run(open_segment(2.0, 5.5, 6.0, drain_s=400_000.0), transport)
    assert outcomes(records) == [Outcome.COMPLETED] * 3


def test_a_measured_request_that_never_ends_is_cancelled_with_the_drain() -> None:
    async def first_hangs(number: int, stream: ResponseStream) -> None:
        await (hang if number == 0 else good)(number, stream)

    _, end, records = run(open_segment(2.0, 3.0, drain_s=2.0), FakeTransport(first_hangs))
    assert outcomes(records) == [Outcome.UNFINISHED, Outcome.COMPLETED]
    assert records.ended_s[0] >= 7.0
    assert end.given_up is None


def test_an_open_loop_without_measured_requests_ends_with_its_window() -> None:
    _, end, records = run(open_segment(0.1, drain_s=400_000.0), FakeTransport(good))
    assert outcomes(records) == [Outcome.COMPLETED]
    assert end.health is not None


@pytest.mark.parametrize("kind", ["open", "closed"])
def test_a_dead_engine_ends_the_segment_early(kind: str) -> None:
    many = FAILURES_IN_A_ROW + 50
    segment = (
        open_segment(*[0.01 * number for number in range(many)], window_s=360_000.0)
        if kind == "open"
        else closed_segment(many, window_s=360_000.0)
    )
    _, end, records = run(segment, FakeTransport(refuse))
    assert end.health is None
    assert end.given_up is not None
    assert end.given_up.startswith(f"{FAILURES_IN_A_ROW} requests in a row failed")
    assert "connect_failed: refused" in end.given_up
    assert outcomes(records)[0] is Outcome.CONNECT_FAILED
    assert records.detail[0] == "refused"


def test_single_failures_do_not_end_a_segment() -> None:
    async def every_other(number: int, stream: ResponseStream) -> None:
        await (refuse if number % 2 else good)(number, stream)

    due = [0.05 * number for number in range(100)]
    _, end, records = run(open_segment(*due), FakeTransport(every_other))
    assert end.given_up is None
    assert records.failure_counts() == {"connect_failed": 50}


def test_a_bad_answer_is_judged() -> None:
    async def short(_: int, stream: ResponseStream) -> None:
        stream.feed(time.monotonic(), token_event(total=1, finish_reason="length"))

    _, _, records = run(open_segment(2.0), FakeTransport(short))
    assert outcomes(records) == [Outcome.WRONG_TOKEN_COUNT]
    assert records.received_tokens.tolist() == [1]


@pytest.mark.parametrize(
    ("due_s", "span_s", "most"),
    [
        ([], 1.0, 0),
        ([5.0], 1.0, 1),
        ([0.0, 1.0, 2.0, 3.0], 1.0, 2),
        ([0.0, 1.0, 2.0, 3.0], 0.5, 1),
        ([7.0, 0.0, 7.0, 7.2, 9.0], 0.2, 3),
        ([4.0] * 50, 0.0, 50),
    ],
)
def test_the_densest_moment_of_a_schedule(due_s: list[float], span_s: float, most: int) -> None:
    assert most_due_within(open_segment(*due_s).requests, span_s) == most


def test_an_open_loop_has_connections_for_its_densest_moment() -> None:
    transport = FakeTransport(good)
    # 100 engine seconds are one wall second: a tenth of it is ten of them.
    run(open_segment(1.0, 2.0, 2.0, 3.0, 30.0, warmup_s=1.0, window_s=30.0), transport)
    assert transport.prepared == [(5, 5)]


def test_there_is_a_limit_to_the_connections_of_an_open_loop() -> None:
    transport = FakeTransport(good)
    run(open_segment(*[1.0] * (MOST_KEPT + 10)), transport)
    assert transport.prepared == [(MOST_KEPT, MOST_KEPT)]


def test_a_closed_loop_has_its_connections_before_it_begins() -> None:
    transport = FakeTransport(good)
    run(closed_segment(10, concurrency=4), transport)
    assert transport.prepared == [(4, 0)]


def test_a_closed_loop_keeps_its_slots_full_and_no_more() -> None:
    transport = FakeTransport(good)
    _, end, records = run(closed_segment(5000), transport)
    assert transport.most_in_flight == 4
    assert end.health is not None
    assert not end.list_exhausted
    assert transport.sent > 8
    assert outcomes(records)[: transport.sent - 4] == [Outcome.COMPLETED] * (transport.sent - 4)


def test_a_closed_loop_sends_its_list_in_order() -> None:
    _, _, records = run(closed_segment(5000, concurrency=3), FakeTransport(good))
    sent = records.sent_s[records.sent]
    assert sent.tolist() == sorted(sent.tolist())
    assert records.sent[: sent.size].all()


def test_what_is_in_flight_when_a_closed_loop_ends_is_unfinished() -> None:
    ran, end, records = run(closed_segment(50), FakeTransport(hang))
    assert outcomes(records)[:5] == [Outcome.UNFINISHED] * 4 + [Outcome.NOT_SENT]
    assert ran.log.records(end.start_s, SCALE, only_sent=True).size == 4


def test_a_closed_loop_that_runs_out_of_requests_says_so() -> None:
    _, end, records = run(closed_segment(10), FakeTransport(good))
    assert end.list_exhausted
    assert end.health is not None
    assert outcomes(records) == [Outcome.COMPLETED] * 10


def test_a_slot_rests_after_a_failure() -> None:
    transport = FakeTransport(refuse)
    segment = closed_segment(5000, concurrency=1, warmup_s=0.0, window_s=0.5)
    run(segment, transport, scale=1.0)
    # Timers may fire a millisecond early, hence one more than the window holds.
    assert transport.sent <= 0.5 / PAUSE_AFTER_FAILURE_S + 2


@pytest.mark.parametrize("kind", ["open", "closed"])
def test_a_fault_of_the_generator_itself_is_not_hidden(kind: str) -> None:
    async def broken(_: int, stream: ResponseStream) -> None:
        raise RuntimeError("a bug")

    segment = open_segment(0.0, 1.0) if kind == "open" else closed_segment(5)
    with pytest.raises(BaseExceptionGroup) as caught:
        run(segment, FakeTransport(broken))
    assert caught.group_contains(RuntimeError, match="a bug")


@pytest.mark.parametrize(
    ("status", "detail", "accepted"),
    [
        (200, "", True),
        (400, "HTTP 400: cache_salt is not supported", False),
        (422, "HTTP 422: extra field cache_salt", False),
        (400, "HTTP 400: max_tokens", True),
        (503, "HTTP 503: cache_salt", True),
        (0, "refused", True),
    ],
)
def test_the_engine_is_asked_whether_it_takes_a_cache_salt(
    status: int, detail: str, accepted: bool
) -> None:
    bodies: list[bytes] = []

    async def reply(_: int, stream: ResponseStream) -> None:
        stream.http_status = status
        if status == 200:
            answer(stream)
        else:
            raise StreamFault(detail, Outcome.HTTP_ERROR)

    class Recording(FakeTransport):
        async def exchange(self, body: bytes, stream: ResponseStream) -> None:
            bodies.append(body)
            await super().exchange(body, stream)

    plan = LoadPlan("http://x", "m", (), 1000, 9, 1.0, stall_s=60.0)
    assert uvloop.run(_accepts(Recording(reply), plan)) is accepted
    assert b'"cache_salt":"servetune-9"' in bodies[0]


async def _accepts(transport: Any, plan: LoadPlan) -> bool:
    return await accepts_cache_salt(transport, plan)


def test_an_engine_that_says_nothing_is_not_waited_for_long() -> None:
    plan = LoadPlan("http://x", "m", (), 1000, 9, 10.0, stall_s=0.2)
    assert uvloop.run(_accepts(FakeTransport(hang), plan))


CLOSING = Closing(2.0, (Width("ttft_p95", 100, 0.04),))


def run_closed(
    segment: OpenLoopSegment | ClosedLoopSegment,
    transport: FakeTransport,
    after_s: float,
    closing: Closing = CLOSING,
) -> tuple[SegmentRun, SegmentEnd, Records]:
    """Told to close at a moment of engine time."""

    async def whole() -> tuple[SegmentRun, SegmentEnd]:
        segment_to_run = segment_run(segment, settings(transport))
        running = asyncio.ensure_future(segment_to_run.run())
        await segment_to_run.begun.wait()
        await segment_to_run.until(after_s)
        segment_to_run.close(closing)
        return segment_to_run, await running

    segment_ran, end = uvloop.run(whole())
    return segment_ran, end, segment_ran.log.records(end.start_s, SCALE, only_sent=False)


def test_a_window_that_is_closed_early_ends_with_the_requests_due_until_then() -> None:
    due_s = [0.5 * number for number in range(2000)]
    segment = open_segment(*due_s, window_s=900.0, drain_s=50.0)
    ran, end, records = run_closed(segment, FakeTransport(good), after_s=4.0)
    assert ran.window_end_s == 2.0
    assert end.closing == CLOSING
    assert end.health is not None
    measured = (records.due_s >= 1.0) & (records.due_s < 2.0)
    assert set(records.outcome[measured].tolist()) == {Outcome.COMPLETED}
    assert int(records.sent.sum()) < 1000


def test_the_load_is_kept_up_until_those_have_ended() -> None:
    """The last measured request is answered when one of the drain arrives."""
    arrived = asyncio.Event()

    async def waits(number: int, stream: ResponseStream) -> None:
        if number == 3:
            await arrived.wait()
        elif number == 8:
            arrived.set()
        answer(stream)

    segment = open_segment(*(0.5 * n for n in range(4)), 5.0, 5.5, 6.0, 6.5, 7.0, window_s=900.0)
    _, end, records = run_closed(segment, FakeTransport(waits), after_s=4.0)
    assert end.closing == CLOSING
    assert outcomes(records) == [Outcome.COMPLETED] * 9


def test_a_drain_counts_from_the_early_end() -> None:
    segment = open_segment(1.5, window_s=9e9, drain_s=3.0)
    _, _, records = run_closed(segment, FakeTransport(hang), after_s=4.0)
    assert outcomes(records) == [Outcome.UNFINISHED]


def test_a_saturated_window_is_closed_at_once() -> None:
    segment = closed_segment(100_000, window_s=9e9)
    _, end, records = run_closed(segment, FakeTransport(good), after_s=4.0)
    assert end.closing == CLOSING
    assert end.health is not None
    assert not end.list_exhausted
    assert records.completed.sum() > 4


@pytest.mark.parametrize("at_s", [0.5, 1.0, 5.0, 60.0])
def test_a_window_is_never_closed_outside_itself(at_s: float) -> None:
    segment = open_segment(1.5, 2.5, 4.5)
    closing = replace(CLOSING, at_s=at_s)
    ran, end, records = run_closed(segment, FakeTransport(good), after_s=1.2, closing=closing)
    assert end.closing is None
    assert ran.window_end_s == 5.0
    assert outcomes(records) == [Outcome.COMPLETED] * 3
