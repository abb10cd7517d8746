from __future__ import annotations

import base64
import http.client

import pytest

from tuner.domain.proxy import Proxy, Route
from tuner.errors import StartupError

NAMED = Proxy("http://gate:3128", "GATE")
SECRET = {"GATE": "ann:b:c"}


def test_credentials_are_read_from_the_variable_that_is_named() -> None:
    assert NAMED.credentials(SECRET) == ("ann", "b:c")
    words = base64.b64encode(b"ann:b:c").decode()
    assert NAMED.headers(SECRET) == {"Proxy-Authorization": f"Basic {words}"}
    assert Proxy("http://gate:3128").credentials({}) is None
    assert Proxy("http://gate:3128").headers(SECRET) == {}


@pytest.mark.parametrize(
    "environ",
    [{}, {"GATE": ""}, {"GATE": "ann"}, {"GATE": ":word"}, {"GATE": "ann:not-utf-8-\udcff"}],
)
def test_a_variable_without_them_is_named_and_not_shown(environ: dict[str, str]) -> None:
    with pytest.raises(StartupError, match="GATE does not hold USER:PASSWORD") as caught:
        NAMED.credentials(environ)
    assert "ann" not in str(caught.value)
    assert caught.value.where == "http://gate:3128"


def test_a_proxy_is_shown_without_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATE", "ann:word")
    assert NAMED.credentials() == ("ann", "word")
    assert "word" not in repr(NAMED)


def test_without_a_proxy_an_endpoint_is_asked_by_path() -> None:
    route = Route("http://engine:8000")
    connection = route.connection(2.0)
    assert (connection.host, connection.port, connection.timeout) == ("engine", 8000, 2.0)
    assert (route.target("/health"), route.headers()) == ("/health", {})
    assert not isinstance(connection, http.client.HTTPSConnection)


def test_a_plain_endpoint_is_asked_of_the_proxy_by_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GATE", "ann:word")
    route = Route("http://engine:8000", NAMED)
    connection = route.connection(2.0)
    assert (connection.host, connection.port) == ("gate", 3128)
    assert route.target("/health") == "http://engine:8000/health"
    assert route.headers() == NAMED.headers()


def test_an_endpoint_with_tls_is_tunnelled_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATE", "ann:word")
    route = Route("https://engine", NAMED)
    connection = route.connection(2.0)
    assert isinstance(connection, http.client.HTTPSConnection)
    assert (connection.host, connection.port) == ("gate", 3128)
    assert route.target("/health") == "/health"
    assert route.headers() == {}, "they are the tunnel's, and not told to the endpoint"


@pytest.mark.parametrize("url", ["ftp://engine", "engine:8000", "http://"])
def test_what_is_no_endpoint_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"not an http\(s\) URL"):
        Route(url)
