"""The loads of a selftest, one higher than the other, until the instrument is off."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tuner.loadgen.instrument_capacity import TrustedLoad
from tuner.loadgen.selftest.rungs import Rung, RunRung

FIRST_STREAMS, MOST_STREAMS = 100.0, 6400.0
FIRST_REQUESTS_PER_S, MOST_REQUESTS_PER_S = 250.0, 16_000.0
"""Of one process; so many processes get so many times that."""

WORTH_IT = 1.2
"""More processes are tried as long as twice as many carry at least this much more."""


@dataclass(frozen=True, slots=True)
class Climb:
    """What one ladder found; a load that was off once is tried again, so some stand twice."""

    rungs: tuple[Rung, ...]
    good: Rung | None
    wrong: Rung | None
    """The lowest load that was off twice, the servers being in time."""


def climb(
    run: Callable[[float], Rung], first: float, most: float, tell: Callable[[Rung], None]
) -> Climb:
    """Double the load until it is off or the servers are; then halve the last step once."""
    rungs: list[Rung] = []

    def tried(offered: float) -> Rung:
        for _ in range(2):
            rungs.append(run(offered))
            tell(rungs[-1])
            if rungs[-1].trusted or rungs[-1].server_bound:
                break
        return rungs[-1]

    good = wrong = None
    offered = first
    while offered <= most:
        rung = tried(offered)
        if rung.server_bound or not rung.trusted:
            wrong = None if rung.server_bound else rung
            break
        good = rung
        offered *= 2
    if good is not None and offered <= most:
        middle = tried(good.offered * math.sqrt(2))
        if middle.trusted and not middle.server_bound:
            good = middle
        elif not middle.server_bound:
            wrong = middle
    return Climb(tuple(rungs), good, wrong)


def trusted_load(
    processes: int, run_tokens: RunRung, run_requests: RunRung, tell: Callable[[Rung], None]
) -> TrustedLoad:
    """Climb both ladders with so many processes."""
    tokens = climb(
        lambda offered: run_tokens(processes, offered),
        FIRST_STREAMS * processes,
        MOST_STREAMS * processes,
        tell,
    )
    requests = climb(
        lambda offered: run_requests(processes, offered),
        FIRST_REQUESTS_PER_S * processes,
        MOST_REQUESTS_PER_S * processes,
        tell,
    )
    return TrustedLoad(
        processes=processes,
        tokens_per_s=tokens.good.tokens_per_s if tokens.good else 0.0,
        wrong_from_tokens_per_s=tokens.wrong.tokens_per_s if tokens.wrong else None,
        requests_per_s=requests.good.requests_per_s if requests.good else 0.0,
        wrong_from_requests_per_s=requests.wrong.requests_per_s if requests.wrong else None,
    )


def climb_processes(
    counts: Sequence[int], load_of: Callable[[int], TrustedLoad]
) -> tuple[TrustedLoad, ...]:
    """Ladders with rising numbers of processes, as long as more of them carry more."""
    found: list[TrustedLoad] = []
    for count in counts:
        found.append(load_of(count))
        if len(found) > 1 and found[-1].tokens_per_s < WORTH_IT * found[-2].tokens_per_s:
            break
    return tuple(found)


def process_counts(processors: int) -> tuple[int, ...]:
    """One, then doubled while the servers and an engine would still have half of the host."""
    counts = [1]
    while counts[-1] * 4 <= processors:
        counts.append(counts[-1] * 2)
    return tuple(counts)


def servers_for(processes: int, processors: int) -> int:
    """A server costs about as much as a generator; two of them leave the generator the bound."""
    return max(1, min(2 * processes, processors - processes))
