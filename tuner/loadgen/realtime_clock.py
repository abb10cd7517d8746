"""The kernel's stamps, which are wall-clock time, on the monotonic clock of the records."""

from __future__ import annotations

import time
from collections.abc import Callable

SAMPLES = 5
SMALLEST_STEP_S = 50e-6
"""Reading two clocks one after the other is exact to about a microsecond; when the process is
interrupted in between, in every sample, to somewhat more."""

ClockNs = Callable[[], int]


class RealtimeClock:
    """Converts wall-clock nanoseconds, and notices when the wall clock is set.

    Slewing (NTP) moves both clocks alike. A step (somebody set the time) moves only the wall
    clock: stamps between it and the next `check` are off by it.
    """

    def __init__(
        self, realtime_ns: ClockNs = time.time_ns, monotonic_ns: ClockNs = time.monotonic_ns
    ) -> None:
        self._realtime_ns = realtime_ns
        self._monotonic_ns = monotonic_ns
        self.offset_ns = self._sample()
        self.largest_step_s = 0.0

    def monotonic_s(self, realtime_ns: int) -> float:
        """The monotonic clock's reading, in seconds, when the wall clock read this."""
        return (realtime_ns - self.offset_ns) / 1e9

    def check(self) -> None:
        """Go by the wall clock as it is now, and keep in mind how far it was set, if it was."""
        offset_ns = self._sample()
        step_s = abs(offset_ns - self.offset_ns) / 1e9
        if step_s >= SMALLEST_STEP_S:
            self.offset_ns = offset_ns
            self.largest_step_s = max(self.largest_step_s, step_s)

    def _sample(self) -> int:
        """Wall clock minus monotonic clock, from the least disturbed of a few readings."""
        best_width_ns, best_ns = None, 0
        for _ in range(SAMPLES):
            before_ns = self._monotonic_ns()
            wall_ns = self._realtime_ns()
            width_ns = self._monotonic_ns() - before_ns
            if best_width_ns is None or width_ns < best_width_ns:
                best_width_ns, best_ns = width_ns, wall_ns - before_ns - width_ns // 2
        return best_ns
