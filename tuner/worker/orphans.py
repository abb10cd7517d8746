"""Attempts of studies that rest: what their dead drivers left running on this host is ended."""

from __future__ import annotations

from contextlib import suppress

from tuner.domain.clock import Clock
from tuner.domain.states import AttemptOutcome, StudyState
from tuner.engine.launcher import ProcessIdentity
from tuner.engine.reaper import reap
from tuner.errors import AlreadyDrivenError
from tuner.store.leases import Claim
from tuner.store.records import AttemptEnd, AttemptRecord
from tuner.store.unit_of_work import Store
from tuner.store.workers import WorkerIdentity

RESTING = (StudyState.PAUSED, StudyState.CANCELLED, StudyState.FAILED)
GRACE_S = 10.0


def end_orphans(store: Store, me: WorkerIdentity, clock: Clock) -> int:
    """End them and close their attempts as lost; how many there were. Raises DatabaseError.

    A study that was stopped after its driver had died is driven by nobody who would reconcile it.
    """
    with store.reading() as work:
        here = [attempt for attempt in work.attempts.running() if attempt.host == me.host]
        left = [a for a in here if work.studies.get(a.study_id).state in RESTING]
    return sum(_ended(store, me, clock, attempt) for attempt in left)


def _ended(store: Store, me: WorkerIdentity, clock: Clock, attempt: AttemptRecord) -> bool:
    claim = _claimed(store, me, attempt.study_id)
    if claim is None:
        return False
    recorded = [ProcessIdentity(p.pid, p.start_ticks) for p in (attempt.guard, attempt.engine) if p]
    reap(recorded, grace_s=GRACE_S, clock=clock)
    with store.writing() as work:
        work.leases.require(claim)
        with suppress(ValueError):  # Its driver lived after all, and has closed it.
            work.attempts.end(attempt.id, AttemptEnd(AttemptOutcome.LOST))
        work.leases.release(claim)
    return True


def _claimed(store: Store, me: WorkerIdentity, study_id: int) -> Claim | None:
    """The study's lease for as long as this takes; None where it rests no more."""
    with store.writing() as work:
        if work.studies.get(study_id).state not in RESTING:
            return None
        try:
            return work.leases.claim_study(study_id, me.id)
        except AlreadyDrivenError:
            return None
