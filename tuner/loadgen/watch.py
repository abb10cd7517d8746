"""Watching a running segment: stalled streams, and the generator's own health."""

from __future__ import annotations

import asyncio
import time

from tuner.loadgen.load_result import GeneratorHealth
from tuner.loadgen.records import Outcome
from tuner.loadgen.request_log import RequestLog
from tuner.loadgen.stream_fault import StreamFault

TICK_S = 0.01
TIMER_RESOLUTION_S = 0.001
"""uvloop's timers are that coarse; less is no stall."""


async def watch_stalls(log: RequestLog, stall_s: float, time_scale: float) -> None:
    """Fail requests whose engine has gone silent for `stall_s` of engine time. Runs for ever.

    A stream that has begun must not fall silent that long. One that has not begun may wait in the
    engine's queue as long as the engine gives any stream a token.
    """
    limit_s = stall_s / time_scale
    fault = StreamFault(f"no token for {stall_s:g} s", Outcome.STALLED)
    while True:
        await asyncio.sleep(min(0.25, limit_s / 4))
        silent_since_s = time.monotonic() - limit_s
        engine_s = log.last_token_s
        engine_silent = engine_s is None or engine_s < silent_since_s
        for stream in log.active_streams():
            last_s = stream.sent_s if stream.last_token_s is None else stream.last_token_s
            waits = last_s is not None and last_s < silent_since_s
            if waits and (stream.last_token_s is not None or engine_silent):
                stream.fail(fault)


class LoopMonitor:
    """Measures the longest stop of the event loop, and the process's use of its processor."""

    def __init__(self) -> None:
        self._stall_max_s = 0.0
        self._begun_s = time.monotonic()
        self._begun_cpu_s = time.process_time()
        self._begun_reads = 0

    def begin(self, reads: int) -> None:
        """Forget what was before now."""
        self._stall_max_s = 0.0
        self._begun_s = time.monotonic()
        self._begun_cpu_s = time.process_time()
        self._begun_reads = reads

    def health(self, reads: int) -> GeneratorHealth:
        """What was since `begin`."""
        elapsed_s = time.monotonic() - self._begun_s
        cpu_s = time.process_time() - self._begun_cpu_s
        return GeneratorHealth(
            cpu_share=cpu_s / elapsed_s if elapsed_s > 0 else 0.0,
            loop_stall_max_ms=self._stall_max_s * 1000,
            reads=reads - self._begun_reads,
        )

    async def run(self) -> None:
        """Tick until cancelled."""
        while True:
            before_s = time.monotonic()
            await asyncio.sleep(TICK_S)
            late_s = time.monotonic() - before_s - TICK_S - TIMER_RESOLUTION_S
            self._stall_max_s = max(self._stall_max_s, late_s)
