"""Forecast against read-back of engine starts, for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

_SHOWN = {
    "kv_cache_tokens": ("KV tokens", "{:,.0f}"),
    "weights_gib": ("weights", "{:,.2f} GiB"),
    "graph_gib": ("graphs", "{:,.2f} GiB"),
    "startup_s": ("start-up", "{:,.0f} s"),
}
UNKNOWN = "-"


def forecast_line(compared: object) -> str | None:
    """One start in one line; None where nothing of it could be compared."""
    parts = [
        f"{title} {form.format(entry['forecast'])} forecast, "
        f"{form.format(entry['read_back'])} read back ({100 * entry['error']:+.1f} %)"
        for title, form, entry in _entries(compared)
        if entry["error"] is not None
    ]
    return "; ".join(parts) or None


def forecast_table(starts: Sequence[object]) -> Table:
    """The first start in full, and how far off the forecast was over all of them."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("forecast against read-back" + ("" if len(starts) == 1 else ", first start"))
    titles = ["forecast", "read back", "error"]
    if len(starts) > 1:
        titles.append(f"errors of {len(starts)} starts")
    for title in titles:
        table.add_column(title, justify="right")
    for name, (title, form) in _SHOWN.items():
        entries = [entry for start in starts for key, entry in _named(start) if key == name]
        if not entries:
            continue
        first = entries[0]
        cells = [_number(first["forecast"], form), _number(first["read_back"], form)]
        cells.append(_percent(first["error"]))
        if len(starts) > 1:
            cells.append(_range([e["error"] for e in entries]))
        table.add_row(title, *cells)
    return table


def _named(compared: object) -> list[tuple[str, Mapping[str, float | None]]]:
    if not isinstance(compared, Mapping):
        return []
    return [(name, compared[name]) for name in _SHOWN if isinstance(compared.get(name), Mapping)]


def _entries(compared: object) -> list[tuple[str, str, Mapping[str, float | None]]]:
    return [(*_SHOWN[name], entry) for name, entry in _named(compared)]


def _number(value: float | None, form: str) -> str:
    return UNKNOWN if value is None else form.format(value)


def _percent(error: float | None) -> str:
    return UNKNOWN if error is None else f"{100 * error:+.1f} %"


def _range(errors: Sequence[float | None]) -> str:
    known = [error for error in errors if error is not None]
    return UNKNOWN if not known else f"{_percent(min(known))} to {_percent(max(known))}"
