from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from benchmarks.virtual_time.executor import VirtualLoad
from benchmarks.virtual_time.virtual_engine import VirtualEngine
from objectives.measurement import EngineFacts, Measurement
from tests.support.fake_nvml import FakeDriver
from tests.support.study_fakes import ManualClock, attempt_request
from tuner.domain.cancellation import Cancellation
from tuner.domain.study_spec import SimulatedEngineSpec, VllmEngineSpec
from tuner.study.attempt import LoadHooks
from tuner.study.calibration import given_rate
from tuner.study.engine_launch import launch_request
from tuner.telemetry.gpu import NVML_MODULE, GpuReading
from tuner.telemetry.series import MetricSeries
from tuner.worker.equipment import gpus_of

HOOKS = LoadHooks(Cancellation(), lambda: True, lambda status: None)


@dataclass
class SteadyGpus:
    """GPUs that are as busy all the time."""

    share: float
    closed: bool = False

    def read(self) -> GpuReading:
        return GpuReading(utilization=self.share)

    def close(self) -> None:
        self.closed = True


def measured(directory: Path, gpus: SteadyGpus | None, at_s: float) -> Measurement:
    """A measurement in virtual time during which the GPUs are read at one moment of it."""
    engine = SimulatedEngineSpec(kind="simulated", gpu="L4")
    request = attempt_request(directory, engine=engine)
    clock = ManualClock()
    clock.sleep(at_s)
    load = VirtualLoad(clock, gpus_of=lambda request: gpus)
    return load.measure(
        request,
        VirtualEngine(launch_request(request, 8000), 1.0),
        EngineFacts(),
        given_rate(0.5, 8),
        HOOKS,
    )


def test_readings_within_a_window_are_that_segments_utilisation(tmp_path: Path) -> None:
    gpus = SteadyGpus(0.8)
    warmup_s = attempt_request(tmp_path).workload.warmup_s
    found = measured(tmp_path, gpus, at_s=warmup_s + 5.0)
    assert found.latency.gpu_utilization == pytest.approx(0.8)
    assert found.capacity.gpu_utilization is None
    assert gpus.closed
    saved = MetricSeries.load(tmp_path / "attempt-1" / "measurement" / "metrics.json")
    assert any("gpu_utilization" in {m.value for m in s.values} for s in saved.scrapes)


def test_without_a_way_to_tell_utilisation_is_unknown(tmp_path: Path) -> None:
    found = measured(tmp_path, None, at_s=15.0)
    assert found.latency.gpu_utilization is None
    assert found.capacity.gpu_utilization is None


def test_only_a_real_engines_gpus_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = FakeDriver({0: 10, 3: 70})
    monkeypatch.setitem(sys.modules, NVML_MODULE, driver.module())
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    simulated = attempt_request(tmp_path)
    assert gpus_of(simulated) is None
    env = (("CUDA_VISIBLE_DEVICES", "3"),)
    real = replace(
        simulated,
        engine=VllmEngineSpec(kind="vllm"),
        command=replace(simulated.command, env=env),
    )
    gpus = gpus_of(real)
    assert gpus is not None
    assert gpus.read().utilization == pytest.approx(0.7)
    gpus.close()
    assert driver.open == 0
