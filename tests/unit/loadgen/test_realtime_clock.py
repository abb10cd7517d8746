from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.loadgen.realtime_clock import SAMPLES, SMALLEST_STEP_S, RealtimeClock


class Clocks:
    """Two clocks; every reading takes as long as the next of `readings_ns` says."""

    def __init__(self, *, ahead_ns: int) -> None:
        self.monotonic_now_ns = 1_000_000_000
        self.ahead_ns = ahead_ns
        self.readings_ns: list[int] = []

    def _read(self) -> int:
        self.monotonic_now_ns += self.readings_ns.pop() if self.readings_ns else 100
        return self.monotonic_now_ns

    def realtime_ns(self) -> int:
        return self._read() + self.ahead_ns

    def monotonic_ns(self) -> int:
        return self._read()

    def clock(self) -> RealtimeClock:
        return RealtimeClock(self.realtime_ns, self.monotonic_ns)


@given(
    ahead_ns=st.integers(-(10**18), 2 * 10**18),
    moment_ns=st.integers(0, 10**17),
)
def test_a_stamp_is_placed_on_the_monotonic_clock(ahead_ns: int, moment_ns: int) -> None:
    clock = Clocks(ahead_ns=ahead_ns).clock()
    stamped_s = clock.monotonic_s(moment_ns + ahead_ns)
    # A float of 10^8 seconds is exact to 15 ns.
    assert stamped_s == pytest.approx(moment_ns / 1e9, abs=2e-7)


def test_a_clock_that_is_left_alone_has_no_step() -> None:
    clocks = Clocks(ahead_ns=10**18)
    clock = clocks.clock()
    clocks.monotonic_now_ns += 10**12
    clock.check()
    assert clock.largest_step_s == 0.0


@pytest.mark.parametrize("step_ns", [10**9, -(10**9), 200_000, -200_000])
def test_a_step_is_noticed_and_followed(step_ns: int) -> None:
    clocks = Clocks(ahead_ns=10**18)
    clock = clocks.clock()
    clocks.ahead_ns += step_ns
    clock.check()
    assert clock.largest_step_s == pytest.approx(abs(step_ns) / 1e9, abs=1e-6)
    moment_ns = 5_000_000_000
    assert clock.monotonic_s(moment_ns + clocks.ahead_ns) == pytest.approx(5.0, abs=1e-6)


def test_the_largest_of_several_steps_is_kept() -> None:
    clocks = Clocks(ahead_ns=0)
    clock = clocks.clock()
    for step_ns in (3_000_000, -9_000_000, 1_000_000):
        clocks.ahead_ns += step_ns
        clock.check()
    assert clock.largest_step_s == pytest.approx(9e-3, abs=1e-6)


def test_an_interruption_between_two_readings_is_no_step() -> None:
    clocks = Clocks(ahead_ns=0)
    clock = clocks.clock()
    undisturbed = [100, 100, 100]
    disturbed = [5_000_000, 5_000_000, 100]  # taken from the end
    clocks.readings_ns = [*undisturbed, *disturbed * (SAMPLES - 1)]
    clock.check()
    assert clock.largest_step_s < SMALLEST_STEP_S
