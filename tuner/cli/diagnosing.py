"""`servetune diagnose`: what happened to an engine, by its log, metrics or two of its starts."""

from __future__ import annotations

import http.client
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.cli.output import OutputFormat, emit
from tuner.cli.starts import read_start
from tuner.domain.diagnosis import Diagnosis, FactValue, Remedy
from tuner.engine.comparison import compare
from tuner.engine.diagnosis import diagnose
from tuner.engine.launcher import ExitStatus
from tuner.engine.log_tail import ELLIPSIS_LINE
from tuner.errors import InvalidInputError
from tuner.telemetry.condition import Readings, condition
from tuner.telemetry.exposition import EngineSnapshot, parse_exposition
from tuner.telemetry.scraper import MetricsEndpoint

if TYPE_CHECKING:
    from rich.console import Console

LARGEST_HALF_BYTES = 32 * 2**20
"""Of a longer log only so much of its beginning and of its end is read."""
READINGS = 5
STANDARD_INPUT = "-"


@dataclass(frozen=True, slots=True)
class Question:
    """What the command line gave: at least one of log, metrics and a pair to compare."""

    log: str | None = None
    exit_status: int | None = None
    kernel_log: Path | None = None
    ready: bool = False
    metrics: tuple[str, ...] = ()
    window_s: float = 5.0
    compared: tuple[str, str] | None = None


def answer(question: Question) -> Diagnosis:
    """The diagnosis that matters most: of the log unless that is well, then of the metrics.

    Raises InvalidInputError for what cannot be read.
    """
    if question.compared is not None:
        return _compared(*question.compared)
    of_log = _of_log(question) if question.log is not None else None
    if not question.metrics:
        if of_log is None:
            hint = "servetune diagnose engine.log, or --metrics http://127.0.0.1:8000/metrics"
            raise InvalidInputError("nothing to diagnose", hint=hint)
        return of_log
    of_metrics = condition(_readings(question.metrics, question.window_s))
    if of_log is not None and of_log.failure_class != "ok":
        return of_log
    return of_metrics


def _compared(old: str, new: str) -> Diagnosis:
    """What changed; a new start that failed is told by its failure, with what changed as facts."""
    changed = compare(read_start(old), read_start(new))
    failure = diagnose(read_log(new), exit_status=None, ready=False)
    if failure.failure_class == "ok":
        return changed
    return replace(failure, facts={**changed.facts, **failure.facts})


def _of_log(question: Question) -> Diagnosis:
    text = read_log(question.log or "")
    if question.kernel_log is not None:
        text += "\n" + read_log(str(question.kernel_log))
    code = question.exit_status
    ended = None if code is None else ExitStatus(code, stop_requested=False, killed=False)
    return diagnose(text, exit_status=ended, ready=question.ready)


def read_log(name: str) -> str:
    """A log's text, of a very long one its two ends; `-` is standard input."""
    try:
        if name == STANDARD_INPUT:
            return sys.stdin.buffer.read(2 * LARGEST_HALF_BYTES).decode(errors="replace")
        with Path(name).open("rb") as log:
            head = log.read(2 * LARGEST_HALF_BYTES)
            size = log.seek(0, 2)
            if size <= len(head):
                return head.decode(errors="replace")
            log.seek(size - LARGEST_HALF_BYTES)
            tail = log.read(LARGEST_HALF_BYTES)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InvalidInputError(f"cannot be read: {reason}", where=name) from error
    cut = (head[:LARGEST_HALF_BYTES], tail)
    return f"\n{ELLIPSIS_LINE}".join(part.decode(errors="replace") for part in cut)


def _readings(sources: Sequence[str], window_s: float) -> Readings:
    """A live endpoint several times over the window; a file is a reading of its own."""
    if sources[0].startswith(("http://", "https://")):
        return _scraped(sources[0], window_s)
    snapshots = tuple(_saved(name) for name in sources)
    return Readings(snapshots, window_s if len(snapshots) > 1 else None)


def _saved(name: str) -> EngineSnapshot:
    try:
        return parse_exposition(read_log(name))
    except ValueError as error:
        raise InvalidInputError(f"not a scrape of /metrics: {error}", where=name) from error


def _scraped(url: str, window_s: float) -> Readings:
    if not window_s > 0:
        raise InvalidInputError(f"--window must be positive, not {window_s}")
    try:
        endpoint = MetricsEndpoint(url)
    except ValueError as error:
        raise InvalidInputError(str(error), hint="http://HOST:PORT/metrics") from error
    snapshots: list[EngineSnapshot] = []
    begin = time.monotonic()
    try:
        for number in range(READINGS):
            due = begin + number * window_s / (READINGS - 1)
            time.sleep(max(0.0, due - time.monotonic()))
            snapshots.append(endpoint.read())
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = f"cannot be scraped: {error}"
        raise InvalidInputError(reason, where=url, hint="is the engine up?") from error
    finally:
        endpoint.close()
    return Readings(tuple(snapshots), time.monotonic() - begin)


def document(found: Diagnosis) -> dict[str, object]:
    """The answer, JSON-able; identifiers as in docs/diagnosis.md."""
    return {
        "class": found.failure_class,
        "phase": found.phase.value,
        "remedies": [_remedy(remedy) for remedy in found.remedies],
        "tunable": found.tunable,
        "retry_same_config": found.retry_same_config,
        "facts": {name: _plain(value) for name, value in found.facts.items()},
        "evidence": list(found.evidence),
    }


def _remedy(remedy: Remedy) -> dict[str, object]:
    plain: dict[str, object] = {"knob": remedy.knob, "direction": remedy.direction}
    return plain if remedy.value is None else {**plain, "value": remedy.value}


def _plain(value: FactValue) -> object:
    return list(value) if isinstance(value, tuple) else value


def show(question: Question, output: OutputFormat) -> int:
    """Print the diagnosis; the exit code is 0 whatever it says."""
    found = answer(question)
    emit(document(found), output, lambda console: _draw(found, console))
    return 0


def _draw(found: Diagnosis, console: Console) -> None:
    style = "green" if found.failure_class == "ok" else "bold red"
    title = f"{found.failure_class} (phase: {found.phase.value})"
    console.print(title, style=style, markup=False)
    console.print(found.summary, markup=False, soft_wrap=True)
    for heading, lines in (
        ("what to do", [_instruction(remedy) for remedy in found.remedies]),
        ("for a study", [_consequence(found)]),
        ("facts", [f"{name}: {json.dumps(_plain(v))}" for name, v in found.facts.items()]),
        ("evidence", list(found.evidence)),
    ):
        if lines:
            console.print(f"\n{heading}:", style="bold", markup=False)
        for line in lines:
            console.print(f"  {line}", markup=False, soft_wrap=True)


def _consequence(found: Diagnosis) -> str:
    retry = "may well run when started again" if found.retry_same_config else "would end the same"
    if found.failure_class == "ok":
        return "nothing follows"
    cure = "a launch parameter can cure it" if found.tunable else "no launch parameter cures it"
    return f"{cure}; the same configuration {retry} ({found.consequence.value})"


def _instruction(remedy: Remedy) -> str:
    verb = {"up": "raise", "down": "lower", "set": "set", "drop": "leave out"}
    to = "" if remedy.value is None else f" to {json.dumps(remedy.value)}"
    return f"{verb.get(remedy.direction, remedy.direction)} {remedy.knob}{to}"
