"""What is refused before any route sees it: foreign hosts and origins, too much, too often."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.problem import ApiError, problem_response
from api.security.rate_limit import RateLimit
from api.settings import LOOPBACK_NAMES, ApiSettings

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
UPLOAD_PATH = "/api/v1/uploads"


class Gate:
    """Refuses requests by their envelope alone.

    A page that rebinds its own name to our address still sends its name in Host; a page that posts
    to us across origins still says so in Origin. Neither gets further, with or without a key.
    """

    def __init__(self, app: ASGIApp, settings: ApiSettings, rate: RateLimit) -> None:
        self._app = app
        self._settings = settings
        self._rate = rate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            await problem_response(refusal, scope["path"])(scope, receive, send)
            return
        body = _LimitedBody(receive, self._largest(scope["path"]))
        await self._app(scope, body, send)

    def _refusal(self, scope: Scope) -> ApiError | None:
        headers = Headers(scope=scope)
        if not host_allowed(headers.getlist("host"), self._settings.allowed_hosts):
            hint = "the operator allows more names with --allowed-host"
            return ApiError(421, "this service does not answer to that host name", hint=hint)
        if scope["method"] not in SAFE_METHODS and not same_origin(headers):
            return ApiError(403, "the request comes from another site's page")
        wait_s = self._rate.wait_s(client_of(scope))
        if wait_s > 0:
            retry = {"Retry-After": str(max(1, round(wait_s)))}
            return ApiError(429, "too many requests", hint="slow down", headers=retry)
        return _length_refusal(headers, self._largest(scope["path"]))

    def _largest(self, path: str) -> int:
        limits = self._settings.limits
        return limits.upload_bytes if path == UPLOAD_PATH else limits.document_bytes


class _LimitedBody:
    """The request's body, cut off with 413 as soon as it is longer than it may be."""

    def __init__(self, receive: Receive, largest: int) -> None:
        self._receive = receive
        self._left = largest
        self._largest = largest

    async def __call__(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._left -= len(message.get("body", b""))
            if self._left < 0:
                raise too_large(self._largest)
        return message


def too_large(largest: int) -> ApiError:
    """The answer to a body beyond its limit."""
    return ApiError(413, f"the body is larger than {largest:,} bytes")


def _length_refusal(headers: Headers, largest: int) -> ApiError | None:
    stated = headers.get("content-length")
    if stated is None:
        return None
    if not stated.isdecimal():
        return ApiError(400, "Content-Length is not a number")
    return too_large(largest) if len(stated) > 15 or int(stated) > largest else None


def client_of(scope: Scope) -> str:
    """The peer's address; what proxies say of others is not believed here."""
    client = scope.get("client")
    return str(client[0]) if client else "unknown"


def host_allowed(values: Sequence[str], names: Sequence[str]) -> bool:
    """One Host header that is an IP address, localhost or an allowed name, with any port.

    No page can be loaded under an address and then rebound: that takes a name.
    """
    if len(values) != 1:
        return False
    try:
        host = urlsplit(f"//{values[0]}").hostname
    except ValueError:
        return False
    if not host:
        return False
    known = {*LOOPBACK_NAMES, *(name.casefold() for name in names)}
    return host.casefold() in known or _is_address(host)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def same_origin(headers: Headers) -> bool:
    """Whether a changing request comes from our own pages, or from no page at all."""
    site = headers.get("sec-fetch-site")
    if site is not None and site not in ("same-origin", "none"):
        return False
    origin = headers.get("origin")
    if origin is None:
        return True
    try:
        return urlsplit(origin).netloc.casefold() == headers["host"].casefold()
    except ValueError:
        return False
