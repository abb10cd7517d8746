"""The highest rate that meets the SLO, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from objectives.measurement import MaxRate

if TYPE_CHECKING:
    from rich.console import Console

ENDED = {
    "narrow": "met and missed lie close enough",
    "probes": "no more probes were allowed",
    "time": "the time for it was up",
}

NOT_CONFIRMED = {
    "failed": "not confirmed: with new requests every rate that was tried again missed the SLO",
    "time": "not confirmed: no time was left to try it again with new requests",
}


def draw_max_rate(found: MaxRate, console: Console) -> None:
    """The rate with its interval, and each probe with its evidence."""
    from rich.table import Table

    console.print(statement(found), markup=False)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("rate tried", "SLO", "by", "requests", "after"):
        table.add_column(title, justify="right" if title in ("rate tried", "after") else "left")
    for number, probe in enumerate(found.all_probes):
        verdict = "met" if probe.holds else "missed"
        if number >= len(found.probes):
            verdict += " again" if probe.holds else " this time"
        table.add_row(
            f"{probe.rate_per_s:.4g}/s",
            verdict if probe.sure else f"{verdict}?",
            probe.rule,
            f"{probe.good} of {probe.requests} good",
            f"{probe.ended_s:.0f} s",
        )
    console.print(table)


def statement(found: MaxRate) -> str:
    """What is known of the rate, in a few clauses; never a number without its limits."""
    if not found.all_probes:
        return "highest rate that meets the SLO: not found, no rate was tried"
    parts = [
        _limits(found),
        *_confirmed(found),
        _sure(found),
        f"the search ended as {ENDED[found.ended]}, after {found.engine_s:.0f} s of load",
    ]
    return "; ".join(parts)


def _limits(found: MaxRate) -> str:
    held, failed = found.held_per_s, found.failed_per_s
    if held is None:
        return f"no rate tried meets the SLO: the lowest, {failed:.4g} requests/s, does not"
    if failed is None:
        return f"no limit found up to {held:.4g} requests/s: every rate tried meets the SLO"
    return f"highest rate that meets the SLO: between {held:.4g} (met) and {failed:.4g} requests/s"


def _sure(found: MaxRate) -> str:
    """What is known beyond guesses."""
    low, high = found.low_per_s, found.high_per_s
    if low is None and high is None:
        return f"no probe was sure of its verdict, so with {found.confidence:.0%} nothing is known"
    text = f"with {found.confidence:.0%} confidence it is"
    if high is None:
        return f"{text} at least {low:.4g}"
    return f"{text} between {0 if low is None else low:.4g} and {high:.4g}"


def _confirmed(found: MaxRate) -> list[str]:
    """Whether the rate was met again; nothing where nobody asked."""
    confirmed = found.confirmed_per_s
    if confirmed is not None:
        times = found.times_held(confirmed)
        again = "with new requests" if times == 1 else f"{times} times, last with new requests"
        guessed = "" if found.confirmations[-1].sure else ", by its share of good requests"
        return [f"confirmed: {confirmed:.4g}/s was met {again}{guessed}"]
    if found.confirmation in NOT_CONFIRMED:
        return [NOT_CONFIRMED[found.confirmation]]
    return []
