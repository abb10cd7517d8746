"""Who makes a request: a key in `Authorization: Bearer`, or a browser's session cookie."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import APIKeyCookie, HTTPAuthorizationCredentials, HTTPBearer

from api.problem import ApiError
from api.security.gate import SAFE_METHODS, client_of
from api.services import Injected, Services
from tuner.domain.access import LOCAL, Principal, Scope
from tuner.errors import DatabaseError
from tuner.store.api_keys import ApiKeyRecord, use_is_due

SESSION_COOKIE = "servetune_session"
CSRF_COOKIE = "servetune_csrf"
CSRF_HEADER = "X-CSRF-Token"

log = logging.getLogger(__name__)

_bearer = HTTPBearer(
    auto_error=False,
    scheme_name="ApiKey",
    description="A key made by `servetune key create`, as `Authorization: Bearer st_…`.",
)
_cookie = APIKeyCookie(
    name=SESSION_COOKIE,
    auto_error=False,
    scheme_name="BrowserSession",
    description=f"Opened by POST /api/v1/session; changing requests need {CSRF_HEADER} too.",
)


def principal_of(
    request: Request,
    services: Injected,
    credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)],
    cookie: Annotated[str | None, Depends(_cookie)],
) -> Principal:
    """The caller; ApiError 401 when it shows nothing that is valid now."""
    if not services.settings.authentication:
        return LOCAL
    if credentials is not None:
        return principal_of_key(request, services, credentials.credentials)
    if cookie is not None:
        return _principal_of_session(request, services, cookie)
    raise unauthenticated("this request needs a key")


def principal_of_key(request: Request, services: Services, text: str) -> Principal:
    """The caller with this key; wrong ones are counted against its address."""
    with services.store.reading() as work:
        record = work.keys.authenticate(text)
    if record is None:
        raise refused(request, services, "the key is not valid")
    if use_is_due(record, services.clock.now()):
        # Whoever may read may do so while nothing can be written.
        with suppress(DatabaseError), services.store.writing() as work:
            work.keys.note_use(record.id)
    return _principal(record)


def _principal_of_session(request: Request, services: Services, cookie: str) -> Principal:
    with services.store.reading() as work:
        session = work.sessions.find(cookie)
        record = None if session is None else work.keys.get(session.key_id)
    if session is None or record is None or not record.active(services.clock.now()):
        raise refused(request, services, "the session has ended: log in again")
    token = request.headers.get(CSRF_HEADER, "")
    if request.method not in SAFE_METHODS and not session.accepts(token):
        raise ApiError(403, f"a browser's changing request needs {CSRF_HEADER}")
    return _principal(record)


def _principal(record: ApiKeyRecord) -> Principal:
    return Principal(f"key:{record.id}", record.scopes, record.id)


def refused(request: Request, services: Services, detail: str) -> ApiError:
    """401, or 429 for an address from which too many wrong keys came."""
    client = client_of(request.scope)
    wait_s = services.failures.wait_s(client)
    log.warning("authentication refused", extra={"client": client})
    if wait_s > 0:
        retry = {"Retry-After": str(max(1, round(wait_s)))}
        return ApiError(429, "too many wrong keys from this address", headers=retry)
    return unauthenticated(detail)


def unauthenticated(detail: str) -> ApiError:
    return ApiError(
        401,
        detail,
        hint="send Authorization: Bearer KEY; `servetune key create` makes one",
        headers={"WWW-Authenticate": "Bearer"},
    )


def _needs(scope: Scope) -> Callable[..., Principal]:
    def allowed(
        request: Request,
        services: Injected,
        principal: Annotated[Principal, Depends(principal_of)],
    ) -> Principal:
        if not principal.may(scope):
            _note_denial(request, services, principal, scope)
            raise ApiError(403, f"this needs a key with the scope {scope.value}")
        return principal

    return allowed


def _note_denial(request: Request, services: Services, principal: Principal, scope: Scope) -> None:
    detail = {"method": request.method, "needs": scope.value}
    with services.store.writing() as work:
        work.audit.record(
            principal.name, "denied", request.url.path, outcome="denied", detail=detail
        )


Reader = Annotated[Principal, Depends(_needs(Scope.READ))]
Writer = Annotated[Principal, Depends(_needs(Scope.WRITE))]
Admin = Annotated[Principal, Depends(_needs(Scope.ADMIN))]
