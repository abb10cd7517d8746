"""The measured benefit of first points, early abort and stopping rule, as document and table."""

from __future__ import annotations

import math
from collections.abc import Sequence

from benchmarks.known_study import KnownStudy, middle
from benchmarks.verdict_shares import best_gain
from benchmarks.verdict_study import LARGE_GAIN


def by_variant(studies: Sequence[KnownStudy]) -> dict[str, list[KnownStudy]]:
    """In order of appearance."""
    groups: dict[str, list[KnownStudy]] = {}
    for known in studies:
        groups.setdefault(known.variant, []).append(known)
    return groups


def document(studies: Sequence[KnownStudy]) -> dict[str, object]:
    """JSON-able; gains are score differences (logarithms of the improvement)."""
    return {"studies": [_row(known) for known in studies]}


def _row(known: KnownStudy) -> dict[str, object]:
    arrival, last = known.arrival, known.last
    return {
        "variant": known.variant,
        "number": known.study.number,
        "deployment": known.study.deployment,
        "baseline": known.study.baseline,
        "best_true_gain": round(known.best, 4),
        "near_best_at_trial": None if arrival is None else arrival.number,
        "near_best_after_starts": None if arrival is None else arrival.starts,
        "near_best_after_gpu_minutes": None if arrival is None else round(arrival.gpu_minutes, 2),
        "trials": last.number,
        "starts": last.starts,
        "gpu_minutes": round(last.gpu_minutes, 2),
        "gap_of_the_searchs_best": round(known.gap, 4),
        "wrongly_cut": known.wrongly_cut,
        "verdict": known.study.verdict,
        "recommended_true_gain": _recommended_gain(known),
    }


def _recommended_gain(known: KnownStudy) -> float | None:
    winner = known.study.winner
    return None if winner is None or winner.true is None else round(winner.true.mean, 4)


def table(studies: Sequence[KnownStudy]) -> str:
    """Markdown."""
    groups = by_variant(studies)
    count = max((len(group) for group in groups.values()), default=0)
    lines = [
        "# What first points, early abort and the stopping rule are worth (simulated)",
        "",
        "Written by `python -m benchmarks.search_economy`: the same studies of "
        "`benchmarks/verdicts.py` on hidden hardware, in virtual time, with one thing switched off "
        "at a time. Nothing here was measured on a GPU.",
        "",
        f"{count} studies per row: few, so differences of a few per cent mean nothing. Within 5% "
        "of the best configuration of the space: medians, the studies that never got there counted "
        "as later than all others. GPU minutes are engine time of the search and the baseline's "
        "repeats; the confirmation comes on top.",
        "",
        "| search | got within 5% | after trials | after starts | after GPU min | whole search: "
        "trials | GPU min | its best falls short by | cut short wrongly | recommended where there "
        "is 10% | worse than baseline |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
        *(_line(name, group) for name, group in groups.items()),
        "",
    ]
    return "\n".join(lines)


def _line(name: str, group: Sequence[KnownStudy]) -> str:
    arrivals = [known.arrival for known in group]
    gain = [k for k in group if best_gain(k.study) >= LARGE_GAIN or k.best >= LARGE_GAIN]
    harmful = sum((_recommended_gain(k) or 0.0) < 0 for k in group)
    cells = (
        name,
        f"{sum(a is not None for a in arrivals)} of {len(group)}",
        _number(middle([None if a is None else a.number for a in arrivals])),
        _number(middle([None if a is None else a.starts for a in arrivals])),
        _number(middle([None if a is None else a.gpu_minutes for a in arrivals])),
        f"{_mean([k.last.number for k in group]):.1f}",
        f"{_mean([k.last.gpu_minutes for k in group]):.0f}",
        f"{100 * -math.expm1(-_mean([k.gap for k in group])):.1f}%",
        str(sum(k.wrongly_cut for k in group)),
        f"{sum(k.study.winner is not None for k in gain)} of {len(gain)}",
        str(harmful),
    )
    return f"| {' | '.join(cells)} |"


def _number(value: float | None) -> str:
    return "never" if value is None else f"{value:.0f}"


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
