"""What a trace, a preset or a study's workload holds, for people and programs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner.cli.output import OutputFormat, emit, notice
from tuner.cli.study_file import read_study
from tuner.domain.study_spec import WorkloadSpec
from tuner.errors import InvalidInputError
from tuner.loadgen.presets import PRESETS
from tuner.loadgen.trace_description import describe, describe_trace
from tuner.loadgen.traces import BUILTIN_PREFIX, FORMATS, read_trace
from tuner.loadgen.workload import Workload, build_workload
from tuner.study.target import target_of

if TYPE_CHECKING:
    from rich.console import Console

LONGEST_CONTEXT = 1 << 24
"""Where no model limits it, no request is cut."""

STUDY_SUFFIXES = (".yaml", ".yml")
Description = Mapping[str, Any]


def describe_workload(source: str, format: str, picture: Path | None, output: OutputFormat) -> None:
    """Describe, and draw where asked. Raises InvalidInputError for what cannot be read."""
    if format not in FORMATS:
        known = ", ".join(FORMATS)
        raise InvalidInputError(f"--format {format} is not known", hint=f"it is one of {known}")
    if picture is not None:
        from tuner.cli.workload_picture import require_drawable

        require_drawable(picture)
    description = description_of(source, format)
    if picture is not None:
        from tuner.cli.workload_picture import draw_picture

        draw_picture(description, picture)
        notice(f"drawn to {picture}")
    emit(description, output, lambda console: _draw(description, console))


def description_of(source: str, format: str = "auto") -> dict[str, object]:
    """What is in a trace's file, a study's workload or a preset."""
    if source in PRESETS and not Path(source).exists():
        spec = WorkloadSpec.model_validate({"preset": source})
        built = build_workload(spec, max_model_len=LONGEST_CONTEXT, seed=spec.seed, base_dir=Path())
        return _of_workload(built)
    path = Path(source)
    if format == "auto" and _is_study(path):
        study, base_dir = read_study(path), path.resolve().parent
        longest = target_of(study, base_dir).max_model_len
        seed = study.workload.seed
        return _of_workload(
            build_workload(study.workload, max_model_len=longest, seed=seed, base_dir=base_dir)
        )
    if source.startswith(BUILTIN_PREFIX):
        return {"source": source, **describe_trace(read_trace(source, base_dir=Path()))}
    known = next(each for each in FORMATS if each == format)
    trace = read_trace(path.name, base_dir=path.parent, format=known)
    return {"source": source, **describe_trace(trace)}


def _is_study(path: Path) -> bool:
    if path.suffix in STUDY_SUFFIXES:
        return True
    if path.suffix != ".json" or not path.is_file():
        return False
    with path.open("rb") as file:
        beginning = file.read(1 << 16).decode("utf-8", "replace")
    return beginning.lstrip().startswith("{") and all(
        f'"{key}"' in beginning for key in ("model", "engine")
    )


def _of_workload(workload: Workload) -> dict[str, object]:
    described = describe(
        workload.prompt_tokens,
        workload.output_tokens,
        gaps_s=workload.gaps_s,
        blocks=workload.blocks,
        previous=workload.previous,
    )
    notes = list(workload.notes)
    if workload.clipped:
        share = f"{workload.clipped:,} of {workload.size:,} requests"
        notes.append(f"{share} are cut to the context of {workload.max_model_len:,} tokens")
    return {"source": workload.title, **described, "notes": notes}


def _draw(description: Description, console: Console) -> None:
    from rich.table import Table

    console.print(f"{description['source']}: {_size(description)}", markup=False)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("tokens")
    columns = ("mean", "p50", "p90", "p95", "p99", "max")
    for column in columns:
        table.add_column(column, justify="right")
    for name in ("prompt_tokens", "output_tokens"):
        found = description[name]
        table.add_row(
            name.removesuffix("_tokens"), *(f"{found[column]:,.0f}" for column in columns)
        )
    console.print(table)
    for line in (*_arrivals(description), *_structure(description)):
        console.print(line, markup=False, soft_wrap=True)
    for note in description["notes"]:
        console.print(f"note: {note}", markup=False, soft_wrap=True)


def _size(description: Description) -> str:
    requests = f"{description['requests']:,} requests"
    if description["rate_per_s"] is None:
        return f"{requests}, lengths only"
    return f"{requests} over {description['duration_s']:,.1f} s"


def _arrivals(description: Description) -> list[str]:
    if description["rate_per_s"] is None:
        return []
    spans = ", ".join(
        f"{value:.3g} over {span}" for span, value in description["dispersion"].items()
    )
    lines = [
        f"arrivals: {description['rate_per_s']:.3g} requests/s; gaps vary by "
        f"{description['gap_variation']:.3g} (1: Poisson, more: bursts)"
    ]
    if spans:
        lines.append(f"index of dispersion: {spans} (1: Poisson)")
    return lines


def _structure(description: Description) -> list[str]:
    lines = [f"shared prefixes: {description['prefix_share']:.1%} of the prompt tokens"]
    turns = description["conversations"]
    if turns is not None:
        lines.append(
            f"conversations: {turns['count']:,}, {turns['turns_mean']:.3g} turns on average"
        )
    return lines
