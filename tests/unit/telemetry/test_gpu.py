from __future__ import annotations

import sys
import threading

import pytest

from tests.support.fake_nvml import FakeDriver
from tuner.domain.clock import SystemClock
from tuner.telemetry.exposition import EngineMetric
from tuner.telemetry.gpu import NVML_MODULE, GpuSampler, nvml_gpus

PATIENCE_S = 60.0


def install(monkeypatch: pytest.MonkeyPatch, driver: FakeDriver) -> None:
    monkeypatch.setitem(sys.modules, NVML_MODULE, driver.module())


def test_utilisation_is_the_mean_share_over_the_engines_gpus(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install(monkeypatch, FakeDriver({0: 90, 1: 30, 2: 0}))
    gpus = nvml_gpus(("0", "1"))
    assert gpus is not None
    assert gpus.utilization() == pytest.approx(0.6)


def test_a_gpu_can_be_named_by_its_uuid(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, FakeDriver(by_uuid={"GPU-8f2a": 75}))
    gpus = nvml_gpus(("GPU-8f2a",))
    assert gpus is not None
    assert gpus.utilization() == pytest.approx(0.75)


def test_one_gpu_that_does_not_tell_makes_the_whole_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install(monkeypatch, FakeDriver({0: 90, 1: None}))
    gpus = nvml_gpus(("0", "1"))
    assert gpus is not None
    assert gpus.utilization() is None


def test_without_the_module_there_are_no_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, NVML_MODULE, None)
    assert nvml_gpus(("0",)) is None


def test_without_a_driver_there_are_no_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, FakeDriver({0: 50}, driver=False))
    assert nvml_gpus(("0",)) is None


def test_an_unknown_gpu_leaves_nvml_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = FakeDriver({0: 50})
    install(monkeypatch, driver)
    assert nvml_gpus(("0", "7")) is None
    assert driver.open == 0


def test_no_gpu_at_all_has_no_utilisation(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, FakeDriver({0: 50}))
    gpus = nvml_gpus(())
    assert gpus is not None
    assert gpus.utilization() is None


class CountingGpus:
    """Tells `values` one after the other, the last for ever; lets a test wait for a reading."""

    def __init__(self, *values: float | None) -> None:
        self.values = list(values)
        self.reads = 0
        self.closed = 0
        self.changed = threading.Condition()

    def utilization(self) -> float | None:
        with self.changed:
            value = self.values[min(self.reads, len(self.values) - 1)]
            self.reads += 1
            self.changed.notify_all()
        return value

    def close(self) -> None:
        self.closed += 1

    def read(self, times: int) -> bool:
        with self.changed:
            return self.changed.wait_for(lambda: self.reads >= times, PATIENCE_S)


def test_a_sampler_reads_until_it_is_left_and_closes_the_gpus() -> None:
    gpus = CountingGpus(0.5, 0.7)
    with GpuSampler(gpus, SystemClock(), period_s=0.001) as sampler:
        assert gpus.read(3)
    values = [s.values[EngineMetric.GPU_UTILIZATION] for s in sampler.series().scrapes]
    assert values[:2] == [0.5, 0.7]
    assert len(values) == gpus.reads
    assert gpus.closed == 1


def test_what_was_not_told_is_not_in_the_series() -> None:
    gpus = CountingGpus(None, 0.7)
    with GpuSampler(gpus, SystemClock(), period_s=0.001) as sampler:
        assert gpus.read(3)
    series = sampler.series()
    assert len(series.scrapes) == gpus.reads - 1
    assert series.peak(EngineMetric.GPU_UTILIZATION, 0.0, 1e12) == 0.7


def test_a_sampler_without_gpus_is_empty() -> None:
    with GpuSampler(None, SystemClock()) as sampler:
        pass
    assert sampler.series().scrapes == ()


def test_a_period_that_is_not_positive_is_refused() -> None:
    with pytest.raises(ValueError, match="positive"):
        GpuSampler(None, SystemClock(), period_s=0.0)
