from __future__ import annotations

import asyncio
import time

import pytest
import uvloop

from tuner.loadgen.pacing import pacer


async def wake_times(*delays_s: float) -> list[tuple[float, float]]:
    """(wanted, actual) moments of waking, one after the other."""
    moments = []
    with pacer() as timer:
        for delay_s in delays_s:
            wanted_s = time.monotonic() + delay_s
            await timer.until(wanted_s)
            moments.append((wanted_s, time.monotonic()))
    return moments


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_nobody_is_woken_early(run: object) -> None:
    assert callable(run)
    for wanted_s, actual_s in run(wake_times(0.02, 0.001, 0.0003, 0.05)):
        assert actual_s >= wanted_s


def test_a_moment_that_has_passed_is_now_but_lets_others_run() -> None:
    async def turns() -> int:
        others = 0

        async def other() -> None:
            nonlocal others
            others += 1

        with pacer() as timer:
            task = asyncio.create_task(other())
            await timer.until(time.monotonic() - 5.0)
            seen = others
            await task
        return seen

    assert asyncio.run(turns()) == 1


def test_waiting_can_be_cancelled_and_the_timer_used_again() -> None:
    async def cancelled_then_used() -> bool:
        with pacer() as timer:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await timer.until(time.monotonic() + 60.0)
            wanted_s = time.monotonic() + 0.02
            await timer.until(wanted_s)
            return time.monotonic() >= wanted_s

    assert asyncio.run(cancelled_then_used())
