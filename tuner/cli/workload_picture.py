"""A workload's lengths and arrivals as a picture: HTML by Plotly, PNG by matplotlib."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

from tuner.errors import InvalidInputError

HTML, PNG = (".html", ".htm"), (".png",)
PANELS = (
    ("prompt_tokens", "prompt tokens", "tokens"),
    ("output_tokens", "output tokens", "tokens"),
    ("arrivals", "arrivals", "seconds from the first request"),
)
Histograms = Mapping[str, Mapping[str, list[float]]]


def require_drawable(path: Path) -> None:
    """Raise InvalidInputError for a form that cannot be drawn here, before anything is read."""
    suffix = path.suffix.lower()
    if suffix not in (*HTML, *PNG):
        raise InvalidInputError(f"--picture {path} is neither .html nor .png")
    if suffix in PNG and find_spec("matplotlib") is None:
        raise InvalidInputError(
            "a .png needs matplotlib, which is not installed",
            hint="pip install 'servetune[picture]', or name an .html file",
        )


def draw_picture(description: Mapping[str, Any], path: Path) -> None:
    """Write the picture; it needs no network to be looked at."""
    histograms, title = description["histograms"], str(description["source"])
    content = (
        _png(histograms, title) if path.suffix.lower() in PNG else _html(histograms, title).encode()
    )
    try:
        path.write_bytes(content)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InvalidInputError(f"cannot be written: {reason}", where=str(path)) from error


def _panels(histograms: Histograms) -> list[tuple[Mapping[str, list[float]], str, str]]:
    return [(histograms[key], name, unit) for key, name, unit in PANELS if key in histograms]


def _html(histograms: Histograms, title: str) -> str:
    from plotly.graph_objects import Bar
    from plotly.subplots import make_subplots

    panels = _panels(histograms)
    figure = make_subplots(rows=len(panels), cols=1, subplot_titles=[name for _, name, _ in panels])
    for row, (found, name, unit) in enumerate(panels, 1):
        edges = found["edges"]
        widths = [high - low for low, high in pairwise(edges)]
        bar = Bar(x=edges[:-1], y=found["counts"], width=widths, offset=0, name=name)
        figure.add_trace(bar, row=row, col=1)
        kind = "log" if unit == "tokens" else "linear"
        figure.update_xaxes(title=unit, type=kind, row=row, col=1)
        figure.update_yaxes(title="requests", row=row, col=1)
    figure.update_layout(title=title, showlegend=False, height=320 * len(panels), bargap=0)
    return str(figure.to_html(include_plotlyjs=True, full_html=True))


def _png(histograms: Histograms, title: str) -> bytes:
    from io import BytesIO

    from matplotlib.figure import Figure

    panels = _panels(histograms)
    figure = Figure(figsize=(9, 3 * len(panels)), layout="constrained")
    figure.suptitle(title)
    for place, (found, name, unit) in enumerate(panels, 1):
        axes = figure.add_subplot(len(panels), 1, place)
        axes.stairs(found["counts"], found["edges"], fill=True)
        axes.set(title=name, xlabel=unit, ylabel="requests")
        if unit == "tokens":
            axes.set_xscale("log")
    drawn = BytesIO()
    figure.savefig(drawn, format="png")
    return drawn.getvalue()
