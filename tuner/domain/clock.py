"""Time as a dependency."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Wall time for records, monotonic time for durations, and waiting."""

    def now(self) -> datetime:
        """Current UTC time, timezone-aware."""

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back."""

    def sleep(self, duration_s: float) -> None:
        """Wait at least `duration_s` seconds."""


class SystemClock:
    """The machine's clocks."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, duration_s: float) -> None:
        time.sleep(duration_s)
