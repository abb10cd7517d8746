"""Events of a watched study on standard output, and how watching ends."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping

from tuner.cli.output import OutputFormat, notice
from tuner.cli.progress import event_line
from tuner.domain.events import Event, EventKind
from tuner.errors import NoFeasibleConfigurationError
from tuner.study.recommendation import Verdict

_SILENT = (EventKind.ATTEMPT_STATE, EventKind.TRIAL_STATE)
"""Not lines for people: there are several a minute."""


def event_document(event: Event) -> dict[str, object]:
    """The event as the API tells it."""
    return {
        "study_id": event.study_id,
        "seq": event.seq,
        "at": event.at.isoformat(),
        "kind": event.kind.value,
        "trial_number": event.trial_number,
        "payload": dict(event.payload),
    }


def print_event(event: Event, output: OutputFormat) -> None:
    """One event: a line for people, or a JSON object (a YAML document) of its own."""
    if output is OutputFormat.TABLE:
        text = _line(event)
        if text is None:
            return
    elif output is OutputFormat.JSON:
        text = json.dumps(event_document(event), default=str)
    else:
        import yaml

        plain = json.loads(json.dumps(event_document(event), default=str))
        text = "---\n" + yaml.safe_dump(plain, sort_keys=False, allow_unicode=True).rstrip()
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _line(event: Event) -> str | None:
    if event.kind in _SILENT:
        return None
    told = event_line(event) or _plain_line(event)
    return f"{event.at:%H:%M:%S} {_printable(told)}"


def _plain_line(event: Event) -> str:
    trial = "" if event.trial_number is None else f"trial {event.trial_number}: "
    words = event.kind.value.replace("_", " ")
    moved = event.payload.get("to") or event.payload.get("outcome") or event.payload.get("request")
    return f"{trial}{words}" if moved is None else f"{trial}{words} {moved}"


def _printable(text: str) -> str:
    """Whatever a payload quotes, it does not steer the terminal."""
    return "".join(c if c.isprintable() else " " for c in text)


def watched_to_the_end(state: str, recommendation: Mapping[str, object] | None) -> int:
    """The exit code of a watched study that ended."""
    notice(f"the study is {state}")
    if state != "complete":
        return 1
    nothing = recommendation is not None and (
        recommendation.get("verdict") == Verdict.NO_FEASIBLE.value
    )
    return NoFeasibleConfigurationError.exit_code if nothing else 0
