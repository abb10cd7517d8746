from __future__ import annotations

import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.simulator.server.alarm import Alarm
from tuner.simulator.server.virtual_clock import VirtualClock


class FakeTime:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@given(st.floats(0.1, 100.0), st.lists(st.floats(0.0, 100.0), max_size=20))
def test_engine_time_is_wall_time_times_the_scale(scale: float, waits: list[float]) -> None:
    wall = FakeTime()
    clock = VirtualClock(scale, wall)

    for wait_s in waits:
        wall.now_s += wait_s
        assert clock.now_s() == pytest.approx((wall.now_s - 1000.0) * scale)


@given(st.floats(0.1, 100.0), st.floats(0.0, 1e5))
def test_a_deadline_is_where_the_clock_shows_that_time(scale: float, engine_s: float) -> None:
    wall = FakeTime()
    clock = VirtualClock(scale, wall)

    wall.now_s = clock.wall_deadline_s(engine_s)

    assert clock.now_s() == pytest.approx(engine_s, abs=1e-6)


def test_deadlines_do_not_move_while_time_passes() -> None:
    wall = FakeTime()
    clock = VirtualClock(10.0, wall)

    before = clock.wall_deadline_s(50.0)
    wall.now_s += 3.7

    assert clock.wall_deadline_s(50.0) == before == 1005.0


def test_an_alarm_never_rings_early() -> None:
    async def waits() -> None:
        alarm = Alarm()
        for _ in range(5):
            deadline_s = time.monotonic() + 0.003
            await alarm.wait_until(deadline_s)
            assert time.monotonic() >= deadline_s
        alarm.close()

    asyncio.run(waits())


def test_a_past_deadline_lets_others_run() -> None:
    async def waits() -> bool:
        alarm = Alarm()
        others = asyncio.Event()
        asyncio.get_running_loop().call_soon(others.set)
        await alarm.wait_until(time.monotonic() - 1.0)
        alarm.close()
        return others.is_set()

    assert asyncio.run(waits())


def test_without_timer_descriptors_the_loops_timers_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuner.simulator.server.alarm._create_timer", lambda _: None)

    async def waits() -> None:
        alarm = Alarm()
        deadline_s = time.monotonic() + 0.003
        await alarm.wait_until(deadline_s)
        alarm.close()
        assert time.monotonic() >= deadline_s - 0.001

    asyncio.run(waits())


def test_closing_twice_is_harmless() -> None:
    async def closes() -> None:
        alarm = Alarm()
        alarm.close()
        alarm.close()

    asyncio.run(closes())
