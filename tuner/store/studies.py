"""Studies: created once per document, found by name or id, moved from state to state."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from sqlalchemy import select, text
from sqlalchemy.orm import Session

from tuner.domain.clock import Clock
from tuner.domain.document import study_digest
from tuner.domain.events import EventKind
from tuner.domain.states import StudyOrigin, StudyPhase, StudyState
from tuner.domain.study_spec import StudySpec
from tuner.errors import StudyChangedError, UnknownStudyError
from tuner.store.advisory_lock import LockSpace
from tuner.store.database import require_writable
from tuner.store.encoding import study_record
from tuner.store.events import EventRepository, lock_study
from tuner.store.models import StudyRow
from tuner.store.records import JsonObject, StudyRecord

_PHASE_ORDER = tuple(StudyPhase)


@dataclass(frozen=True, slots=True)
class CreatedStudy:
    """The study of a document, and whether this call made it."""

    study: StudyRecord
    created: bool


class StudyRepository:
    """Studies, within one session. Every write tells its event in the same transaction."""

    def __init__(self, session: Session, clock: Clock) -> None:
        self._session = session
        self._clock = clock
        self._events = EventRepository(session, clock)

    def create(
        self,
        name: str,
        digest: str,
        document: JsonObject,
        *,
        new: bool = False,
        origin: StudyOrigin = StudyOrigin.CLI,
        created_by: str | None = None,
    ) -> CreatedStudy:
        """The study of this name and document digest, made when there is none.

        With the same digest the newest such study is returned as it is, also where an older version
        stored its document. With another digest StudyChangedError is raised, unless `new`, which
        always makes the next generation.
        """
        self._serialise_creation()
        newest = self._newest(name)
        if newest is not None and not new:
            return CreatedStudy(study_record(self._same_document(newest, digest)), created=False)
        generation = 1 if newest is None else newest.generation + 1
        row = self._insert(name, generation, digest, document)
        row.origin, row.created_by = origin.value, created_by
        payload = {"name": name, "generation": generation, "digest": digest}
        self._events.append(row.id, EventKind.STUDY_CREATED, payload)
        return CreatedStudy(study_record(row), created=True)

    def get(self, study_id: int) -> StudyRecord:
        """The study with this id; raises UnknownStudyError."""
        row = self._session.get(StudyRow, study_id, populate_existing=True)
        if row is None:
            raise UnknownStudyError(f"there is no study with id {study_id}")
        return study_record(row)

    def find(self, reference: str) -> StudyRecord:
        """The study called `name` (its newest generation), `name@generation`, or by its id.

        A name wins over an id. Raises UnknownStudyError, naming what exists.
        """
        name, at, generation = reference.partition("@")
        row = self._newest(name, _small_integer(generation)) if name else None
        if row is not None and (not at or _small_integer(generation) is not None):
            return study_record(row)
        study_id = _small_integer(reference)
        row = None if study_id is None else self._session.get(StudyRow, study_id)
        if row is not None:
            return study_record(row)
        raise UnknownStudyError(f"there is no study {reference!r}", hint=self._known_names())

    def all(self, *, states: Sequence[StudyState] | None = None) -> tuple[StudyRecord, ...]:
        """Every study, oldest first; only those in `states` when given."""
        query = select(StudyRow).order_by(StudyRow.id)
        if states is not None:
            query = query.where(StudyRow.state.in_([state.value for state in states]))
        return tuple(study_record(row) for row in self._session.scalars(query))

    def page(
        self,
        states: Sequence[StudyState] | None = None,
        after_id: int | None = None,
        limit: int = 50,
    ) -> tuple[StudyRecord, ...]:
        """Studies newest first, below `after_id` (the last one of the page before) when given."""
        query = select(StudyRow).order_by(StudyRow.id.desc()).limit(limit)
        if states is not None:
            query = query.where(StudyRow.state.in_([state.value for state in states]))
        if after_id is not None:
            query = query.where(StudyRow.id < after_id)
        return tuple(study_record(row) for row in self._session.scalars(query))

    def set_state(
        self, study_id: int, state: StudyState, *, failure: JsonObject | None = None
    ) -> StudyRecord:
        """Move the study; the same state again changes nothing and tells nothing.

        `failure` is kept while the state is FAILED and dropped by any other. A COMPLETE study stays
        so (ValueError); a failed or cancelled one may be taken up again.
        """
        row = lock_study(self._session, study_id)
        before = StudyState(row.state)
        if before is state:
            return study_record(row)
        if before is StudyState.COMPLETE:
            raise ValueError(f"study {study_id} is complete and cannot become {state.value}")
        row.state = state.value
        row.failure = _plain(failure) if state is StudyState.FAILED else None
        now = self._clock.now()
        if state is StudyState.RUNNING and row.started_at is None:
            row.started_at = now
        row.ended_at = now if state.terminal else None
        payload: dict[str, object] = {"from": before.value, "to": state.value}
        if row.failure is not None:
            payload["failure"] = row.failure
        self._events.append(study_id, EventKind.STUDY_STATE, payload)
        return study_record(row)

    def set_phase(self, study_id: int, phase: StudyPhase) -> StudyRecord:
        """Move on to a phase; the same again changes nothing, an earlier one is a ValueError."""
        row = lock_study(self._session, study_id)
        before = StudyPhase(row.phase)
        if before is phase:
            return study_record(row)
        if _PHASE_ORDER.index(phase) < _PHASE_ORDER.index(before):
            raise ValueError(
                f"study {study_id} cannot go back from {before.value} to {phase.value}"
            )
        row.phase = phase.value
        self._events.append(study_id, EventKind.PHASE, {"from": before.value, "to": phase.value})
        return study_record(row)

    def set_calibration(self, study_id: int, calibration: JsonObject) -> StudyRecord:
        """Store what the baseline's first start told of engine and load."""
        row = lock_study(self._session, study_id)
        row.calibration = _plain(calibration)
        self._events.append(study_id, EventKind.LOAD_CALIBRATED, calibration)
        return study_record(row)

    def set_space(self, study_id: int, space: JsonObject) -> StudyRecord:
        """Freeze the maps between coordinates and flags; ValueError when other maps are frozen.

        Tells no event: nothing happened that a watcher could see.
        """
        row = lock_study(self._session, study_id)
        if row.space is not None and row.space != _plain(space):
            raise ValueError(f"the search space of study {study_id} is frozen")
        row.space = _plain(space)
        row.updated_at = self._clock.now()
        self._session.flush()
        return study_record(row)

    def set_recommendation(self, study_id: int, recommendation: JsonObject) -> StudyRecord:
        """Store what is handed over; a later one replaces it."""
        row = lock_study(self._session, study_id)
        row.recommendation = _plain(recommendation)
        self._events.append(study_id, EventKind.RECOMMENDATION, recommendation)
        return study_record(row)

    def add_notice(self, study_id: int, notice: JsonObject) -> StudyRecord:
        """Tell the user something once: a notice that is already there is not added again."""
        row = lock_study(self._session, study_id)
        if _plain(notice) in row.notices:
            return study_record(row)
        row.notices = [*row.notices, _plain(notice)]
        self._events.append(study_id, EventKind.NOTICE, notice)
        return study_record(row)

    def _serialise_creation(self) -> None:
        """Two creations of one name never see the same newest generation."""
        require_writable(self._session)
        if self._session.get_bind().dialect.name == "postgresql":
            lock = text("SELECT pg_advisory_xact_lock(:space, 0)")
            self._session.execute(lock, {"space": int(LockSpace.STUDY_NAMES)})

    def _same_document(self, newest: StudyRow, digest: str) -> StudyRow:
        query = (
            select(StudyRow)
            .where(StudyRow.name == newest.name, StudyRow.digest == digest)
            .order_by(StudyRow.generation.desc())
            .limit(1)
        )
        row = self._session.scalars(query).one_or_none()
        if row is None and _digest_now(newest.document) == digest:
            row = newest
        if row is None:
            raise StudyChangedError(
                f"a study {newest.name!r} exists with another document",
                hint="`--new` starts another study of this name; or give it another name",
            )
        return row

    def _newest(self, name: str, generation: int | None = None) -> StudyRow | None:
        query = select(StudyRow).where(StudyRow.name == name)
        if generation is not None:
            query = query.where(StudyRow.generation == generation)
        return self._session.scalars(query.order_by(StudyRow.generation.desc()).limit(1)).first()

    def _insert(self, name: str, generation: int, digest: str, document: JsonObject) -> StudyRow:
        now = self._clock.now()
        row = StudyRow(
            name=name,
            generation=generation,
            digest=digest,
            document=_plain(document),
            state=StudyState.QUEUED.value,
            phase=StudyPhase.BASELINE.value,
            # Never used again, also when this study is deleted and another takes its place.
            optuna_study_name=f"{name}@{generation}-{secrets.token_hex(4)}",
            notices=[],
            next_event_seq=1,
            created_at=now,
            updated_at=now,
        )
        self._session.add(row)
        self._session.flush()
        return row

    def _known_names(self) -> str:
        query = select(StudyRow.name).distinct().order_by(StudyRow.name).limit(10)
        names = list(self._session.scalars(query))
        return f"known studies: {', '.join(names)}" if names else "this database has no studies"


def _small_integer(text: str) -> int | None:
    """The number, where it is one that an id or a generation can have."""
    return int(text) if text.isdecimal() and len(text) < 10 else None


def _plain(document: JsonObject | None) -> dict[str, Any] | None:
    return None if document is None else dict(document)


def _digest_now(document: JsonObject) -> str | None:
    """A stored document's digest by this version, which may know more keys; None if it reads none.

    Defaults are part of a digest, so those of keys that came later are not in the stored one.
    """
    try:
        return study_digest(StudySpec.model_validate_json(json.dumps(document)))
    except ValidationError:
        return None
