"""Clock and cancellation: what every wait in the system goes through."""

from __future__ import annotations

import threading
from datetime import UTC

import pytest

from tuner.domain.cancellation import Cancellation
from tuner.domain.clock import SystemClock
from tuner.errors import CancelledError


def test_nothing_is_asked_at_first() -> None:
    cancellation = Cancellation()
    assert not cancellation.requested
    assert cancellation.reason is None
    cancellation.raise_if_requested()
    cancellation.wait(0.0)


def test_a_request_stops_every_later_wait_with_its_reason() -> None:
    cancellation = Cancellation()
    cancellation.request("the user asked")
    assert cancellation.requested
    with pytest.raises(CancelledError, match="the user asked"):
        cancellation.wait(3600.0)
    with pytest.raises(CancelledError, match="the user asked"):
        cancellation.raise_if_requested()


def test_only_the_first_reason_is_kept() -> None:
    cancellation = Cancellation()
    cancellation.request("first")
    cancellation.request("second")
    assert cancellation.reason == "first"


def test_a_request_wakes_a_wait_in_another_thread() -> None:
    cancellation = Cancellation()
    outcome: list[str] = []

    def wait() -> None:
        try:
            cancellation.wait(60.0)
        except CancelledError as error:
            outcome.append(error.message)

    waiter = threading.Thread(target=wait)
    waiter.start()
    cancellation.request("stop")
    waiter.join(60.0)
    assert outcome == ["stop"]


def test_wall_time_is_in_utc_and_monotonic_time_never_goes_back() -> None:
    clock = SystemClock()
    assert clock.now().tzinfo is UTC
    first = clock.monotonic()
    clock.sleep(0.0)
    assert clock.monotonic() >= first
