"""Traces that came over HTTP: described here, their bytes in the artefact store."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePosixPath

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from tuner.domain.clock import Clock
from tuner.store.database import require_writable
from tuner.store.models import UploadRow
from tuner.store.records import JsonObject

TRACE_FILE = "trace.csv"
IDENTIFIER_DIGITS = 16


@dataclass(frozen=True, slots=True)
class UploadRecord:
    """An uploaded trace; `description` is what was found in it."""

    id: str
    name: str
    format: str
    size_bytes: int
    sha256: str
    description: JsonObject
    created_by: str | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class NewUpload:
    """A trace to be noted; its bytes are in the artefact store already."""

    name: str
    format: str
    size_bytes: int
    sha256: str
    description: JsonObject
    created_by: str | None

    @property
    def id(self) -> str:
        """The same bytes have the same identifier."""
        return self.sha256[:IDENTIFIER_DIGITS]


def upload_directory(upload_id: str) -> PurePosixPath:
    """Where an upload's bytes are, relative to the artefact store's root."""
    return PurePosixPath("uploads", upload_id)


class UploadRepository:
    """Uploads, within one session."""

    def __init__(self, session: Session, clock: Clock) -> None:
        self._session = session
        self._clock = clock

    def add(self, upload: NewUpload) -> UploadRecord:
        """Note an upload; the same bytes again return what is noted."""
        require_writable(self._session)
        row = self._session.get(UploadRow, upload.id)
        if row is None:
            row = UploadRow(
                id=upload.id,
                name=upload.name,
                format=upload.format,
                size_bytes=upload.size_bytes,
                sha256=upload.sha256,
                description=dict(upload.description),
                created_by=upload.created_by,
                created_at=self._clock.now(),
            )
            self._session.add(row)
            self._session.flush()
        return _record(row)

    def get(self, upload_id: str) -> UploadRecord | None:
        row = self._session.get(UploadRow, upload_id)
        return None if row is None else _record(row)

    def total_bytes(self) -> int:
        """How much all uploads take together."""
        return int(self._session.scalar(select(func.sum(UploadRow.size_bytes))) or 0)

    def page(self, after_id: str | None, limit: int) -> tuple[UploadRecord, ...]:
        """Uploads in the order of their identifiers, after the given one."""
        query = select(UploadRow).order_by(UploadRow.id).limit(limit)
        if after_id is not None:
            query = query.where(UploadRow.id > after_id)
        return tuple(_record(row) for row in self._session.scalars(query))


def _record(row: UploadRow) -> UploadRecord:
    return UploadRecord(
        id=row.id,
        name=row.name,
        format=row.format,
        size_bytes=row.size_bytes,
        sha256=row.sha256,
        description=dict(row.description),
        created_by=row.created_by,
        created_at=row.created_at,
    )
