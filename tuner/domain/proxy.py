"""An HTTP proxy between here and an endpoint: named by the operator, never taken from the
environment."""

from __future__ import annotations

import base64
import http.client
import os
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from tuner.errors import StartupError

DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Proxy:
    """A forward proxy at `http://HOST:PORT`.

    `credentials_env` names the environment variable of this process that holds USER:PASSWORD; the
    words themselves are nowhere in documents, plans or logs.
    """

    url: str
    credentials_env: str | None = None

    def credentials(self, environ: Mapping[str, str] | None = None) -> tuple[str, str] | None:
        """User and password; None where the proxy wants none.

        Raises StartupError where the variable does not hold them.
        """
        if self.credentials_env is None:
            return None
        value = (os.environ if environ is None else environ).get(self.credentials_env)
        user, colon, password = (value or "").partition(":")
        if not (user and colon and _is_text(user + password)):
            raise StartupError(
                f"the environment variable {self.credentials_env} does not hold USER:PASSWORD",
                hint="engine.launcher.proxy.credentials_env names it",
                where=self.url,
            )
        return user, password

    def headers(self, environ: Mapping[str, str] | None = None) -> dict[str, str]:
        """What the proxy is told of who asks."""
        known = self.credentials(environ)
        if known is None:
            return {}
        words = base64.b64encode(":".join(known).encode()).decode("ascii")
        return {"Proxy-Authorization": f"Basic {words}"}


def _is_text(value: str) -> bool:
    """False where the environment held bytes that are not UTF-8."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


class Route:
    """How a base URL is reached: with TLS or without, straight or through a proxy.

    A plain endpoint is asked of the proxy by its whole address, one with TLS through a tunnel, of
    which the proxy sees the name only.
    """

    def __init__(self, base_url: str, proxy: Proxy | None = None) -> None:
        """Raises ValueError for what is no http(s) URL."""
        parts = urlsplit(base_url)
        if parts.scheme not in DEFAULT_PORTS or parts.hostname is None:
            raise ValueError(f"not an http(s) URL: {base_url}")
        self._secure = parts.scheme == "https"
        self._host = parts.hostname
        self._port = parts.port or DEFAULT_PORTS[parts.scheme]
        self._proxy = proxy
        self._asked = f"{parts.scheme}://{parts.netloc}" if proxy and not self._secure else ""

    def connection(self, timeout_s: float) -> http.client.HTTPConnection:
        """A connection that is opened with its first request."""
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        if self._proxy is None:
            return kind(self._host, self._port, timeout=timeout_s)
        proxy = urlsplit(self._proxy.url)
        connection = kind(proxy.hostname or "", proxy.port, timeout=timeout_s)
        if self._secure:
            connection.set_tunnel(self._host, self._port, self._proxy.headers())
        return connection

    def target(self, path: str) -> str:
        """What stands in the request line."""
        return self._asked + path

    def headers(self) -> dict[str, str]:
        """What every request carries on this way; StartupError as `Proxy.credentials`."""
        return self._proxy.headers() if self._proxy is not None and not self._secure else {}
