"""A study document in the body of a request: its bytes, its text, and the study it means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import Depends, Request

from api.problem import ApiError
from api.services import Services
from tuner.domain.http_document import HttpContext, UploadedTrace, load_http_study
from tuner.domain.study_spec import StudySpec
from tuner.simulator.gpus import known_gpus
from tuner.simulator.models import known_models
from tuner.store.uploads import TRACE_FILE, upload_directory

YAML_TYPES = ("application/yaml", "application/x-yaml", "text/yaml")
DOCUMENT_TYPES = ("application/json", *YAML_TYPES)
STUDY_SCHEMA = {"$ref": "#/components/schemas/StudyDocument"}
EXAMPLE: Mapping[str, Any] = {
    "name": "chat-8b-l4",
    "model": {"id": "meta-llama/Llama-3.1-8B-Instruct", "max_model_len": 8192},
    "engine": {"kind": "simulated", "gpu": "L4", "time_scale": 12},
    "workload": {"preset": "chat"},
    "budget": {"trials": 8},
}
BODY = {
    "requestBody": {
        "required": True,
        "description": "The study document in its HTTP form, JSON or YAML: docs/api.md.",
        "content": {
            "application/json": {"schema": STUDY_SCHEMA, "example": dict(EXAMPLE)},
            "application/yaml": {"schema": {"type": "string"}},
        },
    }
}


def media_type(request: Request) -> str:
    """The body's media type without its parameters; empty when none is given."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def document_body(request: Request) -> bytes:
    """The bytes of a document; ApiError 415 when they are said to be something else."""
    if media_type(request) not in DOCUMENT_TYPES:
        known = ", ".join(DOCUMENT_TYPES)
        raise ApiError(
            415, "a study document is JSON or YAML", hint=f"Content-Type: one of {known}"
        )
    return await request.body()


DocumentBody = Annotated[bytes, Depends(document_body)]


def study_of(body: bytes, services: Services) -> StudySpec:
    """The study that a body means; InvalidStudyError with every fault, ApiError 400 for no text."""
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ApiError(400, f"the body is not UTF-8 text (byte {error.start})") from None
    context = HttpContext(
        operator=services.settings.operator,
        trace_of=lambda upload_id: trace_of(upload_id, services),
        known_gpus=known_gpus(),
        known_models=known_models(),
    )
    return load_http_study(text, context)


def trace_of(upload_id: str, services: Services) -> UploadedTrace | None:
    """An upload as a trace; None when there is none."""
    if not upload_id.isalnum() or not upload_id.isascii() or len(upload_id) > 64:
        return None
    with services.store.reading() as work:
        record = work.uploads.get(upload_id)
    if record is None:
        return None
    return UploadedTrace(str(upload_directory(upload_id) / TRACE_FILE), record.format)
