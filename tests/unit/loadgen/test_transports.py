from __future__ import annotations

import asyncio
import sys

import pytest

from tuner.domain.proxy import Proxy
from tuner.loadgen.plan import TransportKind
from tuner.loadgen.socket_transport import SocketTransport
from tuner.loadgen.transports import open_transport


async def kind_for(url: str, kind: TransportKind = "automatic") -> str:
    async with open_transport(url, kind) as transport:
        return type(transport).__name__


@pytest.mark.parametrize(
    ("platform", "url", "expected"),
    [
        ("linux", "http://127.0.0.1:8000/v1", "SocketTransport"),
        ("linux", "https://127.0.0.1:8000/v1", "AiohttpTransport"),
        ("darwin", "http://127.0.0.1:8000/v1", "AiohttpTransport"),
    ],
)
def test_the_most_exact_transport_is_taken(
    monkeypatch: pytest.MonkeyPatch, platform: str, url: str, expected: str
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    assert asyncio.run(kind_for(url)) == expected


@pytest.mark.parametrize(
    ("kind", "expected"), [("aiohttp", "AiohttpTransport"), ("socket", "SocketTransport")]
)
def test_it_can_be_chosen(kind: TransportKind, expected: str) -> None:
    assert asyncio.run(kind_for("http://127.0.0.1:8000/v1", kind)) == expected


def test_a_proxy_is_reached_over_aiohttp_only() -> None:
    proxy = Proxy("http://127.0.0.1:3128")

    async def kind() -> str:
        async with open_transport("http://127.0.0.1:8000/v1", proxy=proxy) as transport:
            return type(transport).__name__

    assert asyncio.run(kind()) == "AiohttpTransport"
    with pytest.raises(ValueError, match="a proxy needs the aiohttp transport"):
        open_transport("http://127.0.0.1:8000/v1", "socket", proxy=proxy)


@pytest.mark.parametrize("url", ["https://host/v1", "ftp://host", "http://"])
def test_sockets_refuse_what_they_cannot_serve(url: str) -> None:
    async def opened() -> None:
        with pytest.raises(ValueError, match="not a plain http URL"):
            SocketTransport(url)

    asyncio.run(opened())
