"""API keys and the audit trail, for administrators."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path
from pydantic import BaseModel, ConfigDict, Field

from api.pagination import DEFAULT_LIMIT, Cursor, Limit, Page, decode_number, page_of
from api.problem import ApiError, problems
from api.security.authentication import Admin
from api.services import Injected
from tuner.domain.access import Scope
from tuner.store.api_keys import ApiKeyRecord
from tuner.store.audit import AuditRecord

router = APIRouter()
LONGEST_DAYS = 3650


class KeyView(BaseModel):
    """A key; its secret is not known here."""

    id: str = Field(examples=["1f0c2a9b7d31"])
    name: str = Field(examples=["ci"])
    scopes: list[str] = Field(examples=[["write"]])
    created_at: str
    expires_at: str | None
    last_used_at: str | None
    revoked_at: str | None


class KeyList(BaseModel):
    """Every key, revoked ones too."""

    items: list[KeyView]


class KeyRequest(BaseModel):
    """A key to be made."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(pattern=r"^[A-Za-z0-9 .@:/+_-]{1,100}$", examples=["ci"])
    scopes: list[Literal["read", "write", "admin"]] = Field(min_length=1, max_length=3)
    expires_in_days: int | None = Field(default=None, ge=1, le=LONGEST_DAYS)


class MadeKey(KeyView):
    """A new key with the only copy of its text."""

    key: str = Field(description="Shown once; keep it.", examples=["st_…"])


class AuditView(BaseModel):
    """One act."""

    id: int
    at: str
    principal: str
    action: str
    subject: str | None
    outcome: str
    detail: dict[str, Any]


class AuditPage(Page):
    """Some of the audit trail, newest first."""

    items: list[AuditView]


@router.get(
    "/keys", tags=["keys"], operation_id="listKeys", response_model=KeyList, responses=problems()
)
def list_keys(services: Injected, principal: Admin) -> dict[str, object]:
    """Every key without its secret."""
    with services.store.reading() as work:
        return {"items": [_view(key) for key in work.keys.all()]}


@router.post(
    "/keys",
    tags=["keys"],
    operation_id="createKey",
    status_code=201,
    response_model=MadeKey,
    responses=problems(),
)
def create_key(services: Injected, principal: Admin, wanted: KeyRequest) -> dict[str, object]:
    """Make a key. Its text is in the answer and nowhere else, so the request is not repeatable."""
    days = wanted.expires_in_days
    expires = None if days is None else services.clock.now() + timedelta(days=days)
    with services.store.writing() as work:
        scopes = [Scope(scope) for scope in wanted.scopes]
        made = work.keys.create(wanted.name, scopes, expires_at=expires)
        detail = {"name": wanted.name, "scopes": list(wanted.scopes)}
        work.audit.record(principal.name, "key.create", made.record.id, detail=detail)
    return {**_view(made.record), "key": made.text}


@router.delete(
    "/keys/{key_id}",
    tags=["keys"],
    operation_id="revokeKey",
    response_model=KeyView,
    responses=problems(404),
)
def revoke_key(
    key_id: Annotated[str, Path(max_length=32, examples=["1f0c2a9b7d31"])],
    services: Injected,
    principal: Admin,
) -> dict[str, object]:
    """Make a key useless for good; its sessions end with it."""
    if not (key_id.isascii() and key_id.isalnum()):
        raise ApiError(404, "there is no such key")
    with services.store.writing() as work:
        if work.keys.get(key_id) is None:
            raise ApiError(404, "there is no such key")
        record = work.keys.revoke(key_id)
        work.audit.record(principal.name, "key.revoke", key_id)
    return _view(record)


@router.get(
    "/audit",
    tags=["keys"],
    operation_id="listAudit",
    response_model=AuditPage,
    responses=problems(),
)
def list_audit(
    services: Injected, principal: Admin, limit: Limit = DEFAULT_LIMIT, cursor: Cursor = None
) -> dict[str, object]:
    """Who did what, newest first."""
    before = decode_number(cursor)
    with services.store.reading() as work:
        found = work.audit.page(before, limit + 1)
    items, following = page_of(found, limit, _row_id)
    return {"items": [_row(row) for row in items], "next_cursor": following}


def _row_id(row: AuditRecord) -> int:
    return row.id


def _row(row: AuditRecord) -> dict[str, object]:
    return {
        "id": row.id,
        "at": row.at.isoformat(),
        "principal": row.principal,
        "action": row.action,
        "subject": row.subject,
        "outcome": row.outcome,
        "detail": dict(row.detail),
    }


def _view(key: ApiKeyRecord) -> dict[str, object]:
    def text(moment: Any) -> str | None:
        return None if moment is None else moment.isoformat()

    return {
        "id": key.id,
        "name": key.name,
        "scopes": [scope.value for scope in key.scopes],
        "created_at": key.created_at.isoformat(),
        "expires_at": text(key.expires_at),
        "last_used_at": text(key.last_used_at),
        "revoked_at": text(key.revoked_at),
    }
