"""Workers: processes that drive studies, and whether they still do."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from tuner.domain.clock import Clock
from tuner.domain.states import WorkerState
from tuner.store.database import require_writable
from tuner.store.leases import database_now
from tuner.store.models import StudyRow, WorkerRow
from tuner.store.records import JsonObject, WorkerRecord

SILENT_AFTER_S = 60.0
"""A worker that was not seen for so long is taken for gone in what is shown of it."""

FORGOTTEN_AFTER_S = 7 * 24 * 3600.0


@dataclass(frozen=True, slots=True)
class WorkerIdentity:
    """A process about to drive studies; `id` is of its own making and never used again.

    `namespace` tells within what the pid counts: two containers may share a host's name.
    """

    id: str
    host: str
    namespace: str | None
    pid: int
    start_ticks: int
    version: str
    gpus: tuple[str, ...] = ()


class WorkerRepository:
    """Workers, within one session. They are not part of any study's history."""

    def __init__(self, session: Session, clock: Clock) -> None:
        self._session = session
        self._clock = clock

    def register(self, worker: WorkerIdentity) -> WorkerRecord:
        """Make a worker known, idle; those not seen for a week are forgotten."""
        require_writable(self._session)
        now = database_now(self._session, self._clock)
        old = WorkerRow.last_seen_at < now - timedelta(seconds=FORGOTTEN_AFTER_S)
        holders = select(StudyRow.lease_worker).where(StudyRow.lease_worker.is_not(None))
        self._session.execute(delete(WorkerRow).where(old, WorkerRow.id.not_in(holders)))
        row = WorkerRow(
            id=worker.id,
            host=worker.host,
            namespace=worker.namespace,
            pid=worker.pid,
            start_ticks=worker.start_ticks,
            version=worker.version,
            gpus=list(worker.gpus),
            state=WorkerState.IDLE.value,
            started_at=now,
            last_seen_at=now,
        )
        self._session.add(row)
        self._session.flush()
        return _record(row)

    def beat(
        self,
        worker_id: str,
        state: WorkerState,
        study_id: int | None = None,
        progress: JsonObject | None = None,
    ) -> None:
        """Note that a worker lives and what it does; KeyError for one that nobody knows."""
        require_writable(self._session)
        row = self._row(worker_id)
        row.state = state.value
        row.study_id = study_id
        row.progress = None if progress is None else dict(progress)
        row.last_seen_at = database_now(self._session, self._clock)
        self._session.flush()

    def show(self, worker_id: str, progress: JsonObject | None) -> None:
        """Replace what the worker tells of this moment; a worker nobody knows tells nothing."""
        require_writable(self._session)
        row = self._session.get(WorkerRow, worker_id)
        if row is not None:
            row.progress = None if progress is None else dict(progress)
            self._session.flush()

    def find(self, worker_id: str) -> WorkerRecord | None:
        row = self._session.get(WorkerRow, worker_id, populate_existing=True)
        return None if row is None else _record(row)

    def all(self) -> tuple[WorkerRecord, ...]:
        """Every worker that is remembered, the longest running first."""
        query = select(WorkerRow).order_by(WorkerRow.started_at, WorkerRow.id)
        return tuple(_record(row) for row in self._session.scalars(query))

    def living(self) -> tuple[WorkerRecord, ...]:
        """The workers that have neither ended nor fallen silent."""
        now = database_now(self._session, self._clock)
        heard = now - timedelta(seconds=SILENT_AFTER_S)
        return tuple(
            worker
            for worker in self.all()
            if worker.state is not WorkerState.GONE and worker.last_seen_at >= heard
        )

    def _row(self, worker_id: str) -> WorkerRow:
        row = self._session.get(WorkerRow, worker_id, populate_existing=True)
        if row is None:
            raise KeyError(f"there is no worker {worker_id}")
        return row


def _record(row: WorkerRow) -> WorkerRecord:
    return WorkerRecord(
        id=row.id,
        host=row.host,
        namespace=row.namespace,
        pid=row.pid,
        start_ticks=row.start_ticks,
        version=row.version,
        gpus=tuple(str(gpu) for gpu in row.gpus),
        state=WorkerState(row.state),
        study_id=row.study_id,
        started_at=row.started_at,
        last_seen_at=row.last_seen_at,
        progress=row.progress,
    )
