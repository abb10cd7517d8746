"""A study's events from a service, across lost connections, each once and in order."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from datetime import datetime

from tuner.cli.remote.client import ServiceClient, segment
from tuner.domain.events import Event, EventKind
from tuner.errors import ServerUnreachableError

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 15.0
TRIES = 20
"""Vain attempts in a row after which the service is given up."""


def events(
    client: ServiceClient,
    study_id: int,
    after: int,
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Event]:
    """Every event after number `after`, for as long as it is iterated.

    A stream that breaks off is taken up where it was; ServerUnreachableError after TRIES in vain.
    """
    failures = 0
    while True:
        try:
            for event in _once(client, study_id, after):
                failures, after = 0, event.seq
                yield event
        except ServerUnreachableError:
            failures += 1
            if failures >= TRIES:
                raise
        sleep(min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**failures))


def _once(client: ServiceClient, study_id: int, after: int) -> Iterator[Event]:
    headers = {"Accept": "text/event-stream", "Last-Event-ID": f"{study_id}:{after}"}
    with client.stream(f"/studies/{segment(str(study_id))}/events", headers) as lines:
        for data in messages(lines):
            event = _event(json.loads(data))
            if event is not None:
                yield event


def messages(lines: Iterator[bytes]) -> Iterator[str]:
    """The data of each message; comments and other fields are passed over.

    A message that was cut off before its empty line is none.
    """
    data: list[str] = []
    for raw in lines:
        line = raw.decode("utf-8").rstrip("\r\n")
        if not line:
            if data:
                yield "\n".join(data)
            data = []
        elif line.startswith("data:"):
            data.append(line.removeprefix("data:").removeprefix(" "))


def _event(document: dict[str, object]) -> Event | None:
    """None for a kind that this version does not know."""
    try:
        kind = EventKind(document["kind"])
    except ValueError:
        return None
    payload, trial = document["payload"], document["trial_number"]
    return Event(
        study_id=int(str(document["study_id"])),
        seq=int(str(document["seq"])),
        at=datetime.fromisoformat(str(document["at"])),
        kind=kind,
        trial_number=trial if isinstance(trial, int) else None,
        payload=payload if isinstance(payload, dict) else {},
    )
