from __future__ import annotations

import asyncio
import time

import pytest

from tests.support.scripted_server import token_event
from tuner.loadgen.plan import PlannedRequest
from tuner.loadgen.records import Outcome
from tuner.loadgen.request_log import RequestLog
from tuner.loadgen.response_stream import ResponseStream
from tuner.loadgen.watch import LoopMonitor, watch_stalls

LONG_AGO_S = 1000.0
STALL_S = 100.0


class Clockwork:
    """Stands in for `time.monotonic`, and lets the watch look a given number of times."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 0.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now_s)

    def watch(self, log: RequestLog, *, time_scale: float = 1.0) -> None:
        async def look_twice() -> None:
            looks = 0

            async def sleep(_: float) -> None:
                nonlocal looks
                looks += 1
                if looks > 2:
                    raise asyncio.CancelledError

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(asyncio, "sleep", sleep)
                with pytest.raises(asyncio.CancelledError):
                    await watch_stalls(log, STALL_S, time_scale)

        asyncio.run(look_twice())


@pytest.fixture
def clockwork(monkeypatch: pytest.MonkeyPatch) -> Clockwork:
    return Clockwork(monkeypatch)


def log_of(*streams: tuple[float | None, float | None]) -> tuple[RequestLog, list[ResponseStream]]:
    """Running requests as (sent, last token)."""
    log = RequestLog([PlannedRequest(row, 1, 9, row) for row in range(len(streams))])
    begun = []
    for row, (sent_s, token_s) in enumerate(streams):
        stream = log.begin(row)
        stream.sent_s = sent_s
        if token_s is not None:
            stream.feed(token_s, token_event())
        begun.append(stream)
    return log, begun


def test_a_stream_that_falls_silent_has_stalled(clockwork: Clockwork) -> None:
    log, (silent, lively) = log_of((0.0, 10.0), (0.0, 105.0))
    clockwork.now_s = 111.0
    clockwork.watch(log)
    assert silent.fault is not None
    assert silent.fault.outcome is Outcome.STALLED
    assert silent.fault.detail == "no token for 100 s"
    assert lively.fault is None


def test_a_request_may_wait_in_the_queue_while_others_get_tokens(clockwork: Clockwork) -> None:
    log, (waiting, _) = log_of((0.0, None), (0.0, 899.0))
    clockwork.now_s = 900.0
    clockwork.watch(log)
    assert waiting.fault is None


def test_waiting_requests_stall_when_the_engine_gives_nobody_a_token(
    clockwork: Clockwork,
) -> None:
    log, (old, young) = log_of((0.0, None), (50.0, None))
    clockwork.now_s = 120.0
    clockwork.watch(log)
    assert old.fault is not None
    assert young.fault is None


def test_tokens_of_requests_already_over_show_that_the_engine_lives(clockwork: Clockwork) -> None:
    log, (waiting, over) = log_of((0.0, None), (0.0, 105.0))
    log.end(1, Outcome.COMPLETED, 106.0)
    clockwork.now_s = 110.0
    clockwork.watch(log)
    assert over.fault is None
    assert waiting.fault is None


def test_a_request_not_yet_sent_cannot_stall(clockwork: Clockwork) -> None:
    log, (unsent,) = log_of((None, None))
    clockwork.now_s = LONG_AGO_S
    clockwork.watch(log)
    assert unsent.fault is None


def test_the_limit_is_engine_time(clockwork: Clockwork) -> None:
    log, (stream,) = log_of((0.0, 10.0))
    clockwork.now_s = 21.0
    clockwork.watch(log, time_scale=10.0)
    assert stream.fault is not None
    log, (stream,) = log_of((0.0, 10.0))
    clockwork.now_s = 19.0
    clockwork.watch(log, time_scale=10.0)
    assert stream.fault is None


def test_the_monitor_sees_a_loop_that_was_blocked() -> None:
    async def blocked() -> float:
        monitor = LoopMonitor()
        ticking = asyncio.create_task(monitor.run())
        await asyncio.sleep(0.03)
        monitor.begin(reads=10)
        await asyncio.sleep(0)
        end_s = time.monotonic() + 0.2
        while time.monotonic() < end_s:
            pass
        await asyncio.sleep(0.03)
        ticking.cancel()
        health = monitor.health(reads=17)
        assert health.reads == 7
        assert health.cpu_share > 0
        return health.loop_stall_max_ms

    # A block of 200 ms that began within a tick of 10 ms shows for at least 185.
    assert asyncio.run(blocked()) >= 185.0


def test_the_monitor_forgets_what_was_before_the_window() -> None:
    monitor = LoopMonitor()
    monitor._stall_max_s = 5.0
    monitor.begin(reads=0)
    assert monitor.health(reads=0).loop_stall_max_ms == 0.0
