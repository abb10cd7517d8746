from __future__ import annotations

import asyncio
import ctypes
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from tuner.loadgen.pacing import LoopTimerPacer, Pacer, TimerDescriptorPacer, pacer

Run = Callable[[Coroutine[Any, Any, Any]], Any]
RUNS = pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
KINDS = pytest.mark.parametrize(
    "kind", [TimerDescriptorPacer, LoopTimerPacer], ids=["descriptor", "loop timer"]
)


async def with_pacer(
    kind: type[Pacer], scenario: Callable[[Pacer], Coroutine[Any, Any, Any]]
) -> Any:
    timer = kind()
    try:
        async with asyncio.timeout(60):
            return await scenario(timer)
    finally:
        timer.close()


@RUNS
@KINDS
def test_everything_happens_once_in_order_and_never_early(run: Run, kind: type[Pacer]) -> None:
    async def scenario(timer: Pacer) -> list[tuple[int, float]]:
        done: list[tuple[int, float]] = []
        await timer.pace(moments_s, lambda number: done.append((number, time.monotonic())))
        return done

    now_s = time.monotonic()
    moments_s = [now_s + delay_s for delay_s in (0.02, 0.02, 0.0213, 0.0213001, 0.07)]
    done = run(with_pacer(kind, scenario))
    assert [number for number, _ in done] == [0, 1, 2, 3, 4]
    assert all(at_s >= wanted_s for (_, at_s), wanted_s in zip(done, moments_s, strict=True))


@KINDS
def test_moments_that_have_passed_are_made_up_for_before_anything_else(kind: type[Pacer]) -> None:
    async def scenario(timer: Pacer) -> list[str]:
        log: list[str] = []
        asyncio.get_running_loop().call_soon(log.append, "another")
        past_s = time.monotonic() - 5.0
        await timer.pace([past_s, past_s + 1, past_s + 2], lambda number: log.append(str(number)))
        await asyncio.sleep(0)
        return log

    assert asyncio.run(with_pacer(kind, scenario)) == ["0", "1", "2", "another"]


@KINDS
def test_an_empty_schedule_is_over_at_once(kind: type[Pacer]) -> None:
    async def scenario(timer: Pacer) -> None:
        await timer.pace([], lambda _: pytest.fail("nothing was planned"))

    asyncio.run(with_pacer(kind, scenario))


@KINDS
def test_what_goes_wrong_ends_the_schedule_and_is_raised(kind: type[Pacer]) -> None:
    done: list[int] = []

    def act(number: int) -> None:
        done.append(number)
        if number == 1:
            raise RuntimeError("a bug")

    async def scenario(timer: Pacer) -> None:
        now_s = time.monotonic()
        with pytest.raises(RuntimeError, match="a bug"):
            await timer.pace([now_s, now_s + 0.002, now_s + 0.004], act)
        await asyncio.sleep(0.02)

    asyncio.run(with_pacer(kind, scenario))
    assert done == [0, 1]


@KINDS
def test_a_cancelled_schedule_does_nothing_more_and_another_can_follow(kind: type[Pacer]) -> None:
    async def scenario(timer: Pacer) -> list[str]:
        done: list[str] = []
        moment_s = time.monotonic() + 0.3
        schedule = asyncio.ensure_future(timer.pace([moment_s], lambda _: done.append("cancelled")))
        await asyncio.sleep(0)
        schedule.cancel()
        with pytest.raises(asyncio.CancelledError):
            await schedule
        after_s = moment_s + 0.01
        await timer.pace([after_s], lambda _: done.append("followed"))
        return done

    assert asyncio.run(with_pacer(kind, scenario)) == ["followed"]


def test_the_best_there_is_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    async def kinds() -> list[type[Pacer]]:
        with pacer() as usual:
            first = type(usual)
        monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: object())
        with pacer() as without_descriptors:
            return [first, type(without_descriptors)]

    assert asyncio.run(kinds()) == [TimerDescriptorPacer, LoopTimerPacer]
