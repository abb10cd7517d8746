"""`servetune plan`: a study's forecast as data and as text."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner.cli.measuring import parse_flags
from tuner.cli.output import OutputFormat, emit
from tuner.domain.states import TrialOrigin
from tuner.domain.study_spec import StudySpec
from tuner.settings import Settings
from tuner.study.plan_document import plan_document
from tuner.worker.composition import plan, resolve_locations

_PARTS = ("weights", "activations", "graphs", "KV cache")
_GIB = ("weights_gib", "activation_gib", "graph_gib", "kv_cache_gib")
_FITTING = ("requests_p50_at_once", "requests_p95_at_once", "longest_requests_at_once")
_FIT = ("fit p50", "fit p95", "fit longest")
"""How many of the workload's requests fit in the cache together."""

Plan = Mapping[str, Any]
"""As `tuner.study.plan_document` makes it, or a part of it."""

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def plan_study(
    spec: StudySpec,
    base_dir: Path,
    output: OutputFormat,
    flags: Sequence[str] = (),
    settings: Settings | None = None,
) -> None:
    """Print what the study would do, and what is expected of `flags`; starts and stores nothing."""
    state_dir = None if settings is None else resolve_locations(settings).state_dir
    forecast = plan(spec, base_dir=base_dir, asked=parse_flags(flags), state_dir=state_dir)
    print_plan(plan_document(forecast), output)


def print_plan(forecast: Plan, output: OutputFormat) -> None:
    """Print a plan's document, made here or by a service."""
    emit(dict(forecast), output, lambda console: _draw(forecast, console))


def _draw(forecast: Plan, console: Console) -> None:
    kind = "simulated engine" if forecast["simulated"] else "vLLM"
    console.print(f"PREDICTION: nothing was started ({kind})", style="bold yellow", markup=False)
    rate = forecast["rate_per_s"]
    load = "calibrated on the baseline's first start" if rate is None else f"{rate:g} requests/s"
    if forecast["users"] is not None:
        load = f"{forecast['users']} users in a closed loop"
    for line in (
        f"workload: {forecast['workload']}",
        f"load: {load}",
        f"engine starts: {forecast['restarts']}, "
        f"of which {forecast['confirmation_restarts']} confirm "
        f"(up to {forecast['confirmation_restarts_at_most']} while it is undecided)",
        f"time: about {_minutes(forecast['duration_s'])} "
        f"({_minutes(forecast['attempt_s'])} a start), "
        f"{forecast['gpu_minutes']:.0f} GPU minutes",
    ):
        console.print(line, markup=False)
    for text in forecast["notices"]:
        console.print(f"notice: {text}", style="yellow", markup=False)
    console.print()
    console.print(_memory_table(forecast))
    if any(start["expected"] for start in forecast["starts"]):
        console.print()
        console.print(_load_table(forecast))
    for start in forecast["starts"]:
        console.print()
        console.print(f"# {_name(start)}", markup=False)
        if start["rejected"]:
            console.print(f"# not started: {start['rejected']}", markup=False, soft_wrap=True)
        console.print(shlex.join(start["argv"]), markup=False, soft_wrap=True)


def _memory_table(forecast: Plan) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("memory per GPU")
    for title in (*_PARTS, "KV tokens", "per token", *_FIT):
        table.add_column(title, justify="right")
    table.add_column("problem")
    for start in forecast["starts"]:
        name = _name(start)
        memory = start["memory"]
        if memory is None:
            table.add_row(name, *["-"] * 9, start["rejected"] or "model or GPU not known")
            continue
        table.add_row(
            name,
            *(f"{memory[part]:.1f} GiB" for part in _GIB),
            f"{memory['kv_cache_tokens']:,}",
            f"{memory['kv_bytes_per_token'] / 1024:g} KiB",
            *("-" if memory[count] is None else f"{memory[count]:,.1f}" for count in _FITTING),
            start["rejected"] or memory["problem"] or "",
        )
    return table


def _load_table(forecast: Plan) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("predicted load, nominal hardware")
    for title in ("requests/s", "TTFT p95", "TPOT p95", "tokens/s, saturated", "preemptions"):
        table.add_column(title, justify="right")
    for start in forecast["starts"]:
        name = _name(start)
        expected = start["expected"]
        if expected is None:
            table.add_row(name, *["-"] * 5)
            continue
        table.add_row(
            name,
            _number(expected["rate_per_s"]),
            _number(expected["ttft_p95_ms"], " ms"),
            _number(expected["tpot_p95_ms"], " ms"),
            _number(expected["output_tokens_per_s"]),
            _number(expected["preemptions_per_request"]),
        )
    return table


def _name(start: Plan) -> str:
    asked = start["origin"] == TrialOrigin.MANUAL.value
    return "asked about" if asked else str(start["origin"]).replace("_", " ")


def _number(value: float | None, unit: str = "") -> str:
    return "-" if value is None else f"{value:,.4g}{unit}"


def _minutes(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s"
