"""Imported by a load generator that starts with this folder on its path: what is wrong with it."""

from __future__ import annotations

import os
import threading
import time

BURNING_THREADS = 4
CLOCK_STEP_NS = 20_000_000
CLOCK_SET_AFTER_NS = 3_000_000_000


def burn() -> None:
    """Keep the interpreter busy: every step of the generator has to wait for its turn."""
    number = 0
    while True:
        number += 1


def set_the_clock() -> None:
    """Let the wall clock jump, for this process only, as when somebody sets the host's time."""
    real_ns, begun_ns = time.time_ns, time.monotonic_ns()

    def stepped_ns() -> int:
        late = time.monotonic_ns() - begun_ns > CLOCK_SET_AFTER_NS
        return real_ns() + (CLOCK_STEP_NS if late else 0)

    time.time_ns = stepped_ns


fault = os.environ.get("PLANTED_FAULT")
if fault == "bottleneck":
    for _ in range(BURNING_THREADS):
        threading.Thread(target=burn, daemon=True).start()
elif fault == "clock":
    set_the_clock()
