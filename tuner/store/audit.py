"""Who did what through the API; rows outlive what they tell of and are never changed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from tuner.domain.clock import Clock
from tuner.store.database import require_writable
from tuner.store.models import AuditRow
from tuner.store.records import JsonObject

LONGEST_SUBJECT = 255


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """One act: who, what, on what, and whether it was done or denied."""

    id: int
    at: datetime
    principal: str
    action: str
    subject: str | None
    outcome: str
    detail: JsonObject


class AuditRepository:
    """The audit trail, within one session."""

    def __init__(self, session: Session, clock: Clock) -> None:
        self._session = session
        self._clock = clock

    def record(
        self,
        principal: str,
        action: str,
        subject: str | None = None,
        *,
        outcome: str = "done",
        detail: JsonObject | None = None,
    ) -> None:
        """Add a row in the transaction of the act itself; secrets never belong in `detail`."""
        require_writable(self._session)
        row = AuditRow(
            at=self._clock.now(),
            principal=principal,
            action=action,
            subject=None if subject is None else subject[:LONGEST_SUBJECT],
            outcome=outcome,
            detail=dict(detail or {}),
        )
        self._session.add(row)

    def page(self, before_id: int | None, limit: int) -> tuple[AuditRecord, ...]:
        """Rows from the newest to the oldest, before the given one."""
        query = select(AuditRow).order_by(AuditRow.id.desc()).limit(limit)
        if before_id is not None:
            query = query.where(AuditRow.id < before_id)
        return tuple(_record(row) for row in self._session.scalars(query))


def _record(row: AuditRow) -> AuditRecord:
    return AuditRecord(
        row.id, row.at, row.principal, row.action, row.subject, row.outcome, dict(row.detail)
    )
