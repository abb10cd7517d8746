"""Browser sessions: a cookie stands for a key, so that no script ever holds the key itself."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import delete
from sqlalchemy.orm import Session

from tuner.domain.clock import Clock
from tuner.store.database import require_writable
from tuner.store.models import SessionRow


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """An open session; its cookie and CSRF token are known by their hashes only."""

    key_id: str
    csrf_hash: str
    created_at: datetime
    expires_at: datetime

    def accepts(self, csrf_token: str) -> bool:
        """Whether a changing request carries the token that was given out with the cookie."""
        return hmac.compare_digest(_hash(csrf_token), self.csrf_hash)


@dataclass(frozen=True, slots=True)
class NewSession:
    """The only copies of cookie and CSRF token."""

    record: SessionRecord
    cookie: str
    csrf_token: str

    def __repr__(self) -> str:
        return f"NewSession({self.record.key_id})"


class SessionRepository:
    """Sessions, within one database session."""

    def __init__(self, session: Session, clock: Clock) -> None:
        self._session = session
        self._clock = clock

    def open(self, key_id: str, lifetime: timedelta) -> NewSession:
        """Begin a session for a key; expired ones are forgotten by the way."""
        require_writable(self._session)
        now = self._clock.now()
        self._session.execute(delete(SessionRow).where(SessionRow.expires_at <= now))
        cookie, csrf_token = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        row = SessionRow(
            id_hash=_hash(cookie),
            key_id=key_id,
            csrf_hash=_hash(csrf_token),
            created_at=now,
            expires_at=now + lifetime,
        )
        self._session.add(row)
        self._session.flush()
        return NewSession(_record(row), cookie, csrf_token)

    def find(self, cookie: str) -> SessionRecord | None:
        """The session of this cookie; None when there is none or it has expired.

        Looked up by its hash: how long that takes tells nothing of the cookie.
        """
        row = self._session.get(SessionRow, _hash(cookie))
        if row is None or row.expires_at <= self._clock.now():
            return None
        return _record(row)

    def close(self, cookie: str) -> None:
        """Forget a session; one that is gone is no error."""
        require_writable(self._session)
        self._session.execute(delete(SessionRow).where(SessionRow.id_hash == _hash(cookie)))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _record(row: SessionRow) -> SessionRecord:
    return SessionRecord(row.key_id, row.csrf_hash, row.created_at, row.expires_at)
