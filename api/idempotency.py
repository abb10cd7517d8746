"""Requests that create are answered once, however often they are sent (Idempotency-Key)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Header, Request
from fastapi.responses import JSONResponse
from sqlalchemy.exc import IntegrityError

from api.problem import ApiError
from api.services import Services
from tuner.domain.access import Principal
from tuner.store.idempotency import StoredAnswer
from tuner.store.unit_of_work import Work

REPLAYED = "Idempotency-Replayed"
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        pattern=r"^[\x21-\x7e]{1,255}$",
        description="Of the caller's choice; the same request again within a day is answered "
        "as the first time and does nothing.",
    ),
]


class Answer:
    """What a creating request is answered: status, body, and where the new thing is."""

    def __init__(self, status: int, body: Any, location: str | None = None) -> None:
        self.status = status
        self.body = body
        self.headers = {} if location is None else {"Location": location}


def fingerprint_of(request: Request, body: bytes) -> str:
    """What makes two requests the same one: method, address and body."""
    digest = hashlib.sha256()
    for part in (request.method, request.url.path, request.url.query):
        digest.update(f"{part}\n".encode())
    digest.update(body)
    return digest.hexdigest()


def replayed(
    services: Services, principal: Principal, key: str | None, fingerprint: str
) -> JSONResponse | None:
    """The answer already given under this key; None when there is none."""
    if key is None:
        return None
    with services.store.reading() as work:
        found = work.idempotency.find(principal.name, key)
    return None if found is None else _again(found, fingerprint)


def once(
    services: Services,
    principal: Principal,
    key: str | None,
    fingerprint: str,
    make: Callable[[Work], Answer],
) -> JSONResponse:
    """Do it and remember the answer in one transaction, or give the answer of the first time."""
    try:
        return _once(services, principal, key, fingerprint, make)
    except IntegrityError:
        answer = replayed(services, principal, key, fingerprint)
        if answer is None:
            raise
        return answer  # the same request was answered while this one was on its way


def _once(
    services: Services,
    principal: Principal,
    key: str | None,
    fingerprint: str,
    make: Callable[[Work], Answer],
) -> JSONResponse:
    with services.store.writing() as work:
        found = None if key is None else work.idempotency.find(principal.name, key)
        if found is not None:
            return _again(found, fingerprint)
        answer = make(work)
        if key is not None:
            kept = StoredAnswer(fingerprint, answer.status, answer.headers, answer.body)
            work.idempotency.keep(principal.name, key, kept)
    return JSONResponse(answer.body, status_code=answer.status, headers=answer.headers)


def _again(found: StoredAnswer, fingerprint: str) -> JSONResponse:
    if found.fingerprint != fingerprint:
        hint = "use a new key for another request"
        raise ApiError(422, "this Idempotency-Key was used for another request", hint=hint)
    headers = {**found.headers, REPLAYED: "true"}
    return JSONResponse(found.body, status_code=found.status, headers=headers)
