"""How busy the GPUs are while a load runs, by NVML, where there is one."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Protocol, Self

from tuner.domain.clock import Clock
from tuner.telemetry.exposition import EngineMetric
from tuner.telemetry.series import MetricSeries, Scrape

NVML_MODULE = "pynvml"
"""Of the package `nvidia-ml-py`, which the extra `gpu` installs."""

PERIOD_S = 0.5
"""Wall seconds between two readings; the driver averages over 1/6 to 1 second by itself."""


class Gpus(Protocol):
    """The GPUs of one engine."""

    def utilization(self) -> float | None:
        """Share of time in which a kernel ran, 0 to 1, averaged over them; None if not told."""

    def close(self) -> None: ...


class NvmlGpus:
    """GPUs by NVML. Not for several threads at once."""

    def __init__(self, nvml: Any, handles: Sequence[object]) -> None:
        self._nvml = nvml
        self._handles = tuple(handles)

    def utilization(self) -> float | None:
        """See `Gpus`: None when any of them does not tell (a MIG slice never does)."""
        try:
            rates = [self._nvml.nvmlDeviceGetUtilizationRates(handle) for handle in self._handles]
        except self._nvml.NVMLError:
            return None
        return sum(float(rate.gpu) for rate in rates) / (100 * len(rates)) if rates else None

    def close(self) -> None:
        self._nvml.nvmlShutdown()


def nvml_gpus(ids: Sequence[str]) -> Gpus | None:
    """The GPUs with these indices or UUIDs; None without NVML, a driver or one of the GPUs.

    Indices are NVML's, in the order of the PCI bus. CUDA's are the same on a host with GPUs of one
    kind, and everywhere under CUDA_DEVICE_ORDER=PCI_BUS_ID.
    """
    try:
        nvml: Any = importlib.import_module(NVML_MODULE)
    except ImportError:
        return None
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return None
    try:
        return NvmlGpus(nvml, [_handle(nvml, name) for name in ids])
    except nvml.NVMLError:
        nvml.nvmlShutdown()
        return None


def _handle(nvml: Any, name: str) -> object:
    if name.isdecimal():
        return nvml.nvmlDeviceGetHandleByIndex(int(name))
    return nvml.nvmlDeviceGetHandleByUUID(name)


class GpuSampler:
    """Reads utilisation in a thread of its own between `__enter__` and `__exit__`, and closes it.

    Without GPUs it does nothing, and its series is empty.
    """

    def __init__(self, gpus: Gpus | None, clock: Clock, period_s: float = PERIOD_S) -> None:
        if period_s <= 0:
            raise ValueError("the period must be positive")
        self._gpus = gpus
        self._clock = clock
        self._period_s = period_s
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._scrapes: list[Scrape] = []
        self._thread = threading.Thread(target=self._run, name="gpu-sampler", daemon=True)

    def __enter__(self) -> Self:
        if self._gpus is not None:
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        if self._gpus is not None:
            self._thread.join()
            self._gpus.close()

    def series(self) -> MetricSeries:
        """Every reading so far; what was not told is not in it."""
        with self._lock:
            return MetricSeries(tuple(self._scrapes))

    def _run(self) -> None:
        while True:
            self._read()
            if self._stop.wait(self._period_s):
                return

    def _read(self) -> None:
        share = self._gpus.utilization() if self._gpus is not None else None
        if share is None:
            return
        at_s, unix_s = self._clock.monotonic(), self._clock.now().timestamp()
        with self._lock:
            self._scrapes.append(Scrape(at_s, unix_s, {EngineMetric.GPU_UTILIZATION: share}))
