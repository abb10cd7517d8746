"""What users ask of a study: pause, cancel, resume, delete. A driver acts on what concerns it."""

from __future__ import annotations

from sqlalchemy import delete
from sqlalchemy.orm import Session

from tuner.domain.clock import Clock
from tuner.domain.events import EventKind
from tuner.domain.states import StudyRequest, StudyState
from tuner.errors import StudyStateError
from tuner.store.encoding import study_record
from tuner.store.events import EventRepository, lock_study
from tuner.store.leases import database_now
from tuner.store.models import StudyRow
from tuner.store.records import StudyRecord

_STOPPED = {StudyRequest.PAUSE: StudyState.PAUSED, StudyRequest.CANCEL: StudyState.CANCELLED}


class StudyRequests:
    """Requests, within one session; each tells its event in the same transaction."""

    def __init__(self, session: Session, clock: Clock) -> None:
        self._session = session
        self._clock = clock
        self._events = EventRepository(session, clock)

    def stop(self, study_id: int, request: StudyRequest, *, by: str | None = None) -> StudyRecord:
        """Pause or cancel: at once where nobody drives, else noted for the driver to act on.

        What is the case already changes nothing; cancel overrides pause and not the other way
        round. Raises StudyStateError for a study that has ended otherwise.
        """
        row = lock_study(self._session, study_id)
        state, wanted = StudyState(row.state), _STOPPED[request]
        if state is wanted:
            return study_record(row)
        if state.terminal:
            raise _refused(row, request.value)
        if self._driven(row):
            self._note(row, request, by)
        else:
            # A driver that lost its lease and comes back late finds another token.
            row.lease_worker, row.lease_expires_at = None, None
            row.lease_token += 1
            self._move(row, wanted)
        return study_record(row)

    def resume(self, study_id: int, *, by: str | None = None) -> StudyRecord:
        """Let a paused, failed or cancelled study be claimed again, or take a request back.

        A study that waits or runs is left alone. StudyStateError for a complete one.
        """
        row = lock_study(self._session, study_id)
        state = StudyState(row.state)
        if state is StudyState.COMPLETE:
            raise _refused(row, "resume")
        if row.requested is not None:
            row.requested = None
            payload = {"request": "resume", "by": by}
            self._events.append(row.id, EventKind.STUDY_REQUESTED, payload)
        if state not in (StudyState.QUEUED, StudyState.RUNNING):
            self._move(row, StudyState.QUEUED)
        return study_record(row)

    def stopped(self, study_id: int, otherwise: StudyState) -> StudyRecord:
        """The driver has stopped: the state that was asked for, or `otherwise` when none was."""
        row = lock_study(self._session, study_id)
        wanted = None if row.requested is None else StudyRequest(row.requested)
        state = otherwise if wanted is None else _STOPPED[wanted]
        row.requested = None
        if StudyState(row.state) is not state:
            self._move(row, state)
        return study_record(row)

    def delete(self, study_id: int) -> None:
        """Delete the study with all its trials, attempts, measurements and events.

        Its artefacts and the sampler's own study are left to the caller (`tuner.study.deletion`).
        Raises StudyStateError while somebody drives it.
        """
        row = lock_study(self._session, study_id)
        if self._driven(row):
            raise StudyStateError(
                f"study {row.name}@{row.generation} is being driven and cannot be deleted",
                hint="cancel it first",
            )
        self._session.execute(delete(StudyRow).where(StudyRow.id == study_id))

    def _driven(self, row: StudyRow) -> bool:
        if row.lease_worker is None or row.lease_expires_at is None:
            return False
        return row.lease_expires_at > database_now(self._session, self._clock)

    def _note(self, row: StudyRow, request: StudyRequest, by: str | None) -> None:
        if row.requested in (request.value, StudyRequest.CANCEL.value):
            return
        row.requested = request.value
        payload = {"request": request.value, "by": by}
        self._events.append(row.id, EventKind.STUDY_REQUESTED, payload)

    def _move(self, row: StudyRow, state: StudyState) -> None:
        before, row.state = row.state, state.value
        row.requested = None
        row.failure = None
        row.ended_at = self._clock.now() if state.terminal else None
        payload = {"from": before, "to": state.value}
        self._events.append(row.id, EventKind.STUDY_STATE, payload)


def _refused(row: StudyRow, what: str) -> StudyStateError:
    return StudyStateError(f"study {row.name}@{row.generation} is {row.state}: cannot {what} it")
