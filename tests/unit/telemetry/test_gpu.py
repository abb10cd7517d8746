from __future__ import annotations

import sys
import threading

import pytest

from tests.support.fake_nvml import FakeDriver
from tuner.domain.clock import SystemClock
from tuner.telemetry.exposition import EngineMetric
from tuner.telemetry.gpu import (
    NVML_MODULE,
    GpuReading,
    GpuSampler,
    gpu_uuids,
    host_memory_gib,
    nvml_gpus,
)

PATIENCE_S = 60.0


def install(monkeypatch: pytest.MonkeyPatch, driver: FakeDriver) -> None:
    monkeypatch.setitem(sys.modules, NVML_MODULE, driver.module())


def test_utilisation_is_the_mean_share_over_the_engines_gpus(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install(monkeypatch, FakeDriver({0: 90, 1: 30, 2: 0}))
    gpus = nvml_gpus(("0", "1"))
    assert gpus is not None
    assert gpus.read().utilization == pytest.approx(0.6)


def test_a_gpu_can_be_named_by_its_uuid(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, FakeDriver(by_uuid={"GPU-8f2a": 75}))
    gpus = nvml_gpus(("GPU-8f2a",))
    assert gpus is not None
    assert gpus.read().utilization == pytest.approx(0.75)


def test_one_gpu_that_does_not_tell_makes_the_whole_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install(monkeypatch, FakeDriver({0: 90, 1: None}))
    gpus = nvml_gpus(("0", "1"))
    assert gpus is not None
    assert gpus.read().utilization is None


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
    assert gpus.read().utilization is None


class CountingGpus:
    """Tells `values` one after the other, the last for ever; lets a test wait for a reading."""

    def __init__(self, *values: float | None) -> None:
        self.values = list(values)
        self.reads = 0
        self.closed = 0
        self.changed = threading.Condition()

    def read(self) -> GpuReading:
        with self.changed:
            value = self.values[min(self.reads, len(self.values) - 1)]
            self.reads += 1
            self.changed.notify_all()
        return GpuReading(utilization=value)

    def close(self) -> None:
        self.closed += 1

    def was_read(self, times: int) -> bool:
        with self.changed:
            return self.changed.wait_for(lambda: self.reads >= times, PATIENCE_S)


def test_a_sampler_reads_until_it_is_left_and_closes_the_gpus() -> None:
    gpus = CountingGpus(0.5, 0.7)
    with GpuSampler(gpus, SystemClock(), period_s=0.001) as sampler:
        assert gpus.was_read(3)
    values = [s.values[EngineMetric.GPU_UTILIZATION] for s in sampler.series().scrapes]
    assert values[:2] == [0.5, 0.7]
    assert len(values) == gpus.reads
    assert gpus.closed == 1


def test_what_was_not_told_is_not_in_the_series() -> None:
    gpus = CountingGpus(None, 0.7)
    with GpuSampler(gpus, SystemClock(), period_s=0.001) as sampler:
        assert gpus.was_read(3)
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


def test_memory_and_power_are_those_of_all_gpus_together(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = FakeDriver(
        {0: 90, 1: 30}, used_gib={0: 70.0, 1: 71.5}, power_mw={0: 400_000, 1: 350_500}
    )
    install(monkeypatch, driver)
    gpus = nvml_gpus(("0", "1"))
    assert gpus is not None
    assert gpus.read() == GpuReading(0.6, 141.5, 750.5)


def test_a_slice_tells_its_memory_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "MIG-5f2c"
    install(monkeypatch, FakeDriver(by_uuid={name: None}, used_gib={name: 9.5}))
    gpus = nvml_gpus((name,))
    assert gpus is not None
    assert gpus.read() == GpuReading(None, 9.5, None)


def test_a_gpu_without_memory_of_its_own_is_accounted_in_the_hosts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install(monkeypatch, FakeDriver({0: 50}, used_gib={0: None}))
    monkeypatch.setattr("tuner.telemetry.gpu.host_memory_gib", lambda: 30.0)
    gpus = nvml_gpus(("0",))
    assert gpus is not None
    assert gpus.read().memory_gib == 30.0


def test_a_lost_gpu_tells_no_memory_and_is_not_taken_for_a_unified_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install(monkeypatch, FakeDriver({0: 50}))
    gpus = nvml_gpus(("0",))
    assert gpus is not None
    assert gpus.read().memory_gib is None


def test_the_page_cache_counts_as_free_memory_of_the_host() -> None:
    text = (
        "MemTotal:       125829120 kB\n"
        "MemFree:          1048576 kB\n"
        "MemAvailable:   104857600 kB\n"
        "Cached:         103809024 kB\n"
    )
    assert host_memory_gib(text) == pytest.approx(20.0)
    assert host_memory_gib("MemTotal: 1 kB\n") is None


def test_an_index_and_a_uuid_of_one_gpu_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = FakeDriver({0: 1, 1: 1}, {"GPU-a": 1}, uuids={0: "GPU-a", "GPU-a": "GPU-a"})
    install(monkeypatch, driver)
    assert gpu_uuids(("0", "GPU-a", "1", "9")) == ("GPU-a", "GPU-a", "1", "9")
    assert driver.open == 0


def test_without_a_driver_names_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, FakeDriver(driver=False))
    assert gpu_uuids(("0", "GPU-a")) == ("0", "GPU-a")


def test_a_sampler_keeps_whatever_is_told() -> None:
    class Partial:
        def read(self) -> GpuReading:
            return GpuReading(None, 70.0, 300.0)

        def close(self) -> None:
            done.set()

    done = threading.Event()
    with GpuSampler(Partial(), SystemClock(), period_s=60.0) as sampler:
        pass
    (scrape,) = sampler.series().scrapes
    assert scrape.values == {EngineMetric.GPU_MEMORY_GIB: 70.0, EngineMetric.GPU_POWER_W: 300.0}
    assert done.is_set()
