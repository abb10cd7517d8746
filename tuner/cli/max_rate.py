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


def draw_max_rate(found: MaxRate, console: Console) -> None:
    """The rate with its interval, and each probe with its evidence."""
    from rich.table import Table

    console.print(statement(found), markup=False)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("rate tried", "SLO", "by", "requests", "after"):
        table.add_column(title, justify="right" if title in ("rate tried", "after") else "left")
    for probe in found.probes:
        verdict = "met" if probe.holds else "missed"
        table.add_row(
            f"{probe.rate_per_s:.4g}/s",
            verdict if probe.sure else f"{verdict}?",
            probe.rule,
            f"{probe.good} of {probe.requests} good",
            f"{probe.ended_s:.0f} s",
        )
    console.print(table)


def statement(found: MaxRate) -> str:
    """One sentence: the rate, its interval and how sure that is."""
    if found.value_per_s is None:
        return "highest rate that meets the SLO: not found, no rate was tried"
    low = "0" if found.low_per_s is None else f"{found.low_per_s:.4g}"
    high = "unknown" if found.high_per_s is None else f"{found.high_per_s:.4g}"
    return (
        f"highest rate that meets the SLO: {found.value_per_s:.4g} requests/s, between {low} and "
        f"{high} with {found.confidence:.0%} confidence ({ENDED[found.ended]}, "
        f"{found.engine_s:.0f} s of load)"
    )
