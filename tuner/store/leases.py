"""Leases: one driver per study at a time, by the database's clock, fenced by a token.

A lease says who drives a study and until when. Whoever claims the study gets a token one above the
last; every write of a driver checks its token under the study's row lock, so that what a driver
writes after it lost its lease is refused, however late it comes. Expiry alone takes nothing away: a
lease that ran out is renewed as long as nobody else has claimed the study.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, and_, func, or_, select
from sqlalchemy.orm import Session

from tuner.domain.clock import Clock
from tuner.domain.events import EventKind
from tuner.domain.states import StudyRequest, StudyState
from tuner.errors import AlreadyDrivenError, LeaseLostError
from tuner.store.database import require_writable
from tuner.store.events import EventRepository, lock_study
from tuner.store.models import StudyRow
from tuner.store.records import HeldLease

LEASE_S = 30.0
"""How long a lease lasts unless it is renewed, which is tried at a third of it."""

CLAIMABLE = (StudyState.QUEUED, StudyState.RUNNING)


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to drive a study for `ttl_s` seconds at a time, until somebody else claims it."""

    study_id: int
    worker_id: str
    token: int
    ttl_s: float


class LeaseRepository:
    """Leases, within one session."""

    def __init__(self, session: Session, clock: Clock) -> None:
        self._session = session
        self._clock = clock
        self._events = EventRepository(session, clock)

    def claim(
        self,
        worker_id: str,
        ttl_s: float = LEASE_S,
        *,
        dead: Collection[HeldLease] = (),
        skip: Collection[int] = (),
    ) -> Claim | None:
        """Claim the oldest study that waits for a driver or lost its own; None without one.

        `dead` are leases whose holder is known to be gone before they run out (see `held`), `skip`
        studies this worker does not want.
        """
        require_writable(self._session)
        query = (
            select(StudyRow)
            .where(StudyRow.state.in_([state.value for state in CLAIMABLE]))
            .where(or_(StudyRow.lease_worker.is_(None), self._over(), *map(_unchanged, dead)))
            .where(StudyRow.id.not_in(list(skip)))
            .order_by(StudyRow.id)
            .limit(1)
            .with_for_update(skip_locked=True)
            .execution_options(populate_existing=True)
        )
        row = self._session.scalars(query).one_or_none()
        return None if row is None else self._take(row, worker_id, ttl_s)

    def claim_study(
        self,
        study_id: int,
        worker_id: str,
        ttl_s: float = LEASE_S,
        *,
        dead: Collection[HeldLease] = (),
    ) -> Claim:
        """Claim this study, whatever its state; AlreadyDrivenError while somebody drives it."""
        row = lock_study(self._session, study_id)
        held = _held(row)
        if held is not None and held.expires_at > self.now() and held not in dead:
            raise AlreadyDrivenError(study_id, held.worker_id)
        return self._take(row, worker_id, ttl_s)

    def renew(self, claim: Claim) -> StudyRequest | None:
        """Extend the lease by its time; what a user wants of the study. Raises LeaseLostError."""
        row = self._required(claim)
        row.lease_expires_at = self.now() + timedelta(seconds=claim.ttl_s)
        self._session.flush()
        return None if row.requested is None else StudyRequest(row.requested)

    def require(self, claim: Claim) -> None:
        """The fence: LeaseLostError unless the claim is the study's last; locks the study.

        Every writing transaction of a driver begins with it.
        """
        self._required(claim)

    def look(self, claim: Claim) -> StudyRequest | None:
        """As `renew`, but only reads."""
        query = select(StudyRow.lease_worker, StudyRow.lease_token, StudyRow.requested)
        found = self._session.execute(query.where(StudyRow.id == claim.study_id)).one_or_none()
        if found is None or found[:2] != (claim.worker_id, claim.token):
            raise _lost(claim, None if found is None else found[0])
        return None if found[2] is None else StudyRequest(found[2])

    def release(self, claim: Claim) -> None:
        """Give the study back; nothing happens where the lease is somebody else's by now."""
        row = lock_study(self._session, claim.study_id)
        if (row.lease_worker, row.lease_token) == (claim.worker_id, claim.token):
            row.lease_worker = None
            row.lease_expires_at = None
            self._session.flush()

    def held(self) -> tuple[HeldLease, ...]:
        """The leases of studies that somebody drives or should drive, expired ones too."""
        query = select(StudyRow).where(StudyRow.lease_worker.is_not(None)).order_by(StudyRow.id)
        leases = (_held(row) for row in self._session.scalars(query))
        return tuple(lease for lease in leases if lease is not None)

    def now(self) -> datetime:
        """The database's time; on SQLite, which has none, this host's."""
        return database_now(self._session, self._clock)

    def _required(self, claim: Claim) -> StudyRow:
        row = lock_study(self._session, claim.study_id)
        if (row.lease_worker, row.lease_token) != (claim.worker_id, claim.token):
            raise _lost(claim, row.lease_worker)
        return row

    def _over(self) -> ColumnElement[bool]:
        return StudyRow.lease_expires_at <= self.now()

    def _take(self, row: StudyRow, worker_id: str, ttl_s: float) -> Claim:
        before = row.lease_worker
        row.lease_worker = worker_id
        row.lease_token += 1
        row.lease_expires_at = self.now() + timedelta(seconds=ttl_s)
        payload = {"worker": worker_id, "token": row.lease_token, "taken_from": before}
        self._events.append(row.id, EventKind.STUDY_CLAIMED, payload)
        return Claim(row.id, worker_id, row.lease_token, ttl_s)


def database_now(session: Session, clock: Clock) -> datetime:
    """The database's time, not the transaction's; on SQLite, which has none, `clock`'s."""
    if session.get_bind().dialect.name == "sqlite":
        return clock.now()
    now: datetime = session.execute(select(func.clock_timestamp())).scalar_one()
    return now


def _held(row: StudyRow) -> HeldLease | None:
    if row.lease_worker is None or row.lease_expires_at is None:
        return None
    return HeldLease(row.id, row.lease_worker, row.lease_token, row.lease_expires_at)


def _unchanged(lease: HeldLease) -> ColumnElement[bool]:
    return and_(
        StudyRow.id == lease.study_id,
        StudyRow.lease_token == lease.token,
        StudyRow.lease_expires_at == lease.expires_at,
    )


def _lost(claim: Claim, holder: str | None) -> LeaseLostError:
    now = f"worker {holder} drives it" if holder else "it was taken away"
    return LeaseLostError(
        f"study {claim.study_id} is not driven from here any more: {now}",
        hint="nothing is lost: whoever drives it goes on from the last commit",
    )
