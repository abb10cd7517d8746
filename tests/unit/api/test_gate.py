from __future__ import annotations

import pytest
from starlette.datastructures import Headers

from api.security.gate import host_allowed, same_origin
from api.security.rate_limit import MOST_CALLERS, RateLimit
from api.settings import is_loopback, require_safe_bind
from tuner.errors import InvalidInputError


@pytest.mark.parametrize(
    "host",
    ["localhost", "localhost:8000", "127.0.0.1:8000", "[::1]:8000", "10.1.2.3", "tuner.example"],
)
def test_addresses_localhost_and_allowed_names_are_answered(host: str) -> None:
    assert host_allowed([host], ["Tuner.Example"])


@pytest.mark.parametrize(
    "hosts",
    [
        [],
        [""],
        ["evil.example"],
        ["127.0.0.1.evil.example"],
        ["localhost.evil.example:8000"],
        ["evil.example@"],
        ["[::1"],
        ["127.0.0.1", "evil.example"],
        ["localhost", "localhost"],
    ],
)
def test_a_rebound_name_is_not_answered(hosts: list[str]) -> None:
    assert not host_allowed(hosts, ["tuner.example"])


@pytest.mark.parametrize(
    ("headers", "own"),
    [
        ({}, True),
        ({"origin": "http://127.0.0.1:8000"}, True),
        ({"origin": "https://127.0.0.1:8000"}, True),
        ({"origin": "http://127.0.0.1:9000"}, False),
        ({"origin": "http://evil.example"}, False),
        ({"origin": "null"}, False),
        ({"origin": "http://[::1"}, False),
        ({"sec-fetch-site": "cross-site"}, False),
        ({"sec-fetch-site": "same-site"}, False),
        ({"sec-fetch-site": "same-origin"}, True),
        ({"sec-fetch-site": "none"}, True),
    ],
)
def test_only_our_own_pages_change_anything(headers: dict[str, str], own: bool) -> None:
    assert same_origin(Headers({"host": "127.0.0.1:8000", **headers})) is own


class Hand:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_a_burst_is_let_through_and_then_the_rate() -> None:
    clock = Hand()
    rate = RateLimit(60, clock)
    assert [rate.wait_s("a") for _ in range(60)] == [0.0] * 60
    assert rate.wait_s("a") == pytest.approx(1.0)
    clock.now_s = 1.0
    assert rate.wait_s("a") == 0.0
    assert rate.wait_s("a") > 0


def test_callers_do_not_share_a_bucket() -> None:
    rate = RateLimit(1, Hand())
    assert (rate.wait_s("a"), rate.wait_s("b")) == (0.0, 0.0)
    assert rate.wait_s("a") > 0


def test_refused_requests_do_not_make_the_wait_longer() -> None:
    rate = RateLimit(1, Hand())
    rate.wait_s("a")
    assert rate.wait_s("a") == rate.wait_s("a")


def test_the_callers_that_are_remembered_are_bounded() -> None:
    rate = RateLimit(1, Hand())
    for number in range(MOST_CALLERS + 1):
        rate.wait_s(str(number))
    assert rate.wait_s("0") == 0.0
    assert rate.wait_s(str(MOST_CALLERS)) > 0


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("[::1]", True),
        ("localhost", True),
        ("0.0.0.0", False),  # noqa: S104  # what is tested is that it is told apart
        ("::", False),
        ("10.0.0.1", False),
        ("tuner.example", False),
        ("", False),
    ],
)
def test_loopback_addresses_are_told_apart(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


def test_an_open_service_is_for_this_machine_only() -> None:
    require_safe_bind("127.0.0.1", authentication=False)
    require_safe_bind("10.0.0.1", authentication=True)
    with pytest.raises(InvalidInputError, match="cannot be switched off"):
        require_safe_bind("10.0.0.1", authentication=False)
