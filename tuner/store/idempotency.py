"""Answers to requests that may come twice, kept with what the first one changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import delete
from sqlalchemy.orm import Session

from tuner.domain.clock import Clock
from tuner.store.database import require_writable
from tuner.store.models import IdempotencyKeyRow

KEPT_FOR = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """What the first request was, by its fingerprint, and what it was answered."""

    fingerprint: str
    status: int
    headers: Mapping[str, str]
    body: Any


class IdempotencyRepository:
    """Stored answers, within one session.

    An answer is written in the transaction of the change it tells of: there is never one without
    the other. Of two requests at once, the second to commit violates the primary key.
    """

    def __init__(self, session: Session, clock: Clock) -> None:
        self._session = session
        self._clock = clock

    def find(self, principal: str, key: str) -> StoredAnswer | None:
        """The answer given under this key within the last day."""
        row = self._session.get(IdempotencyKeyRow, (principal, key))
        if row is None or row.status is None or row.created_at <= self._clock.now() - KEPT_FOR:
            return None
        return StoredAnswer(row.fingerprint, row.status, dict(row.headers or {}), row.body)

    def keep(self, principal: str, key: str, answer: StoredAnswer) -> None:
        """Remember an answer; those of yesterday are forgotten by the way."""
        require_writable(self._session)
        oldest = self._clock.now() - KEPT_FOR
        self._session.execute(
            delete(IdempotencyKeyRow).where(IdempotencyKeyRow.created_at <= oldest)
        )
        row = IdempotencyKeyRow(
            principal=principal,
            key=key,
            fingerprint=answer.fingerprint,
            status=answer.status,
            headers=dict(answer.headers),
            body=answer.body,
            created_at=self._clock.now(),
        )
        self._session.add(row)
        self._session.flush()
