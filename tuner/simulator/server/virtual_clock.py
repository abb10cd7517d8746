"""Engine time on the wall clock."""

from __future__ import annotations

import time
from collections.abc import Callable


class VirtualClock:
    """`time_scale` engine seconds pass per wall second, counted from one anchor.

    Every deadline is computed from that anchor, so lateness of one step never shifts the next.
    """

    def __init__(self, time_scale: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.time_scale = time_scale
        self._monotonic = monotonic
        self._anchor_s = monotonic()

    def now_s(self) -> float:
        """Engine seconds since the anchor."""
        return (self._monotonic() - self._anchor_s) * self.time_scale

    def wall_deadline_s(self, engine_s: float) -> float:
        """The monotonic wall time at which the engine's clock shows `engine_s`."""
        return self._anchor_s + engine_s / self.time_scale
