"""A study's events as a stream of server-sent events."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Query
from fastapi.sse import EventSourceResponse, ServerSentEvent
from pydantic import BaseModel, Field

from api.event_feed import TooManyStreamsError
from api.pagination import LARGEST
from api.problem import RETRY_AFTER_S, ApiError, problems
from api.security.authentication import Reader
from api.services import Injected
from api.study_reference import FoundStudy
from tuner.domain.events import Event
from tuner.store.unit_of_work import Store

router = APIRouter(prefix="/studies/{study}", tags=["events"])
_LAST = re.compile(r"([0-9]{1,10}):([0-9]{1,10})", re.ASCII)
RECONNECT_MS = 2000


class EventModel(BaseModel):
    """One fact of a study's history; docs/events.md tells the payload of each kind."""

    study_id: int
    seq: int = Field(description="Counts from 1 within the study, without gaps.")
    at: str
    kind: str = Field(examples=["trial_scored"])
    trial_number: int | None
    payload: dict[str, Any]


class StoredEvents:
    """Events as the store has them."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def last_seq(self, study_id: int) -> int:
        with self._store.reading() as work:
            return work.studies.get(study_id).last_event_seq

    def after(self, study_id: int, seq: int, limit: int) -> Sequence[Event]:
        return self._store.events_after(study_id, seq, limit=limit)


def start_of(
    study: FoundStudy,
    after: Annotated[
        int | None, Query(ge=0, le=LARGEST, description="Only events with a greater number.")
    ] = None,
    last_event_id: Annotated[
        str | None,
        Header(max_length=40, description="`study:seq`, as browsers send it when they reconnect."),
    ] = None,
) -> int:
    """After which event the stream begins; the header, which is newer, beats the query."""
    if last_event_id:
        match = _LAST.fullmatch(last_event_id)
        if match is not None and int(match[1]) == study.id:
            return int(match[2])
    return after or 0


def room(services: Injected) -> None:
    """Raise ApiError 503 when too many streams are open."""
    try:
        services.feed.require_room()
    except TooManyStreamsError:
        retry = {"Retry-After": str(RETRY_AFTER_S)}
        raise ApiError(503, "too many event streams are open", headers=retry) from None


@router.get(
    "/events",
    operation_id="watchStudy",
    response_class=EventSourceResponse,
    dependencies=[Depends(room)],
    responses=problems(404),
)
async def watch_study(
    study: FoundStudy,
    services: Injected,
    principal: Reader,
    start: Annotated[int, Depends(start_of)],
) -> AsyncIterator[ServerSentEvent]:
    """Every event of the study in order, then each as it happens.

    `id` is `study:seq`; with it in `Last-Event-ID` a new stream goes on where the last one broke
    off. A comment comes every 15 s where nothing happens.
    """
    yield ServerSentEvent(comment="connected", retry=RECONNECT_MS)
    async for event in services.feed.subscribe(study.id, start):
        yield ServerSentEvent(raw_data=event_json(event), id=f"{event.study_id}:{event.seq}")


def event_json(event: Event) -> str:
    """The event on one line."""
    document = {
        "study_id": event.study_id,
        "seq": event.seq,
        "at": event.at.isoformat(),
        "kind": event.kind.value,
        "trial_number": event.trial_number,
        "payload": dict(event.payload),
    }
    return json.dumps(document, separators=(",", ":"), allow_nan=False)
