from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from tests.support.study_fakes import ManualClock
from tuner.errors import CancelledError, InfrastructureError
from tuner.telemetry.gpu import GpuReading
from tuner.worker.gpu_release import DEADLINE_S, GpuRelease

NAMES = ("0", "1")


class Driver:
    """Tells `levels` one after the other, the last for ever."""

    def __init__(self, *levels: float | None) -> None:
        self.levels = list(levels)
        self.reads = 0
        self.open = 0

    def __call__(self) -> Driver:
        self.open += 1
        return self

    def read(self) -> GpuReading:
        level = self.levels[min(self.reads, len(self.levels) - 1)]
        self.reads += 1
        return GpuReading(memory_gib=level)

    def close(self) -> None:
        self.open -= 1


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def release(clock: ManualClock) -> GpuRelease:
    return GpuRelease(clock)


def test_a_stop_waits_until_the_level_before_the_start_is_back(
    release: GpuRelease, clock: ManualClock
) -> None:
    release.before_start(NAMES, Driver(2.0), clock.sleep)
    driver = Driver(70.0, 40.0, 2.3)
    release.after_stop(NAMES, driver, clock.sleep)
    assert driver.reads == 3
    assert driver.open == 0
    assert clock.elapsed_s < DEADLINE_S


def test_memory_that_does_not_come_back_is_told_and_keeps_the_next_engine_off(
    release: GpuRelease, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    release.before_start(NAMES, Driver(2.0), clock.sleep)
    with caplog.at_level(logging.WARNING):
        release.after_stop(NAMES, Driver(14.5), clock.sleep)
    assert "not released" in caplog.text
    assert clock.elapsed_s == pytest.approx(DEADLINE_S)

    with pytest.raises(InfrastructureError, match=r"GPU 0, 1 still holds 12\.5 GiB more"):
        release.before_start(NAMES, Driver(14.5), clock.sleep)


def test_memory_that_comes_back_late_only_delays_the_next_engine(
    release: GpuRelease, clock: ManualClock
) -> None:
    release.before_start(NAMES, Driver(2.0), clock.sleep)
    release.before_start(NAMES, Driver(14.5, 14.5, 2.1), clock.sleep)
    assert 0 < clock.elapsed_s < DEADLINE_S


def test_what_others_use_before_the_first_engine_is_not_waited_for(
    release: GpuRelease, clock: ManualClock
) -> None:
    release.before_start(NAMES, Driver(30.0), clock.sleep)
    release.after_stop(NAMES, Driver(30.2), clock.sleep)
    assert clock.elapsed_s == 0


def test_when_others_leave_their_level_counts_from_then_on(
    release: GpuRelease, clock: ManualClock
) -> None:
    release.before_start(NAMES, Driver(30.0), clock.sleep)
    release.before_start(NAMES, Driver(2.0), clock.sleep)
    with pytest.raises(InfrastructureError):
        release.before_start(NAMES, Driver(30.0), clock.sleep)


def test_each_set_of_gpus_has_a_level_of_its_own(release: GpuRelease, clock: ManualClock) -> None:
    release.before_start(("0",), Driver(2.0), clock.sleep)
    release.before_start(("1",), Driver(30.0), clock.sleep)


@pytest.mark.parametrize("gpus", [lambda: None, Driver(None)])
def test_where_nobody_tells_nothing_is_waited_for(
    release: GpuRelease, clock: ManualClock, gpus: Callable[[], Driver | None]
) -> None:
    release.before_start(NAMES, gpus, clock.sleep)
    release.after_stop(NAMES, gpus, clock.sleep)
    assert clock.elapsed_s == 0


def test_cancelling_ends_the_wait_before_a_start_but_not_what_was_measured(
    release: GpuRelease, clock: ManualClock
) -> None:
    def cancelled(duration_s: float) -> None:
        raise CancelledError("Ctrl-C")

    release.before_start(NAMES, Driver(2.0), clock.sleep)
    release.after_stop(NAMES, Driver(14.5), cancelled)
    with pytest.raises(CancelledError):
        release.before_start(NAMES, Driver(14.5), cancelled)
