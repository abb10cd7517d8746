"""A study's history: append-only, numbered by the study, told in the transaction of the change.

Payloads, by kind: docs/events.md.
"""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from tuner.domain.clock import Clock
from tuner.domain.events import Event, EventKind
from tuner.errors import UnknownStudyError
from tuner.store.database import require_writable
from tuner.store.encoding import event_record
from tuner.store.models import EventRow, StudyRow
from tuner.store.records import JsonObject

_LOCKED = "servetune_locked_studies"
_TOLD = "servetune_told_events"
"""Of a session, which lives as long as its one transaction."""


class EventRepository:
    """Events of studies, within one session."""

    def __init__(self, session: Session, clock: Clock) -> None:
        self._session = session
        self._clock = clock

    def after(self, study_id: int, seq: int, *, limit: int | None = None) -> tuple[Event, ...]:
        """The events with a greater number, in order; none is ever inserted before another later.

        A number is given under the study's row lock, which is held until the commit: whoever has
        read number n has every smaller one.
        """
        query = (
            select(EventRow)
            .where(EventRow.study_id == study_id, EventRow.seq > seq)
            .order_by(EventRow.seq)
            .limit(limit)
        )
        return tuple(event_record(row) for row in self._session.scalars(query))

    def of_kind(self, study_id: int, kind: EventKind) -> tuple[Event, ...]:
        """All events of one kind, in order."""
        query = (
            select(EventRow)
            .where(EventRow.study_id == study_id, EventRow.kind == kind.value)
            .order_by(EventRow.seq)
        )
        return tuple(event_record(row) for row in self._session.scalars(query))

    def append(
        self,
        study_id: int,
        kind: EventKind,
        payload: JsonObject | None = None,
        *,
        trial_number: int | None = None,
    ) -> Event:
        """Add an event; raises UnknownStudyError."""
        study = lock_study(self._session, study_id)
        row = EventRow(
            study_id=study_id,
            seq=study.next_event_seq,
            kind=kind.value,
            trial_number=trial_number,
            payload=dict(payload or {}),
            at=self._clock.now(),
        )
        study.next_event_seq += 1
        study.updated_at = row.at
        self._session.add(row)
        self._session.flush()
        event = event_record(row)
        self._session.info.setdefault(_TOLD, []).append(event)
        return event

    def told(self) -> tuple[Event, ...]:
        """What this session has appended, in order; of value once it is committed."""
        return tuple(self._session.info.get(_TOLD, ()))


def lock_study(session: Session, study_id: int) -> StudyRow:
    """The study's row, locked until the transaction ends; every write of a study begins here.

    On PostgreSQL by FOR UPDATE, on SQLite by the transaction's own lock. What the session had read
    of the row before is replaced, but for what it read under this lock: nobody else can have
    changed that since. Raises UnknownStudyError.
    """
    require_writable(session)
    locked: set[int] = session.info.setdefault(_LOCKED, set())
    if study_id in locked:
        held = session.get(StudyRow, study_id)
        if held is not None:
            return held
    query = (
        select(StudyRow)
        .where(StudyRow.id == study_id)
        .with_for_update()
        .execution_options(populate_existing=True)
    )
    row = session.scalars(query).one_or_none()
    if row is None:
        raise UnknownStudyError(f"there is no study with id {study_id}")
    locked.add(study_id)
    return row
