"""Small HTTP requests to an engine: short timeouts, never redirected, no proxy but a named one."""

from __future__ import annotations

import http.client
import json
import select
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tuner.domain.proxy import Proxy, Route
from tuner.domain.time_limit import time_limit

MAX_BODY_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer, whatever its status."""

    status: int
    body: bytes

    def json(self) -> object:
        """The body as JSON; None when it is none."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None


class Probe:
    """Requests to one base URL; the engine may not answer, answer late or answer nonsense."""

    def __init__(
        self,
        base_url: str,
        *,
        timeout_s: float = 2.0,
        api_key: str | None = None,
        proxy: Proxy | None = None,
    ) -> None:
        """Raises StartupError where the proxy's credentials are not there."""
        self._route = Route(base_url, proxy)
        self._timeout_s = timeout_s
        bearer = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._headers = self._route.headers() | bearer

    def get(self, path: str) -> Answer | None:
        """None when nobody answers in time, or not in HTTP."""
        return self._request("GET", path, None, lambda: None)

    def post(
        self, path: str, document: Mapping[str, object], while_waiting: Callable[[], float | None]
    ) -> Answer | None:
        """Post JSON and wait as long as `while_waiting` answers with the seconds to wait next.

        It is called before each wait and may raise; None from it gives up.
        """
        return self._request("POST", path, json.dumps(document).encode(), while_waiting)

    def _request(
        self,
        method: str,
        path: str,
        body: bytes | None,
        while_waiting: Callable[[], float | None],
    ) -> Answer | None:
        connection = self._route.connection(self._timeout_s)
        try:
            headers = self._headers | ({"Content-Type": "application/json"} if body else {})
            connection.request(method, self._route.target(path), body, headers)
            if body is not None and not _await_answer(connection, while_waiting):
                return None
            with time_limit(connection.sock, self._timeout_s):
                response = connection.getresponse()
                return Answer(response.status, response.read(MAX_BODY_BYTES))
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()


def _await_answer(
    connection: http.client.HTTPConnection, while_waiting: Callable[[], float | None]
) -> bool:
    """The first completion may compile kernels: wait in small steps, with a say in each."""
    while (pause_s := while_waiting()) is not None:
        readable, _, _ = select.select([connection.sock], [], [], pause_s)
        if readable:
            return True
    return False
