"""Traces of requests, uploaded to be named in a study's `workload.upload`."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from api.idempotency import Answer, IdempotencyKey, fingerprint_of, once
from api.pagination import DEFAULT_LIMIT, Cursor, Limit, Page, decode_text, page_of
from api.problem import ApiError, problems
from api.security.authentication import Reader, Writer
from api.services import Injected, Services, computing
from api.study_body import media_type
from tuner.errors import Fault, InvalidTraceError
from tuner.loadgen.trace_description import describe_trace
from tuner.loadgen.traces import parse_trace
from tuner.store.unit_of_work import Work
from tuner.store.uploads import TRACE_FILE, NewUpload, UploadRecord, upload_directory

router = APIRouter(prefix="/uploads", tags=["uploads"])
TRACE_TYPES = (
    "text/csv",
    "application/json",
    "application/jsonl",
    "application/x-ndjson",
    "application/octet-stream",
)
UploadFormat = Literal["auto", "azure", "burstgpt", "mooncake", "sharegpt", "vidur", "jsonl"]
"""Those of study files, less what takes two files."""
BODY = {
    "requestBody": {
        "required": True,
        "description": "A trace in one of the formats of docs/workloads.md.",
        "content": {
            "text/csv": {
                "schema": {"type": "string"},
                "example": "TIMESTAMP,ContextTokens,GeneratedTokens\n"
                "2024-05-10 00:00:00.1,374,44\n2024-05-10 00:00:00.9,396,109\n",
            },
            "application/jsonl": {
                "schema": {"type": "string"},
                "example": '{"prompt_tokens": 374, "output_tokens": 44, "arrival_s": 0.1}\n'
                '{"prompt_tokens": 396, "output_tokens": 109, "arrival_s": 0.9}\n',
            },
        },
    }
}


class UploadView(BaseModel):
    """An uploaded trace and what was found in it."""

    id: str = Field(examples=["9f86d081884c7d65"], description="For `workload.upload`.")
    name: str
    format: str
    size_bytes: int
    sha256: str
    description: dict[str, Any]
    created_by: str | None
    created_at: str


class UploadPage(Page):
    """Some of the uploads."""

    items: list[UploadView]


async def trace_body(request: Request) -> bytes:
    """The bytes of a trace; ApiError 415 when they are said to be something else."""
    if media_type(request) not in TRACE_TYPES:
        raise ApiError(
            415, "a trace is CSV or JSON", hint=f"Content-Type: one of {', '.join(TRACE_TYPES)}"
        )
    return await request.body()


@router.post(
    "",
    operation_id="uploadTrace",
    status_code=201,
    response_model=UploadView,
    openapi_extra=BODY,
    responses={
        200: {"model": UploadView, "description": "These bytes are there already."},
        **problems(),
    },
)
def upload_trace(
    request: Request,
    services: Injected,
    principal: Writer,
    body: Annotated[bytes, Depends(trace_body)],
    name: Annotated[
        str,
        Query(pattern=r"^[A-Za-z0-9][A-Za-z0-9._ -]{0,99}$", description="For people; no path."),
    ] = "trace.csv",
    format: Annotated[
        UploadFormat, Query(description="The form of the file; `auto` tells it by its beginning.")
    ] = "auto",
    key: IdempotencyKey = None,
) -> JSONResponse:
    """Check and keep a trace; the same bytes again are the same upload."""
    described, description = _described(body, format, services)
    upload = NewUpload(
        name=name,
        format=described,
        size_bytes=len(body),
        sha256=hashlib.sha256(body).hexdigest(),
        description=description,
        created_by=principal.name,
    )
    _require_room(services, upload)
    services.artifacts.write(upload_directory(upload.id), TRACE_FILE, body)

    def make(work: Work) -> Answer:
        known = work.uploads.get(upload.id)
        record = work.uploads.add(upload)
        if known is None:
            work.audit.record(principal.name, "upload.add", upload.id)
        status = 201 if known is None else 200
        return Answer(status, _view(record), f"/api/v1/uploads/{record.id}")

    return once(services, principal, key, fingerprint_of(request, body), make)


def _described(
    body: bytes, format: UploadFormat, services: Services
) -> tuple[str, dict[str, object]]:
    """The format that was found, and what is in the trace."""
    try:
        with computing(services):
            text = body.decode("utf-8-sig")
            trace = parse_trace(text, source="upload", format=format)
            return trace.format, describe_trace(trace)
    except UnicodeDecodeError as error:
        raise ApiError(422, f"the trace is not UTF-8 text (byte {error.start})") from None
    except InvalidTraceError as error:
        fault = Fault(error.where or "", error.message, error.hint)
        raise ApiError(422, "the trace cannot be used: see errors", errors=(fault,)) from None


def _require_room(services: Services, upload: NewUpload) -> None:
    with services.store.reading() as work:
        known = work.uploads.get(upload.id) is not None
        total = work.uploads.total_bytes()
    if not known and total + upload.size_bytes > services.settings.limits.all_uploads_bytes:
        raise ApiError(413, "the uploads kept here would take more room than is allowed")


@router.get("", operation_id="listUploads", response_model=UploadPage, responses=problems())
def list_uploads(
    services: Injected, principal: Reader, limit: Limit = DEFAULT_LIMIT, cursor: Cursor = None
) -> dict[str, object]:
    """The traces that were uploaded."""
    after = decode_text(cursor)
    with services.store.reading() as work:
        found = work.uploads.page(after, limit + 1)
    items, following = page_of(found, limit, _identifier)
    return {"items": [_view(upload) for upload in items], "next_cursor": following}


@router.get(
    "/{upload}", operation_id="showUpload", response_model=UploadView, responses=problems(404)
)
def show_upload(upload: str, services: Injected, principal: Reader) -> dict[str, object]:
    """One uploaded trace."""
    record = None
    if upload.isalnum() and upload.isascii() and len(upload) <= 64:
        with services.store.reading() as work:
            record = work.uploads.get(upload)
    if record is None:
        raise ApiError(404, "there is no such upload")
    return _view(record)


def _identifier(upload: UploadRecord) -> str:
    return upload.id


def _view(upload: UploadRecord) -> dict[str, object]:
    return {
        "id": upload.id,
        "name": upload.name,
        "format": upload.format,
        "size_bytes": upload.size_bytes,
        "sha256": upload.sha256,
        "description": dict(upload.description),
        "created_by": upload.created_by,
        "created_at": upload.created_at.isoformat(),
    }
