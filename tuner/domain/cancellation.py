"""A request to stop, shared by everything that waits."""

from __future__ import annotations

import threading

from tuner.errors import CancelledError


class Cancellation:
    """Set once with a reason; every wait of an attempt goes through `wait`."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._reason: str | None = None

    @property
    def requested(self) -> bool:
        return self._event.is_set()

    @property
    def reason(self) -> str | None:
        return self._reason

    def request(self, reason: str) -> None:
        """Ask everything to stop; only the first reason is kept. Safe in a signal handler."""
        if self._reason is None:
            self._reason = reason
        self._event.set()

    def wait(self, duration_s: float) -> None:
        """Wait up to `duration_s` seconds; raises CancelledError as soon as a stop is asked."""
        self._event.wait(duration_s)
        self.raise_if_requested()

    def pause(self, duration_s: float) -> bool:
        """Wait up to `duration_s` seconds, or until a stop is asked; whether it was."""
        return self._event.wait(duration_s)

    def raise_if_requested(self) -> None:
        if self._event.is_set():
            raise CancelledError(self._reason or "stop requested")
