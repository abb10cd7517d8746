"""`servetune selftest`: how much load this host's load generator can be trusted with."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import asdict
from typing import TYPE_CHECKING

from tuner.cli.interruption import interruptible
from tuner.cli.output import OutputFormat, emit, notice
from tuner.loadgen.instrument_capacity import InstrumentCapacity, TrustedLoad, save_capacity
from tuner.loadgen.selftest.run import Selftest, selftest
from tuner.loadgen.selftest.rungs import Rung
from tuner.settings import Settings
from tuner.store.location import prepare_state_directory
from tuner.worker.composition import resolve_locations

if TYPE_CHECKING:
    from rich.console import Console

FAILED = 1


def run(settings: Settings, processes: int | None, output: OutputFormat) -> int:
    """Test, keep what was found and print it; 1 when not even the smallest load was right."""
    state_dir = resolve_locations(settings).state_dir
    prepare_state_directory(state_dir)
    with ExitStack() as stack:
        cancellation = stack.enter_context(interruptible())
        done = selftest(_told, processes=processes, cancellation=cancellation)
    path = save_capacity(done.capacity, state_dir)
    emit(document(done), output, lambda console: _draw(done, console))
    if output is OutputFormat.TABLE:
        notice(f"kept in {path}: studies on this host are held to it")
    best = max(load.tokens_per_s for load in done.capacity.loads)
    return 0 if best > 0 else FAILED


def document(done: Selftest) -> dict[str, object]:
    """What is printed as JSON; infinite errors (nothing arrived) are null."""
    rungs = [
        {
            name: None if isinstance(value, float) and value == float("inf") else value
            for name, value in {**asdict(rung), "trusted": rung.trusted}.items()
        }
        for rung in done.rungs
    ]
    return {**asdict(done.capacity), "rungs": rungs}


def _told(rung: Rung) -> None:
    if sys.stderr.isatty():
        notice(line(rung))


def line(rung: Rung) -> str:
    """One load in words."""
    if rung.kind == "tokens":
        load = f"{rung.offered:,.0f} streams, {rung.tokens_per_s:,.0f} tokens/s"
    else:
        load = f"{rung.offered:,.0f} requests/s"
    if rung.server_bound:
        verdict = f"the test's servers were {rung.server_late_ms:.1f} ms late: no verdict"
    else:
        verdict = "; ".join(rung.reasons) or "good"
    return f"{load}, {rung.processes} process(es), {rung.cpu_share:.0%} CPU: {verdict}"


def _draw(done: Selftest, console: Console) -> None:
    from rich.table import Table

    table = Table(title="What the load generator of this host can be trusted with")
    for heading in ("load processes", "tokens/s", "requests/s"):
        table.add_column(heading, justify="right")
    for load in done.capacity.loads:
        table.add_row(
            str(load.processes),
            bound(load.tokens_per_s, load.wrong_from_tokens_per_s),
            bound(load.requests_per_s, load.wrong_from_requests_per_s),
        )
    console.print(table)
    console.print(sentence(done.capacity))


def bound(good: float, wrong: float | None) -> str:
    """`20,000 (27,000 was wrong)`; where nothing was wrong, the test's servers were the limit."""
    if wrong is None:
        return f"{good:,.0f} or more"
    return f"{good:,.0f} ({wrong:,.0f} was wrong)"


def sentence(capacity: InstrumentCapacity) -> str:
    """What it means for studies."""
    chosen = capacity.of(capacity.load_processes)
    if chosen is None or chosen.tokens_per_s == 0:
        return "Not even the smallest load was measured right: this host is too busy to measure on."
    return (
        f"Arrivals are stamped by the clock of: {capacity.clock}. Studies here send with "
        f"{capacity.load_processes} process(es){_more(capacity, chosen)}; beyond the load above a "
        "measurement says so, and from one that was wrong on it is not scored."
    )


def _more(capacity: InstrumentCapacity, chosen: TrustedLoad) -> str:
    larger = [load.processes for load in capacity.loads if load.processes > chosen.processes]
    return f", with up to {max(larger)} where the load needs them" if larger else ""
