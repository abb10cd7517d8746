"""Transactions over all repositories: the store as the study and the API use it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.orm import Session

from tuner.domain.clock import Clock
from tuner.domain.events import Event
from tuner.store.api_keys import ApiKeyRepository
from tuner.store.attempts import AttemptRepository
from tuner.store.audit import AuditRepository
from tuner.store.browser_sessions import SessionRepository
from tuner.store.database import Database
from tuner.store.events import EventRepository
from tuner.store.fleet import Fleet, fleet
from tuner.store.idempotency import IdempotencyRepository
from tuner.store.leases import LeaseRepository
from tuner.store.measurements import MeasurementRepository
from tuner.store.records import AttemptEnd, TrialRecord
from tuner.store.requests import StudyRequests
from tuner.store.standings import StandingRepository
from tuner.store.studies import StudyRepository
from tuner.store.trials import TrialEnd, TrialRepository
from tuner.store.uploads import UploadRepository
from tuner.store.workers import WorkerRepository


class Work:
    """All repositories on one session: what is written through them is committed together."""

    def __init__(self, session: Session, clock: Clock) -> None:
        self.studies = StudyRepository(session, clock)
        self.trials = TrialRepository(session, clock)
        self.attempts = AttemptRepository(session, clock)
        self.measurements = MeasurementRepository(session)
        self.standings = StandingRepository(session)
        self.events = EventRepository(session, clock)
        self.leases = LeaseRepository(session, clock)
        self.requests = StudyRequests(session, clock)
        self.workers = WorkerRepository(session, clock)
        self.keys = ApiKeyRepository(session, clock)
        self.sessions = SessionRepository(session, clock)
        self.idempotency = IdempotencyRepository(session, clock)
        self.uploads = UploadRepository(session, clock)
        self.audit = AuditRepository(session, clock)
        self._session = session

    def fleet(self) -> Fleet:
        """Counts over all studies."""
        return fleet(self._session)

    def finish_trial(
        self, study_id: int, number: int, end: TrialEnd, attempt_id: int, attempt_end: AttemptEnd
    ) -> TrialRecord:
        """End a trial and its last attempt: outcome, measurement, state, score and their events.

        ValueError when either has ended before, or the attempt is another trial's.
        """
        attempt = self.attempts.get(attempt_id)
        if (attempt.study_id, attempt.trial_number) != (study_id, number):
            raise ValueError(f"attempt {attempt_id} is not one of trial {number}")
        self.attempts.end(attempt_id, attempt_end)
        return self.trials.finish(study_id, number, end)


class Store:
    """The experiment's ledger.

    with store.writing() as work:
        work.studies.set_phase(study_id, StudyPhase.SEARCH)
    """

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    @property
    def database(self) -> Database:
        return self._database

    @contextmanager
    def reading(self) -> Iterator[Work]:
        """Repositories on one snapshot; a write through them is a RuntimeError."""
        with self._database.session() as session:
            yield Work(session, self._clock)

    @contextmanager
    def writing(self) -> Iterator[Work]:
        """Repositories in one transaction, committed at the end, rolled back on any error.

        Keep it short, and call neither Optuna nor anything slow in it: on SQLite nobody else writes
        meanwhile, and Optuna's connection would wait for this one in vain.
        """
        with self._database.transaction() as session:
            yield Work(session, self._clock)

    def events_after(
        self, study_id: int, seq: int, *, limit: int | None = None
    ) -> tuple[Event, ...]:
        """The study's events after number `seq`, in order and without gaps."""
        with self.reading() as work:
            return work.events.after(study_id, seq, limit=limit)
