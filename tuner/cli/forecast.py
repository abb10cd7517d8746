"""`servetune plan`: a study's forecast as data and as text."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.cli.output import OutputFormat, emit
from tuner.domain.study_spec import StudySpec
from tuner.study.plan import PlannedStart, StudyPlan
from tuner.worker.composition import plan

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def plan_study(spec: StudySpec, base_dir: Path, output: OutputFormat) -> None:
    """Print what the study would do; starts and stores nothing."""
    forecast = plan(spec, base_dir=base_dir)
    emit(plan_document(forecast), output, lambda console: _draw(forecast, console))


def plan_document(forecast: StudyPlan) -> dict[str, object]:
    """The plan, JSON-able; everything in it is a prediction."""
    document = asdict(forecast)
    document["starts"] = [_start_document(start) for start in forecast.starts]
    return {"prediction": True, **document}


def _start_document(start: PlannedStart) -> dict[str, object]:
    return {
        "origin": start.origin.value,
        "flags": start.command.config.as_dict(),
        "argv": list(start.argv),
        "memory": asdict(start.memory) if start.memory else None,
        "rejected": start.rejected,
    }


def _draw(forecast: StudyPlan, console: Console) -> None:
    kind = "simulated engine" if forecast.simulated else "vLLM"
    console.print(f"PREDICTION: nothing was started ({kind})", style="bold yellow", markup=False)
    rate = forecast.rate_per_s
    load = "calibrated on the baseline's first start" if rate is None else f"{rate:g} requests/s"
    for line in (
        f"workload: {forecast.workload}",
        f"load: {load}",
        f"engine starts: {forecast.restarts}, of which {forecast.confirmation_restarts} confirm",
        f"time: about {_minutes(forecast.duration_s)} ({_minutes(forecast.attempt_s)} a start), "
        f"{forecast.gpu_minutes:.0f} GPU minutes",
    ):
        console.print(line, markup=False)
    for text in forecast.notices:
        console.print(f"notice: {text}", style="yellow", markup=False)
    console.print()
    console.print(_memory_table(forecast))
    for start in forecast.starts:
        console.print()
        console.print(f"# {start.origin.value.replace('_', ' ')}", markup=False)
        if start.rejected:
            console.print(f"# not started: {start.rejected}", markup=False, soft_wrap=True)
        console.print(shlex.join(start.argv), markup=False, soft_wrap=True)


def _memory_table(forecast: StudyPlan) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("memory per GPU")
    for title in ("weights", "activations", "graphs", "KV cache", "KV tokens", "longest at once"):
        table.add_column(title, justify="right")
    table.add_column("problem")
    for start in forecast.starts:
        name = start.origin.value.replace("_", " ")
        memory = start.memory
        if memory is None:
            table.add_row(name, *["-"] * 6, start.rejected or "model or GPU not known")
            continue
        table.add_row(
            name,
            *(f"{gib:.1f} GiB" for gib in (memory.weights_gib, memory.activation_gib)),
            *(f"{gib:.1f} GiB" for gib in (memory.graph_gib, memory.kv_cache_gib)),
            f"{memory.kv_cache_tokens:,}",
            f"{memory.longest_requests_at_once:.1f}",
            start.rejected or memory.problem or "",
        )
    return table


def _minutes(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s"
