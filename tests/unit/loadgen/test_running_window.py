from __future__ import annotations

import asyncio
import threading

from tuner.loadgen.closing import Closing, Width
from tuner.loadgen.running_window import RunningWindow, closing_line, read_closing_line

CLOSING = Closing(42.5, (Width("ttft_p95", 300, 0.04),))


class Segment:
    def __init__(self) -> None:
        self.closings: list[Closing] = []
        self.told = asyncio.Event()

    def close(self, closing: Closing) -> None:
        self.closings.append(closing)
        self.told.set()


def test_a_closing_comes_back_from_its_line() -> None:
    line = closing_line(3, CLOSING)
    assert line.endswith("\n")
    assert read_closing_line(line.strip()) == (3, CLOSING)


def test_a_moment_is_no_closing() -> None:
    assert read_closing_line("12345.678") is None


async def _told(number: int) -> list[Closing]:
    window, segment = RunningWindow(), Segment()
    window.attach(1, segment)
    thread = threading.Thread(target=window.tell, args=(number, CLOSING))
    thread.start()
    await asyncio.to_thread(thread.join)
    if number == 1:
        await asyncio.wait_for(segment.told.wait(), 30)
    else:
        await asyncio.sleep(0)
    return segment.closings


def test_the_running_segment_is_told_from_another_thread() -> None:
    assert asyncio.run(_told(1)) == [CLOSING]


def test_a_segment_that_is_over_is_not_told() -> None:
    assert asyncio.run(_told(0)) == []


def test_before_and_after_the_load_nobody_is_there_to_be_told() -> None:
    window = RunningWindow()
    window.tell(0, CLOSING)

    async def attach() -> None:
        window.attach(0, Segment())

    asyncio.run(attach())
    window.tell(0, CLOSING)
