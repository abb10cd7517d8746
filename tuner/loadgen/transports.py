"""Which transport carries the requests of a plan."""

from __future__ import annotations

import sys
from contextlib import AbstractAsyncContextManager
from urllib.parse import urlsplit

from tuner.domain.proxy import Proxy
from tuner.loadgen.aiohttp_transport import AiohttpTransport
from tuner.loadgen.plan import TransportKind
from tuner.loadgen.socket_transport import SocketTransport
from tuner.loadgen.transport import Transport


def open_transport(
    url: str,
    kind: TransportKind = "automatic",
    api_key: str | None = None,
    *,
    gather: bool = False,
    proxy: Proxy | None = None,
) -> AbstractAsyncContextManager[Transport]:
    """A transport for one URL, on the running loop.

    The kernel stamps plain sockets, so they are taken for http:// on Linux; TLS, proxies and other
    systems go over aiohttp. `api_key` is sent as a bearer token. With `gather`, plain sockets are
    read a little later and together, which costs less.
    Raises ValueError when sockets are asked for and cannot serve the URL, and StartupError for a
    proxy whose credentials are not there.
    """
    if kind == "automatic":
        plain = proxy is None and urlsplit(url).scheme == "http" and sys.platform == "linux"
        kind = "socket" if plain else "aiohttp"
    if kind == "socket" and proxy is not None:
        raise ValueError("sockets go straight to the engine: a proxy needs the aiohttp transport")
    if kind == "socket":
        return SocketTransport(url, api_key, gather=gather)
    return AiohttpTransport(url, api_key, proxy)
