"""Every error of the API as application/problem+json (RFC 9457), with the faults' paths."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from tuner.domain.document_text import path_text
from tuner.errors import DatabaseError, Fault, InvalidStudyError, ServeTuneError

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 5

log = logging.getLogger(__name__)


class FaultModel(BaseModel):
    """One thing wrong with the request."""

    path: str = Field(examples=["search_space.max_num_seqs.low"])
    message: str = Field(examples=['expected an integer, got "8"'])
    hint: str | None = Field(default=None, examples=["write plain integers: 8192"])


class Problem(BaseModel):
    """What went wrong and what to do (RFC 9457)."""

    type: str = Field(default="about:blank", description="Always `about:blank`: see status.")
    title: str = Field(examples=["Unprocessable Content"])
    status: int = Field(examples=[422])
    detail: str | None = Field(default=None, examples=["the study document has 1 fault"])
    hint: str | None = None
    instance: str | None = Field(default=None, examples=["/api/v1/studies"])
    errors: list[FaultModel] = Field(default_factory=list)


class ApiError(Exception):
    """An answer that is an error; raised by routes and dependencies, turned into a problem."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        hint: str | None = None,
        errors: Sequence[Fault] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.hint = hint
        self.errors = tuple(errors)
        self.headers = dict(headers or {})


def problem_response(error: ApiError, instance: str | None = None) -> JSONResponse:
    """The answer to a request that failed."""
    problem = Problem(
        title=title_of(error.status),
        status=error.status,
        detail=error.detail,
        hint=error.hint,
        instance=instance,
        errors=[FaultModel(path=f.path, message=f.message, hint=f.hint) for f in error.errors],
    )
    return JSONResponse(
        problem.model_dump(exclude_none=True),
        status_code=error.status,
        headers=error.headers,
        media_type=MEDIA_TYPE,
    )


def title_of(status: int) -> str:
    """The standard phrase of a status, under its current name."""
    names = {413: "Content Too Large", 422: "Unprocessable Content"}
    return names.get(status) or HTTPStatus(status).phrase


def of_servetune(error: ServeTuneError) -> ApiError:
    """A refusal of the layers below, in HTTP's terms."""
    headers = {}
    faults: tuple[Fault, ...] = ()
    detail, hint = error.message, error.hint
    if isinstance(error, InvalidStudyError):
        faults = error.faults
        count = len(faults)
        detail = f"the study document has {count} {'fault' if count == 1 else 'faults'}"
    if isinstance(error, DatabaseError):
        headers = {"Retry-After": str(RETRY_AFTER_S)}
        detail, hint = "the database cannot serve this request now", "try again"
    status = error.http_status
    if status >= 500 and not isinstance(error, DatabaseError):
        detail, hint = "the service cannot answer this request; its log says why", None
    return ApiError(status, detail, hint=hint, errors=faults, headers=headers)


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """What a route may answer besides success, for the OpenAPI document."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    always = (400, 401, 403, 413, 415, 421, 422, 429, 500, 503)
    return {
        status: {"description": title_of(status), "content": content}
        for status in sorted({*always, *statuses})
    }


def add_handlers(app: FastAPI) -> None:
    """Make every error of this application a problem."""
    app.add_exception_handler(ApiError, _api_error)
    app.add_exception_handler(ServeTuneError, _servetune_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(HTTPException, _http_error)


async def _api_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ApiError)  # noqa: S101  # registered for nothing else
    return problem_response(error, request.url.path)


async def _servetune_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ServeTuneError)  # noqa: S101  # registered for nothing else
    answer = of_servetune(error)
    if answer.status >= 500:
        log.error("request failed", extra={"path": request.url.path}, exc_info=error)
    return problem_response(answer, request.url.path)


async def _validation_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)  # noqa: S101  # registered for nothing else
    faults = tuple(_request_faults(error.errors()))
    detail = "the request has faults: see errors"
    return problem_response(ApiError(422, detail, errors=faults), request.url.path)


def _request_faults(errors: Sequence[Mapping[str, Any]]) -> Iterator[Fault]:
    """Paths inside the body are the caller's own; elsewhere they begin with the place."""
    for item in errors:
        location = tuple(item["loc"])
        path = location[1:] if location[:1] == ("body",) else location
        yield Fault(path_text(path), str(item["msg"]))


async def _http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)  # noqa: S101  # registered for nothing else
    if isinstance(error.__cause__, ApiError):  # raised while the framework read the body
        return problem_response(error.__cause__, request.url.path)
    detail = "there is nothing at this path" if error.status_code == 404 else str(error.detail)
    answer = ApiError(error.status_code, detail, headers=error.headers)
    return problem_response(answer, request.url.path)
