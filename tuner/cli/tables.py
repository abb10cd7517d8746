"""A study's report as tables for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tuner.cli.start_forecast import forecast_table
from tuner.domain.engine_config import SEARCHED_FLAGS

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

Report = Mapping[str, Any]
SIMULATED = "SIMULATED: measured on the embedded engine, a model of vLLM; not a GPU's numbers"
UNKNOWN = "-"
DEFAULT_MARK = "*"
FEWEST_RATES = 4
"""Fewer are not enough to see a knee, or that there is none."""


def draw_report(report: Report, console: Console) -> None:
    """Trials, recommendation and launch command of one study."""
    study = report["study"]
    if report["simulated"]:
        console.print(SIMULATED, style="bold yellow", markup=False)
    console.print(_study_line(study), markup=False)
    calibration = report["calibration"]
    if calibration:
        console.print(_load_line(calibration), markup=False)
    for note in study["notices"]:
        console.print(f"notice: {note['message']}", style="yellow", markup=False)
    console.print()
    console.print(trial_table(report))
    shown = (_flag(trial, name) for trial in report["trials"] for name in SEARCHED_FLAGS)
    if any(text.endswith(DEFAULT_MARK) for text in shown):
        console.print(f"{DEFAULT_MARK} the engine's own default", style="dim", markup=False)
    model = report.get("engine_model")
    if model:
        console.print(_trust_line(model), markup=False)
    aborted = report.get("early_abort")
    if aborted and aborted["trials"]:
        console.print(_abort_line(aborted), markup=False)
    compared = [a["forecast"] for t in report["trials"] for a in t["attempts"] if a.get("forecast")]
    if compared:
        console.print()
        console.print(forecast_table(compared))
    draw_recommendation(report, console)


def _study_line(study: Report) -> str:
    return f"study {study['reference']}: {study['state']}, phase {study['phase']}"


def _load_line(calibration: Report) -> str:
    capacity = calibration.get("capacity_per_s")
    if calibration.get("users") is not None:
        return _users_line(calibration, capacity)
    rate = f"load: {calibration['rate_per_s']:.3g} requests/s"
    source = "given" if capacity is None else f"of a capacity of {capacity:.3g} on the baseline"
    if capacity is not None and calibration.get("source") == "given":
        source = f"given; the baseline's capacity is {capacity:.3g}"
    line = f"{rate} ({source}), {calibration['concurrency']} in flight when saturated"
    more = (calibration.get("statement"), _knee_line(calibration))
    return "\n".join([line, *(text for text in more if text)])


def _users_line(calibration: Report, capacity: float | None) -> str:
    more = "" if capacity is None else f"; the baseline's capacity is {capacity:.3g} requests/s"
    return (
        f"load: {calibration['users']} users in a closed loop, {calibration['concurrency']} "
        f"requests in flight when saturated{more}"
    )


def _knee_line(calibration: Report) -> str | None:
    """Where latency bends; None where rates were not tried, or too few to say."""
    rates = [step["rate_per_s"] for step in calibration.get("steps") or ()]
    if len(rates) < FEWEST_RATES:
        return None
    knee = calibration.get("knee_per_s")
    span = f"{min(rates):.3g} to {max(rates):.3g} requests/s"
    if knee is None:
        return f"No knee of the latency in the range that was tried, {span}."
    return f"Latency bends at {knee:.3g} requests/s (tried: {span})."


def _trust_line(model: Report) -> str:
    line = (
        f"engine model: rank correlation {model['rank_correlation']:.2f} of predicted and measured "
        f"scores over {model['trials']} trials"
    )
    if model["dropped"]:
        return f"{line}; it was dropped, being below {model['threshold']:g}"
    return f"{line} (it is dropped below {model['threshold']:g})"


def _abort_line(aborted: Report) -> str:
    noun = "load test was" if aborted["trials"] == 1 else "load tests were"
    minutes = aborted["saved_engine_s"] / 60
    return f"{aborted['trials']} hopeless {noun} cut short: {minutes:.1f} minutes of load saved"


def trial_table(report: Report) -> Table:
    """One row a trial; the score is the gain over the baseline in the weighted geometric mean."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold", collapse_padding=True)
    memory = "KV MiB" if _sized_in_bytes(report) else "util"
    for title in ("trial", "from", "seqs", "tokens", "chunk", memory):
        table.add_column(title, justify="left" if title == "from" else "right")
    for title in ("TTFT p95", "TPOT p95", "out tok/s", "preempt", "KV peak", "GPU", "score"):
        table.add_column(title, justify="right", no_wrap=title == "score")
    table.add_column("result")
    for trial in report["trials"]:
        table.add_row(*_row(trial, report), style=_style(trial, report))
    return table


def _row(trial: Report, report: Report) -> tuple[str, ...]:
    measured = _headline(trial)
    return (
        str(trial["number"]),
        trial["origin"].replace("_", " "),
        *(_flag(trial, name) for name in SEARCHED_FLAGS[:-1]),
        _memory(trial, report),
        _number(measured.get("ttft_p95_ms"), "{:,.0f} ms"),
        _number(measured.get("tpot_p95_ms"), "{:,.1f} ms"),
        _number(measured.get("output_tokens_per_s"), "{:,.0f}"),
        _number(measured.get("preemptions_per_request"), "{:.2f}"),
        _number(measured.get("kv_usage_peak"), "{:.0%}"),
        _number(measured.get("gpu_utilization"), "{:.0%}"),
        _score(trial),
        _result(trial, report),
    )


def _sized_in_bytes(report: Report) -> bool:
    """Whether some trial says in bytes how large its KV cache is."""
    return any("kv-cache-memory-bytes" in trial["flags"] for trial in report["trials"])


def _memory(trial: Report, report: Report) -> str:
    if not _sized_in_bytes(report):
        return _flag(trial, "gpu-memory-utilization")
    size = trial["flags"].get("kv-cache-memory-bytes")
    return UNKNOWN if size is None else f"{int(size) / (1 << 20):,.4g}"


def _headline(trial: Report) -> Report:
    for attempt in trial["attempts"]:
        if attempt["purpose"] == "search" and attempt["headline"] and attempt["valid"]:
            found: Report = attempt["headline"]
            return found
    return {}


def _score(trial: Report) -> str:
    import math

    score = trial["score"]
    value = score.get("value") if score else None
    if value is None:
        return UNKNOWN
    text = f"{100 * math.expm1(value):+.1f} %"
    low, high = score.get("low"), score.get("high")
    if low is None or high is None:
        return text
    return f"{text} ({100 * math.expm1(low):+.0f} to {100 * math.expm1(high):+.0f})"


def _result(trial: Report, report: Report) -> str:
    recommendation = report["recommendation"]
    if recommendation and recommendation["trial"] == trial["number"]:
        return "recommended"
    failure = trial["failure"]
    if failure:
        return f"{trial['state']}: {failure['class']}"
    infeasibility = trial["infeasibility"]
    if infeasibility:
        return f"{trial['state']}: {infeasibility.get('failure_class', 'predicted')}"
    return "baseline" if trial["number"] == 0 else str(trial["state"])


def _style(trial: Report, report: Report) -> str:
    recommendation = report["recommendation"]
    if recommendation and recommendation["trial"] == trial["number"]:
        return "bold green"
    if trial["state"] in ("infeasible", "pruned", "failed", "cancelled"):
        return "dim"
    return ""


def draw_recommendation(report: Report, console: Console) -> None:
    """The verdict, its reason and the launch command; nothing while there is none."""
    recommendation = report["recommendation"]
    if report["failure"]:
        console.print()
        console.print(f"failed: {report['failure'].get('message')}", style="bold red", markup=False)
    if not recommendation:
        return
    console.print()
    console.print(recommendation["headline"], style="bold", markup=False)
    console.print(recommendation["reason"], markup=False)
    if recommendation["metrics"]:
        console.print()
        console.print(metric_table(recommendation["metrics"]))
    if recommendation.get("picks"):
        console.print()
        console.print(pick_table(recommendation["picks"]))
    if report["launch_command"]:
        console.print()
        console.print(report["launch_command"].rstrip(), markup=False, soft_wrap=True)


def metric_table(metrics: Sequence[Report]) -> Table:
    """Before and after, as the confirmation's rounds measured them."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("confirmed")
    for title in ("baseline", "finalist", "change", "90% interval"):
        table.add_column(title, justify="right")
    for metric in metrics:
        unit = metric["unit"]
        table.add_row(
            metric["name"],
            f"{metric['before']:,.1f} {unit}",
            f"{metric['after']:,.1f} {unit}",
            f"{metric['change_percent']:+.1f} %",
            _change_interval(metric),
        )
    return table


def _change_interval(metric: Report) -> str:
    low, high = metric.get("change_low_percent"), metric.get("change_high_percent")
    return UNKNOWN if low is None or high is None else f"{low:+.1f} to {high:+.1f} %"


def pick_table(picks: Sequence[Report]) -> Table:
    """Who would choose what else, as measured once in the search."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("if you want")
    for title in ("trial", "TTFT p95", "TPOT p95", "out tok/s", "score"):
        table.add_column(title, justify="right")
    for pick in picks:
        table.add_row(
            pick["name"],
            str(pick["trial_number"]),
            _number(pick["ttft_ms"], "{:,.0f} ms"),
            _number(pick["tpot_ms"], "{:,.1f} ms"),
            _number(pick["output_tokens_per_s"], "{:,.0f}"),
            _score({"score": {"value": pick["score"]}}),
        )
    return table


def study_table(studies: Sequence[Report]) -> Table:
    """One row a study, newest first."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("study", "state", "phase", "engine", "updated"):
        table.add_column(title)
    for study in studies:
        engine = "simulated" if study["simulated"] else "vllm"
        updated = study["updated_at"][:19].replace("T", " ")
        table.add_row(study["reference"], study["state"], study["phase"], engine, updated)
    return table


def _number(value: float | None, form: str) -> str:
    return UNKNOWN if value is None else form.format(value)


def _flag(trial: Report, name: str) -> str:
    """The flag's value in the engine, marked where the engine chose it."""
    given = trial["flags"].get(name)
    if given is not None:
        return _plain(given)
    applied = (trial["applied"] or {}).get(name)
    value = applied if applied is not None else trial["defaults"].get(name)
    return UNKNOWN if value is None else f"{_plain(value)}{DEFAULT_MARK}"


def _plain(value: object) -> str:
    on_or_off: dict[object, str] = {True: "on", False: "off"}
    return on_or_off[value] if isinstance(value, bool) else str(value)
