"""Browser sessions: a key is exchanged once for a cookie that no script can read."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, SecretStr

from api.problem import problems
from api.security.authentication import (
    CSRF_COOKIE,
    SESSION_COOKIE,
    principal_of,
    principal_of_key,
)
from api.services import Injected
from tuner.domain.access import LOCAL, Principal

router = APIRouter(prefix="/session", tags=["session"])


class Login(BaseModel):
    """The key to open a session with."""

    model_config = ConfigDict(extra="forbid")

    key: SecretStr = Field(max_length=200, examples=["st_…"])


class SessionView(BaseModel):
    """Who is logged in; nothing secret."""

    principal: str = Field(examples=["key:1f0c2a9b7d31"])
    scopes: list[str] = Field(examples=[["read", "write"]])
    authentication: bool = Field(description="Whether this service asks for keys at all.")


@router.post(
    "",
    operation_id="openSession",
    status_code=201,
    response_model=SessionView,
    responses=problems(),
)
def open_session(request: Request, services: Injected, login: Login) -> JSONResponse:
    """Log a browser in: two cookies, of which the page reads the one with the CSRF token.

    Changing requests repeat that token in the header X-CSRF-Token.
    """
    if not services.settings.authentication:
        return JSONResponse(_view(LOCAL, authentication=False).model_dump(), status_code=201)
    principal = principal_of_key(request, services, login.key.get_secret_value())
    lifetime = services.settings.session_lifetime
    with services.store.writing() as work:
        opened = work.sessions.open(str(principal.key_id), lifetime)
        work.audit.record(principal.name, "session.open")
    answer = JSONResponse(_view(principal, authentication=True).model_dump(), status_code=201)
    for name, value, hidden in (
        (SESSION_COOKIE, opened.cookie, True),
        (CSRF_COOKIE, opened.csrf_token, False),
    ):
        answer.set_cookie(
            name,
            value,
            max_age=int(lifetime.total_seconds()),
            path="/",
            secure=request.url.scheme == "https",
            httponly=hidden,
            samesite="strict",
        )
    return answer


@router.get("", operation_id="showSession", response_model=SessionView, responses=problems())
def show_session(
    services: Injected, principal: Annotated[Principal, Depends(principal_of)]
) -> SessionView:
    """Who is logged in."""
    return _view(principal, authentication=services.settings.authentication)


@router.delete("", operation_id="closeSession", status_code=204, responses=problems())
def close_session(
    request: Request,
    services: Injected,
    principal: Annotated[Principal, Depends(principal_of)],
) -> Response:
    """Log out: the session is forgotten, not only its cookie."""
    cookie = request.cookies.get(SESSION_COOKIE)
    if cookie is not None:
        with services.store.writing() as work:
            work.sessions.close(cookie)
            work.audit.record(principal.name, "session.close")
    answer = Response(status_code=204)
    for name in (SESSION_COOKIE, CSRF_COOKIE):
        answer.delete_cookie(name, path="/", samesite="strict")
    return answer


def _view(principal: Principal, *, authentication: bool) -> SessionView:
    scopes = [scope.value for scope in principal.scopes]
    return SessionView(principal=principal.name, scopes=scopes, authentication=authentication)
