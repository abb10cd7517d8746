"""A whole selftest: what one load process of this host carries, and what several do."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version

from tuner.domain.cancellation import Cancellation
from tuner.loadgen.instrument_capacity import Host, InstrumentCapacity, TrustedLoad
from tuner.loadgen.selftest.ladder import (
    climb_processes,
    process_counts,
    servers_for,
    trusted_load,
)
from tuner.loadgen.selftest.rungs import Bench, Rung
from tuner.loadgen.transport import USER_SPACE_CLOCK


@dataclass(frozen=True, slots=True)
class Selftest:
    """What was found, and every load that was tried."""

    capacity: InstrumentCapacity
    rungs: tuple[Rung, ...]


def usable_processors() -> int:
    """Those that this process may run on, where the system tells."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def selftest(
    tell: Callable[[Rung], None],
    *,
    processes: int | None = None,
    cancellation: Cancellation | None = None,
    bench_of: Callable[[int, Cancellation | None], Bench] | None = None,
) -> Selftest:
    """Climb the ladders; `processes` fixes how many send, otherwise one does and more are tried.

    Raises CancelledError.
    """
    processors = usable_processors()
    rungs: list[Rung] = []

    def note(rung: Rung) -> None:
        rungs.append(rung)
        tell(rung)

    def load_of(count: int) -> TrustedLoad:
        bench = (bench_of or Bench)(servers_for(count, processors), cancellation)
        return trusted_load(count, bench.tokens, bench.requests, note)

    counts: Sequence[int] = process_counts(processors) if processes is None else (processes,)
    loads = climb_processes(counts, load_of)
    clocks = {rung.clock for rung in rungs}
    capacity = InstrumentCapacity(
        host=Host.this(),
        taken_at=datetime.now(UTC).isoformat(timespec="seconds"),
        version=version("servetune"),
        clock=USER_SPACE_CLOCK if USER_SPACE_CLOCK in clocks else clocks.pop(),
        load_processes=1 if processes is None else processes,
        loads=loads,
    )
    return Selftest(capacity, tuple(rungs))
