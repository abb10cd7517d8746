"""A ServeTune service over HTTP, by the standard library: requests, problems, event streams."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, quote, urlencode, urlsplit

from tuner.errors import (
    AccessDeniedError,
    Fault,
    InvalidInputError,
    InvalidStudyError,
    ServerUnreachableError,
    ServeTuneError,
    StudyChangedError,
    UnknownStudyError,
)

TIMEOUT_S = 60.0
API = "/api/v1"
LONGEST_SAID = 200
_PLAIN_FAILURES = (OSError, http.client.HTTPException)


@dataclass(frozen=True, slots=True)
class Address:
    """A service's address, checked; `prefix` is what stands before /api/v1."""

    secure: bool
    host: str
    port: int | None
    prefix: str

    @classmethod
    def parse(cls, url: str) -> Address:
        """Read http(s)://HOST[:PORT][/PREFIX]; InvalidInputError for anything else."""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise _bad_url(url) from None
        if parts.scheme not in ("http", "https") or not parts.hostname or _has_more(parts):
            raise _bad_url(url)
        if any(not "!" <= letter <= "~" for letter in url):  # a space, a control, beyond ASCII
            raise _bad_url(url)
        return cls(parts.scheme == "https", parts.hostname, port, parts.path.rstrip("/"))


def _has_more(parts: SplitResult) -> bool:
    return bool(parts.username or parts.password or parts.query or parts.fragment)


def _bad_url(url: str) -> InvalidInputError:
    shown = url.rpartition("@")[2]  # what stands before may be a secret
    return InvalidInputError(
        f"{shown!r} is not the address of a service", hint="http://HOST:PORT or https://HOST"
    )


@dataclass(frozen=True, slots=True)
class Answer:
    """A successful answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """The body's document; ServeTuneError when it is none."""
        try:
            return json.loads(self.body)
        except ValueError as error:
            raise ServeTuneError("the server's answer is not JSON: is it ServeTune?") from error


class ServiceClient:
    """Requests to one service. The key is sent in a header and never shown."""

    def __init__(self, url: str, key: str | None) -> None:
        self._url = url
        self._address = Address.parse(url)
        self._key = key

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str | int] | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """One request; every answer from 400 on is raised as the error it tells of."""
        target = self._target(path, query)
        with self._connected() as connection:
            connection.request(method, target, body, {**self._headers(), **(headers or {})})
            response = connection.getresponse()
            answer = _whole(response)
        if answer.status >= 300:
            raise error_of(answer)
        return answer

    @contextmanager
    def stream(self, path: str, headers: Mapping[str, str]) -> Iterator[Iterator[bytes]]:
        """The lines of an endless answer."""
        with self._connected() as connection:
            connection.request(
                "GET", self._target(path, None), None, {**self._headers(), **headers}
            )
            response = connection.getresponse()
            if response.status != 200:
                raise error_of(_whole(response))
            yield iter(response.readline, b"")

    def _target(self, path: str, query: Mapping[str, str | int] | None) -> str:
        text = f"{self._address.prefix}{API}{path}"
        return f"{text}?{urlencode(query)}" if query else text

    def _headers(self) -> dict[str, str]:
        return {} if self._key is None else {"Authorization": f"Bearer {self._key}"}

    @contextmanager
    def _connected(self) -> Iterator[http.client.HTTPConnection]:
        address = self._address
        connection: http.client.HTTPConnection
        if address.secure:
            context = ssl.create_default_context()
            connection = http.client.HTTPSConnection(
                address.host, address.port, timeout=TIMEOUT_S, context=context
            )
        else:
            connection = http.client.HTTPConnection(address.host, address.port, timeout=TIMEOUT_S)
        try:
            yield connection
        except _PLAIN_FAILURES as error:
            raise ServerUnreachableError(
                f"the server cannot be reached: {_said(error)}",
                where=self._url,
                hint="is `servetune serve` running there?",
            ) from error
        finally:
            connection.close()


def _whole(response: http.client.HTTPResponse) -> Answer:
    return Answer(response.status, dict(response.getheaders()), response.read())


def segment(text: str) -> str:
    """A text as one part of a path."""
    return quote(text, safe="@")


def error_of(answer: Answer) -> ServeTuneError:
    """The error that a problem document tells of."""
    try:
        problem = json.loads(answer.body)
        detail, hint = str(problem["detail"]), problem.get("hint")
        faults = tuple(Fault(e["path"], e["message"], e.get("hint")) for e in problem["errors"])
    except (ValueError, KeyError, TypeError):
        text = f"the server answered {answer.status} without saying why: is it ServeTune?"
        return ServeTuneError(text)
    if answer.status in (401, 403):
        return AccessDeniedError(detail, hint=hint or "set SERVETUNE_API_KEY")
    if answer.status == 404:
        return UnknownStudyError(detail, hint=hint)
    if answer.status == 409:
        return StudyChangedError(detail, hint=hint)
    if answer.status == 422 and faults:
        return InvalidStudyError(faults)
    return (InvalidInputError if answer.status < 500 else ServeTuneError)(detail, hint=hint)


def _said(error: Exception) -> str:
    """What the error says; it may quote what came, which need not be text for a terminal."""
    text = str(getattr(error, "strerror", None) or error)[:LONGEST_SAID]
    return "".join(letter if letter.isprintable() else "?" for letter in text)
