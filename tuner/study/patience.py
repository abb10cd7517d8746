"""Waiting for a database that is away, so that a measurement need not be thrown away."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from tuner.domain.cancellation import Cancellation
from tuner.domain.clock import Clock
from tuner.errors import DatabaseError

logger = logging.getLogger(__name__)

T = TypeVar("T")

LONGEST_S = 600.0
"""How long an operation is tried again before the study is let go; nothing is lost by that."""

STOPPING_S = 5.0
"""How long when a stop was asked for meanwhile: the state in the store allows to go on later."""

FIRST_PAUSE_S = 0.25
LONGEST_PAUSE_S = 5.0
TOLD_EVERY_S = 30.0

SERVED_S = 120.0
"""What ran longer before it failed had a database meanwhile: the wait begins anew."""


class Patience:
    """Repeats what a database refused until it serves again, is given up, or a stop is asked."""

    def __init__(
        self, clock: Clock, cancellation: Cancellation, longest_s: float = LONGEST_S
    ) -> None:
        self._clock = clock
        self._cancellation = cancellation
        self._longest_s = longest_s
        self._exhausted = False

    @property
    def exhausted(self) -> bool:
        """Whether a wait was given up: what waits around it need not wait as long again."""
        return self._exhausted

    def outlast(self, action: Callable[[bool], T]) -> T:
        """What `action` returns; it is told whether it was tried before, perhaps with success.

        Raises the last DatabaseError when there was no end to them.
        """
        failing_since: float | None = None
        pause_s, told = FIRST_PAUSE_S, 0.0
        while True:
            begun = self._clock.monotonic()
            try:
                return action(failing_since is not None)
            except DatabaseError as error:
                now = self._clock.monotonic()
                if failing_since is None or now - begun > SERVED_S:
                    failing_since, pause_s, told = now, FIRST_PAUSE_S, 0.0
                if self._exhausted or now - failing_since >= self._limit_s():
                    self._exhausted = True
                    raise
                if not told or now - told >= TOLD_EVERY_S:
                    told = now
                    logger.warning("%s; trying again, the study goes on", error.message)
            self._wait(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _limit_s(self) -> float:
        return min(self._longest_s, STOPPING_S) if self._cancellation.requested else self._longest_s

    def _wait(self, duration_s: float) -> None:
        if self._cancellation.requested:
            self._clock.sleep(min(duration_s, 1.0))
        else:
            self._cancellation.pause(duration_s)


def impatient(clock: Clock) -> Patience:
    """Gives up at once."""
    return Patience(clock, Cancellation(), longest_s=0.0)
