"""Keys of the HTTP API. Only the hash of a key's secret is stored; the text is shown once.

A key reads `st_ID_SECRET`: a public identifier that finds the row, and 256 random bits. A hash
without salt or stretching will do: no dictionary has such a secret in it.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import func, or_, select
from sqlalchemy.orm import Session

from tuner.domain.access import Scope
from tuner.domain.clock import Clock
from tuner.errors import InvalidInputError
from tuner.store.database import require_writable
from tuner.store.models import ApiKeyRow

_KEY = re.compile(r"st_([0-9a-f]{12})_([A-Za-z0-9_-]{43})", re.ASCII)
_NAME = re.compile(r"[\w .@:/+-]{1,100}")
_ABSENT = hashlib.sha256(secrets.token_bytes(32)).hexdigest()
USE_NOTED_EVERY = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class ApiKeyRecord:
    """What may be known of a key; its secret is not stored."""

    id: str
    name: str
    scopes: tuple[Scope, ...]
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None

    def active(self, now: datetime) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


@dataclass(frozen=True, slots=True)
class NewApiKey:
    """A key and the only copy of its text."""

    record: ApiKeyRecord
    text: str

    def __repr__(self) -> str:
        return f"NewApiKey({self.record.id})"


class ApiKeyRepository:
    """Keys, within one session."""

    def __init__(self, session: Session, clock: Clock) -> None:
        self._session = session
        self._clock = clock

    def create(
        self, name: str, scopes: Sequence[Scope], *, expires_at: datetime | None = None
    ) -> NewApiKey:
        """Make a key; InvalidInputError for a name that would not read well in a log or list."""
        require_writable(self._session)
        if _NAME.fullmatch(name) is None:
            raise InvalidInputError(
                "the name of a key has 1 to 100 letters, digits, spaces and .@:/+-_"
            )
        if not scopes:
            raise InvalidInputError("a key needs a scope", hint="read, write or admin")
        identifier, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        row = ApiKeyRow(
            id=identifier,
            name=name,
            hash=_hash(secret),
            scopes=sorted({scope.value for scope in scopes}),
            created_at=self._clock.now(),
            expires_at=expires_at,
        )
        self._session.add(row)
        self._session.flush()
        return NewApiKey(_record(row), f"st_{identifier}_{secret}")

    def authenticate(self, text: str) -> ApiKeyRecord | None:
        """The active key of this text; None for any other, after the same comparison."""
        match = _KEY.fullmatch(text)
        row = None if match is None else self._session.get(ApiKeyRow, match[1])
        stored = _ABSENT if row is None else row.hash
        equal = hmac.compare_digest(_hash("" if match is None else match[2]), stored)
        if row is None or not equal:
            return None
        record = _record(row)
        return record if record.active(self._clock.now()) else None

    def get(self, key_id: str) -> ApiKeyRecord | None:
        row = self._session.get(ApiKeyRow, key_id)
        return None if row is None else _record(row)

    def all(self) -> tuple[ApiKeyRecord, ...]:
        """Every key, revoked ones too, oldest first."""
        rows = self._session.scalars(select(ApiKeyRow).order_by(ApiKeyRow.created_at, ApiKeyRow.id))
        return tuple(_record(row) for row in rows)

    def any_active(self) -> bool:
        """Whether anybody could get in."""
        now = self._clock.now()
        query = select(func.count()).where(
            ApiKeyRow.revoked_at.is_(None),
            or_(ApiKeyRow.expires_at.is_(None), ApiKeyRow.expires_at > now),
        )
        return bool(self._session.scalar(query))

    def revoke(self, key_id: str) -> ApiKeyRecord:
        """Make a key useless for good; again changes nothing. InvalidInputError when unknown."""
        require_writable(self._session)
        row = self._session.get(ApiKeyRow, key_id)
        if row is None:
            raise InvalidInputError(f"there is no key {key_id!r}", hint="servetune key list")
        if row.revoked_at is None:
            row.revoked_at = self._clock.now()
        return _record(row)

    def note_use(self, key_id: str) -> None:
        """Remember when the key was used last; a key that is gone is no error."""
        require_writable(self._session)
        row = self._session.get(ApiKeyRow, key_id)
        if row is not None:
            row.last_used_at = self._clock.now()


def use_is_due(record: ApiKeyRecord, now: datetime) -> bool:
    """Whether the last use is worth a write again."""
    return record.last_used_at is None or now - record.last_used_at >= USE_NOTED_EVERY


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _record(row: ApiKeyRow) -> ApiKeyRecord:
    return ApiKeyRecord(
        id=row.id,
        name=row.name,
        scopes=tuple(Scope(value) for value in row.scopes),
        created_at=row.created_at,
        expires_at=row.expires_at,
        last_used_at=row.last_used_at,
        revoked_at=row.revoked_at,
    )
