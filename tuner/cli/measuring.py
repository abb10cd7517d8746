"""`servetune measure`: one configuration, no search."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from objectives.measurement import (
    PERCENTILES,
    Distribution,
    Estimate,
    LatencySegment,
    Measurement,
)
from objectives.serialise import measurement_to_dict
from tuner.cli.interruption import interruptible
from tuner.cli.max_rate import draw_max_rate
from tuner.cli.output import OutputFormat, emit, notice
from tuner.cli.progress import TerminalObserver, on_terminal
from tuner.cli.start_forecast import forecast_table
from tuner.cli.tables import SIMULATED
from tuner.domain.argv import from_argv
from tuner.domain.document_flags import flag_faults
from tuner.domain.engine_config import EngineConfig
from tuner.domain.states import AttemptOutcome
from tuner.domain.study_spec import StudySpec
from tuner.errors import CancelledError, InvalidInputError, NoFeasibleConfigurationError
from tuner.loadgen.workload import users_of
from tuner.settings import Settings
from tuner.study.report import headline
from tuner.study.scoring import slo_of
from tuner.worker.composition import measure, resolve_locations
from tuner.worker.single_measurement import SingleMeasurement

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

EXIT_CODES = {
    AttemptOutcome.MEASURED: 0,
    AttemptOutcome.INFEASIBLE: NoFeasibleConfigurationError.exit_code,
    AttemptOutcome.CANCELLED: CancelledError.exit_code,
}


def measure_configuration(
    spec: StudySpec,
    base_dir: Path,
    flags: Sequence[str],
    rate_per_s: float | None,
    settings: Settings,
    output: OutputFormat,
    *,
    find_max_rate: bool = False,
) -> int:
    """Measure the document's baseline with `flags` over it; returns the exit code."""
    given = parse_flags(flags)
    refuse(given)
    if find_max_rate and slo_of(spec.objective.slo) is None:
        raise InvalidInputError(
            "--find-max-rate needs objective.slo in the study document",
            hint="objective: {slo: {ttft_ms: 500, tpot_ms: 50}}",
        )
    if find_max_rate:
        _refuse_users(spec, "--find-max-rate")
    chosen = with_rate(with_flags(spec, given), rate_per_s)
    with ExitStack() as stack:
        cancellation = stack.enter_context(interruptible())
        observer = stack.enter_context(TerminalObserver()) if on_terminal() else None
        done = measure(
            chosen,
            resolve_locations(settings),
            base_dir=base_dir,
            observer=observer,
            cancellation=cancellation,
            find_max_rate=find_max_rate,
        )
    emit(document(done), output, lambda console: _draw(done, console))
    if done.result.outcome is AttemptOutcome.CANCELLED:
        notice("interrupted: the engine was stopped")
    return EXIT_CODES.get(done.result.outcome, 1)


def parse_flags(texts: Sequence[str]) -> EngineConfig:
    """`max-num-seqs=64`, `enable-chunked-prefill` or `no-enable-chunked-prefill` as flags.

    Raises InvalidInputError for anything else.
    """
    for text in texts:
        if not text.strip("-") or text.startswith("="):
            raise InvalidInputError(f"{text!r} is no flag", hint="--flag max-num-seqs=64")
    return from_argv([text if text.startswith("--") else f"--{text}" for text in texts])


def refuse(flags: EngineConfig) -> None:
    """Raise InvalidInputError for flags that a study's baseline could not have either."""
    faults = tuple(flag_faults("flag", flags.as_dict(), None))
    if faults:
        text = "\n".join(f"  {fault}" for fault in faults)
        raise InvalidInputError(f"--flag cannot be used:\n{text}")


def with_flags(spec: StudySpec, flags: EngineConfig) -> StudySpec:
    """The study with these flags over its baseline's."""
    baseline = spec.baseline.model_copy(
        update={"flags": {**spec.baseline.flags, **flags.as_dict()}}
    )
    return spec.model_copy(update={"baseline": baseline})


def with_rate(spec: StudySpec, rate_per_s: float | None) -> StudySpec:
    """The study at this rate, or as it is; InvalidInputError for a rate that is not positive."""
    if rate_per_s is None:
        return spec
    if not 0 < rate_per_s < float("inf"):
        raise InvalidInputError(f"--rate must be positive, not {rate_per_s}")
    _refuse_users(spec, "--rate")
    arrival = spec.workload.arrival.model_copy(update={"rate": rate_per_s})
    workload = spec.workload.model_copy(update={"arrival": arrival})
    return spec.model_copy(update={"workload": workload})


def _refuse_users(spec: StudySpec, option: str) -> None:
    if users_of(spec.workload) is not None:
        raise InvalidInputError(
            f"{option} needs requests that come at a rate, and a closed loop has none",
            hint="workload: {arrival: {process: poisson}}",
        )


def document(done: SingleMeasurement) -> dict[str, object]:
    """The measurement, JSON-able; what was not measured is null."""
    result = done.result
    measurement = result.measurement
    diagnosis = result.diagnosis
    return {
        "outcome": result.outcome.value,
        "reason": result.reason,
        "attempts": done.attempts,
        "model": done.command.model,
        "flags": done.command.config.as_dict(),
        "simulated": measurement.simulated if measurement else None,
        "calibration": result.calibration.to_dict() if result.calibration else None,
        "engine": done.read_back["engine"] if done.read_back else None,
        "forecast": done.read_back["forecast"] if done.read_back else None,
        "headline": headline(measurement) if measurement else None,
        "measurement": measurement_to_dict(measurement) if measurement else None,
        "failure": None
        if diagnosis is None
        else {
            "class": diagnosis.failure_class,
            "phase": diagnosis.phase.value,
            "summary": diagnosis.summary,
            "evidence": list(diagnosis.evidence),
            "remedies": [dataclasses.asdict(remedy) for remedy in diagnosis.remedies],
        },
        "directory": str(done.directory),
    }


def _draw(done: SingleMeasurement, console: Console) -> None:
    result = done.result
    if result.measurement is None:
        console.print(f"{result.outcome.value}: {result.reason}", style="bold red", markup=False)
        for line in result.diagnosis.evidence if result.diagnosis else ():
            console.print(f"  {line}", markup=False, soft_wrap=True)
        for remedy in result.diagnosis.remedies if result.diagnosis else ():
            value = "" if remedy.value is None else f" to {remedy.value}"
            console.print(f"  remedy: {remedy.knob} {remedy.direction}{value}", markup=False)
    else:
        if result.measurement.simulated:
            console.print(SIMULATED, style="bold yellow", markup=False)
        console.print(_table(result.measurement))
        instrument = result.measurement.instrument
        verdict = "valid" if instrument.valid else f"INVALID: {'; '.join(instrument.reasons)}"
        console.print(f"instrument: {verdict}", markup=False)
        if result.measurement.max_rate is not None:
            draw_max_rate(result.measurement.max_rate, console)
        for note in result.measurement.notes:
            console.print(f"note: {note}", markup=False)
    if done.read_back is not None:
        console.print(forecast_table([done.read_back["forecast"]]))
    console.print(f"files: {done.directory}", markup=False, soft_wrap=True)


def _table(measurement: Measurement) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("quantity")
    for title in ("value", "90% interval", "n"):
        table.add_column(title, justify="right")
    for name, unit, estimate in _quantities(measurement):
        table.add_row(name, *_cells(estimate, unit))
    return table


def _quantities(measurement: Measurement) -> list[tuple[str, str, Estimate | None]]:
    latency, capacity = measurement.latency, measurement.capacity
    spreads = {
        "TTFT": latency.ttft_ms,
        "TPOT": latency.tpot_ms,
        "ITL": latency.itl_ms,
        "E2E": latency.e2e_ms,
    }
    rows = [row for name, spread in spreads.items() for row in _percentiles(name, spread)]
    rows.extend(_by_prompt_length(latency))
    rows.append(("SLO attainment", "", latency.slo_attainment))
    rows.append(("goodput", "requests/s", latency.goodput_per_s))
    rows.append(("throughput, saturated", "tokens/s", capacity.output_tokens_per_s))
    rows.append(("requests, saturated", "requests/s", capacity.requests_per_s))
    rows.append(("GPU utilisation", "", _share(latency.gpu_utilization)))
    rows.append(("GPU utilisation, saturated", "", _share(capacity.gpu_utilization)))
    for name, unit, value in (
        ("GPU memory in use, peak", "GiB", capacity.gpu_memory_peak_gib),
        ("GPU power", "W", latency.gpu_power_w),
        ("GPU power, saturated", "W", capacity.gpu_power_w),
    ):
        if value is not None:
            rows.append((name, unit, _share(value)))
    return rows


def _percentiles(name: str, spread: Distribution | None) -> list[tuple[str, str, Estimate | None]]:
    shares = [
        (f"{name} {percentile}", "ms", None if spread is None else spread.percentile(percentile))
        for percentile in PERCENTILES
    ]
    return [*shares, (f"{name} max", "ms", None if spread is None else spread.max)]


def _share(value: float | None) -> Estimate | None:
    """A window's mean, of which no interval is known."""
    return None if value is None else Estimate(value, 1)


def _by_prompt_length(latency: LatencySegment) -> list[tuple[str, str, Estimate | None]]:
    return [
        (
            f"{name} p95, {each.name} prompts ({each.low_tokens} to {each.high_tokens} tokens)",
            "ms",
            None if spread is None else spread.p95,
        )
        for each in latency.by_prompt_length
        for name, spread in (("TTFT", each.ttft_ms), ("TPOT", each.tpot_ms))
    ]


def _cells(estimate: Estimate | None, unit: str) -> tuple[str, str, str]:
    if estimate is None:
        return ("-", "-", "-")
    interval = "-"
    if estimate.low is not None and estimate.high is not None:
        interval = f"{estimate.low:,.4g} to {estimate.high:,.4g}"
    return (f"{estimate.value:,.4g} {unit}".rstrip(), interval, str(estimate.n))
