"""What a user hands over as "a start of the engine": its log, its launch command, or a report."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from tuner.cli.study_file import read_text
from tuner.domain.diagnosis import FactValue
from tuner.engine.comparison import Start
from tuner.engine.diagnosis import diagnose
from tuner.errors import InvalidCommandError, InvalidInputError
from tuner.export.forms import parse_with_notes

_NAMES = {
    "kv_tokens": "kv_cache_tokens",
    "util": "gpu_memory_utilization",
    "peak_act_gib": "activation_gib",
    "weights_gib": "model_gib",
    "kv_cache_gib": "available_kv_gib",
}
"""Names in reports, ours and others', of facts that a log tells under another name."""


def read_start(name: str) -> Start:
    """The start in this file: JSON report, engine log, or launch command in any form of export.

    Raises InvalidInputError when it is none of them.
    """
    from tuner.cli.diagnosing import read_log

    text = read_log(name)
    document = _json_object(text)
    if document is not None:
        return _of_report(document)
    started = Start.read(text)
    failed = diagnose(text, exit_status=None, ready=False).failure_class != "ok"
    if started.facts or started.arguments or failed:
        return started
    try:
        parsed = parse_with_notes(text, read_file=lambda other: read_text(Path(other)))
    except InvalidCommandError as error:
        message = "neither an engine's log nor a launch command nor a JSON report"
        raise InvalidInputError(message, where=name, hint=error.message) from error
    flags = {key.replace("-", "_"): value for key, value in parsed.command.config.flags}
    return Start(arguments=flags)


def _json_object(text: str) -> Mapping[str, object] | None:
    if not text.lstrip().startswith("{"):
        return None
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _of_report(document: Mapping[str, object]) -> Start:
    """A report of `servetune measure`, or a flat object of facts."""
    measurement = document.get("measurement")
    engine = measurement.get("engine") if isinstance(measurement, dict) else None
    source = engine if isinstance(engine, dict) else document
    facts: dict[str, FactValue] = {}
    for key, value in source.items():
        if isinstance(value, bool | int | float | str):
            facts[_NAMES.get(key, key)] = value
    version = facts.pop("version", None)
    flags = document.get("flags")
    arguments = flags if isinstance(flags, dict) else {}
    return Start(
        str(version) if version is not None else None,
        facts,
        {key.replace("-", "_"): value for key, value in arguments.items()},
    )
