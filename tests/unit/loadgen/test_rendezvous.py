from __future__ import annotations

import asyncio
import threading
import time

import pytest

from tuner.loadgen.rendezvous import Alone, InCompany


def test_who_is_alone_begins_shortly() -> None:
    before_s = time.monotonic()
    moment_s = asyncio.run(Alone().meet())
    assert before_s < moment_s < time.monotonic() + 1.0


def test_a_process_in_company_waits_for_its_moment() -> None:
    async def meet_twice() -> tuple[list[float], int]:
        announced = 0

        def announce() -> None:
            nonlocal announced
            announced += 1
            threading.Thread(target=company.tell, args=(announced * 10.0,)).start()

        company = InCompany(announce)
        return [await company.meet(), await company.meet()], announced

    assert asyncio.run(meet_twice()) == ([10.0, 20.0], 2)


def test_a_moment_that_nobody_waits_for_is_refused() -> None:
    with pytest.raises(RuntimeError, match="not waiting"):
        InCompany(lambda: None).tell(1.0)


def test_a_cancelled_wait_takes_no_harm_from_a_late_moment() -> None:
    async def leave() -> None:
        company = InCompany(lambda: None)
        waiting = asyncio.ensure_future(company.meet())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        company.tell(1.0)
        await asyncio.sleep(0)

    asyncio.run(leave())
