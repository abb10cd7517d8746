"""The worker: claims studies one after the other and drives each to its end, or until told to stop.

Whatever ends it, every study it drove is claimable: at once after a drain or where it is seen to be
dead, else when its lease has run out.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field

from tuner.domain.cancellation import Cancellation
from tuner.domain.states import StudyOrigin, StudyState, WorkerState
from tuner.errors import (
    AlreadyDrivenError,
    CancelledError,
    DatabaseError,
    LeaseLostError,
    ServeTuneError,
    StartupError,
    UnknownStudyError,
)
from tuner.logs import log_fields
from tuner.store.artifacts import ArtifactStore
from tuner.store.leases import LEASE_S, Claim
from tuner.store.records import HeldLease, StudyRecord
from tuner.store.workers import WorkerIdentity
from tuner.study.admission import require_tunable
from tuner.study.engine_version import known_engine
from tuner.study.ledger import failure_document
from tuner.study.progress import Observer, SilentObserver
from tuner.study.stored_study import ORIGIN_FILE, base_dir_of, stored_spec
from tuner.worker.driver import Means, StudyDriver
from tuner.worker.identity import enlisted, leases_of_the_dead
from tuner.worker.metered import MeteredObserver
from tuner.worker.metrics import WorkerMetrics
from tuner.worker.orphans import end_orphans

logger = logging.getLogger(__name__)

POLL_S = 2.0
"""How often an idle worker looks for a study."""

RETRY_S = 30.0
"""How long a study that could not go on here (disk, database) is left to others."""

ELSEWHERE_S = 600.0
"""How long a study that another host's files belong to is left to that host's workers."""

BEAT_S = 10.0


@dataclass(slots=True)
class _Watched:
    """A lease as it was last seen, and since when, by this process's own clock."""

    lease: HeldLease
    since_s: float


@dataclass(slots=True)
class Worker:
    """A process that drives studies; `stop` may be called from a signal handler or a thread."""

    means: Means
    gpus: tuple[str, ...] = ()
    observer: Observer = field(default_factory=SilentObserver)
    metrics: WorkerMetrics | None = None
    ttl_s: float = LEASE_S
    poll_s: float = POLL_S
    once: bool = False
    """End when no study waits, instead of looking for the next one."""

    _stopping: threading.Event = field(default_factory=threading.Event)
    _current: Cancellation | None = None
    _watched: dict[int, _Watched] = field(default_factory=dict)
    _later: dict[int, float] = field(default_factory=dict)
    _away: bool = False
    _settled_s: float = 0.0
    _beaten_s: float | None = None

    def stop(self, reason: str) -> None:
        """Drain: end the running attempt, leave its study claimable, claim no other."""
        self._stopping.set()
        if self._current is not None:
            self._current.request(reason)

    def run(self) -> None:
        """Work until stopped; raises DatabaseError only before the worker was known to it."""
        with enlisted(self.means.store, self.gpus) as me:
            logger.info("worker %s waits for studies", me.id)
            while not self._stopping.is_set():
                claimed = self._next(me)
                if claimed is not None:
                    self._drive(*claimed)
                elif self.once:
                    return
                else:
                    self._stopping.wait(self.poll_s)

    def _next(self, me: WorkerIdentity) -> tuple[Claim, StudyRecord] | None:
        try:
            found = self._claim(me)
            if found is None:
                self._beat(me)
        except DatabaseError as error:
            if self.once:
                raise
            if not self._away:
                logger.warning("%s; this worker waits for it", error.message)
            self._away = True
            return None
        return found

    def _claim(self, me: WorkerIdentity) -> tuple[Claim, StudyRecord] | None:
        now = self.means.clock.monotonic()
        self._later = {study: until for study, until in self._later.items() if until > now}
        with self.means.store.reading() as work:
            held = work.leases.held()
            dead = leases_of_the_dead(work, me)
        if self._away:
            logger.warning("the database serves again")
            self._away, self._settled_s = False, now + self.ttl_s
        unchanged = self._unchanged(held, now)
        with self.means.store.writing() as work:
            claim = work.leases.claim(
                me.id, self.ttl_s, dead=(*dead, *unchanged), skip=self._left_alone(held, dead, now)
            )
            return None if claim is None else (claim, work.studies.get(claim.study_id))

    def _unchanged(self, held: tuple[HeldLease, ...], now_s: float) -> tuple[HeldLease, ...]:
        """Leases that nobody renewed for longer than they last, whatever the database's clock says.

        That clock may have been set back: such a lease would run out much too late.
        """
        watched = {lease.study_id: self._watched.get(lease.study_id) for lease in held}
        self._watched = {
            lease.study_id: seen
            if (seen := watched[lease.study_id]) is not None and seen.lease == lease
            else _Watched(lease, now_s)
            for lease in held
        }
        return tuple(
            seen.lease for seen in self._watched.values() if now_s - seen.since_s > 1.5 * self.ttl_s
        )

    def _left_alone(
        self, held: tuple[HeldLease, ...], dead: tuple[HeldLease, ...], now_s: float
    ) -> tuple[int, ...]:
        """Studies not to be claimed now: those that failed here, and others' after an outage.

        When the database comes back, a lease that ran out meanwhile may have a living holder: it
        gets the time of one lease to say so.
        """
        if now_s >= self._settled_s:
            return tuple(self._later)
        known = {lease.study_id for lease in dead}
        return (*self._later, *(h.study_id for h in held if h.study_id not in known))

    def _beat(self, me: WorkerIdentity) -> None:
        now = self.means.clock.monotonic()
        if self._beaten_s is None or now - self._beaten_s >= BEAT_S:
            with self.means.store.writing() as work:
                work.workers.beat(me.id, WorkerState.IDLE)
            self._beaten_s = now
            end_orphans(self.means.store, me, self.means.clock)

    def _drive(self, claim: Claim, study: StudyRecord) -> None:
        with log_fields(study=study.reference):
            self._drive_logged(claim, study)

    def _drive_logged(self, claim: Claim, study: StudyRecord) -> None:
        logger.info("driving %s", study.reference)
        self._beaten_s = None
        self._current = cancellation = Cancellation()
        if self._stopping.is_set():
            cancellation.request("the worker is stopping")
        try:
            self._driven(claim, study, cancellation)
        except CancelledError as error:
            logger.info("%s rests: %s", study.reference, error.message)
        except LeaseLostError as error:
            logger.warning("%s: %s", study.reference, error.message)
            if self.metrics is not None:
                self.metrics.lease_lost()
        except (DatabaseError, StartupError) as error:
            logger.warning("%s: %s; it is tried again later", study.reference, error.message)
            self._put_off(study)
        except ServeTuneError as error:
            logger.warning("%s failed: %s", study.reference, error.message)
        except Exception as error:
            logger.exception("%s failed through a fault of ServeTune", study.reference)
            self._fail(claim, study, f"a fault of ServeTune: {type(error).__name__}: {error}")
        else:
            logger.info("%s is complete", study.reference)
        finally:
            self._current = None

    def _driven(self, claim: Claim, study: StudyRecord, cancellation: Cancellation) -> None:
        spec, artifacts = stored_spec(study), ArtifactStore(self.means.locations.artifacts)
        if study.origin is StudyOrigin.CLI and ORIGIN_FILE not in artifacts.names(
            f"study-{study.id}"
        ):
            self._leave(claim, study)
            return
        base_dir = base_dir_of(artifacts, study)
        try:
            known = known_engine(spec, base_dir, self.means.locations.state_dir)
            require_tunable(spec, base_dir, known.version)
        except ServeTuneError as error:
            self._fail(claim, study, error.message)
            raise
        observer = self.observer
        if self.metrics is not None:
            observer = MeteredObserver(observer, self.metrics, spec)
        driver = StudyDriver(
            self.means, claim, spec, base_dir, known, observer, cancellation, StudyState.QUEUED
        )
        driver.drive(study)

    def _leave(self, claim: Claim, study: StudyRecord) -> None:
        """A document that may name files of another host can only be driven there."""
        logger.info("%s was made on another host and is left to its workers", study.reference)
        with self.means.store.writing() as work:
            work.leases.release(claim)
        self._later[study.id] = self.means.clock.monotonic() + ELSEWHERE_S

    def _put_off(self, study: StudyRecord) -> None:
        self._later[study.id] = self.means.clock.monotonic() + RETRY_S

    def _fail(self, claim: Claim, study: StudyRecord, message: str) -> None:
        """End a study that cannot be driven; it may be resumed when its cause is put right."""
        try:
            with self.means.store.writing() as work:
                work.leases.release(claim)
                again = work.leases.claim_study(study.id, claim.worker_id, self.ttl_s)
                work.studies.set_state(
                    study.id, StudyState.FAILED, failure=failure_document(message)
                )
                work.leases.release(again)
        except (DatabaseError, AlreadyDrivenError, UnknownStudyError, ValueError) as error:
            logger.warning("%s: %s", study.reference, error)
            self._put_off(study)
