"""What the GPUs do while a load runs, by NVML, where there is one."""

from __future__ import annotations

import importlib
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from tuner.domain.clock import Clock
from tuner.telemetry.exposition import EngineMetric
from tuner.telemetry.series import MetricSeries, Scrape

NVML_MODULE = "pynvml"
"""Of the package `nvidia-ml-py`, which the extra `gpu` installs."""

GIB = 1024**3
_MEMINFO = Path("/proc/meminfo")

PERIOD_S = 0.5
"""Wall seconds between two readings; the driver averages over 1/6 to 1 second by itself."""


@dataclass(frozen=True, slots=True)
class GpuReading:
    """All GPUs of an engine at one moment; None is what one of them does not tell."""

    utilization: float | None = None
    """Share of time in which a kernel ran, 0 to 1, averaged over them."""

    memory_gib: float | None = None
    """In use on all together, by whoever."""

    power_w: float | None = None
    """Of all together."""


class Gpus(Protocol):
    """The GPUs of one engine."""

    def read(self) -> GpuReading: ...

    def close(self) -> None: ...


class NvmlGpus:
    """GPUs by NVML. Not for several threads at once.

    On machines whose GPU has no memory of its own (GB10) the driver does not tell its use: there it
    is what the host's memory account says, `host_memory_gib`.
    """

    def __init__(
        self,
        nvml: Any,
        handles: Sequence[object],
        host_memory_gib: Callable[[], float | None],
    ) -> None:
        self._nvml = nvml
        self._handles = tuple(handles)
        self._host_memory_gib = host_memory_gib

    def read(self) -> GpuReading:
        """See `GpuReading`; a MIG slice tells its memory, but neither utilisation nor power."""
        rates = self._each(lambda h: float(self._nvml.nvmlDeviceGetUtilizationRates(h).gpu))
        watts = self._each(lambda h: float(self._nvml.nvmlDeviceGetPowerUsage(h)) / 1000)
        return GpuReading(
            utilization=None if rates is None else sum(rates) / (100 * len(rates)),
            memory_gib=self._memory_gib(),
            power_w=None if watts is None else sum(watts),
        )

    def close(self) -> None:
        self._nvml.nvmlShutdown()

    def _memory_gib(self) -> float | None:
        try:
            used = [self._nvml.nvmlDeviceGetMemoryInfo(handle).used for handle in self._handles]
        except getattr(self._nvml, "NVMLError_NotSupported", ()):
            return self._host_memory_gib()
        except self._nvml.NVMLError:
            return None
        return sum(used) / GIB if used else None

    def _each(self, read: Callable[[object], float]) -> list[float] | None:
        """One number of every GPU; None when any does not tell, and when there is none."""
        try:
            return [read(handle) for handle in self._handles] or None
        except self._nvml.NVMLError:
            return None


def nvml_gpus(ids: Sequence[str]) -> Gpus | None:
    """The GPUs with these indices, UUIDs or MIG names; None without NVML, a driver or one of them.

    Indices are NVML's, in the order of the PCI bus. CUDA's are the same on a host with GPUs of one
    kind, and everywhere under CUDA_DEVICE_ORDER=PCI_BUS_ID.
    """
    nvml = _opened()
    if nvml is None:
        return None
    try:
        return NvmlGpus(nvml, [_handle(nvml, name) for name in ids], host_memory_gib)
    except nvml.NVMLError:
        nvml.nvmlShutdown()
        return None


def gpu_uuids(ids: Sequence[str]) -> tuple[str, ...]:
    """The GPUs' own names, so that an index and a UUID of one GPU are the same; what the driver
    does not know, or there is none to ask, stays as it is."""
    nvml = _opened()
    if nvml is None:
        return tuple(ids)
    try:
        return tuple(_uuid(nvml, name) for name in ids)
    finally:
        nvml.nvmlShutdown()


def host_memory_gib(text: str | None = None) -> float | None:
    """Memory of the host that is in use and not reclaimable: what an engine could not have.

    The page cache counts as free (MemAvailable): on unified memory the weights that were just read
    are still in it, and the driver would call that used.
    """
    try:
        text = _MEMINFO.read_text() if text is None else text
    except OSError:
        return None
    rows = dict(re.findall(r"^(\w+):\s+(\d+) kB$", text, re.MULTILINE))
    if not {"MemTotal", "MemAvailable"} <= rows.keys():
        return None
    return (int(rows["MemTotal"]) - int(rows["MemAvailable"])) * 1024 / GIB


def _opened() -> Any:
    """NVML, initialised; None without the package or a driver."""
    try:
        nvml: Any = importlib.import_module(NVML_MODULE)
    except ImportError:
        return None
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return None
    return nvml


def _handle(nvml: Any, name: str) -> object:
    if name.isdecimal():
        return nvml.nvmlDeviceGetHandleByIndex(int(name))
    return nvml.nvmlDeviceGetHandleByUUID(name)


def _uuid(nvml: Any, name: str) -> str:
    try:
        found = nvml.nvmlDeviceGetUUID(_handle(nvml, name))
    except nvml.NVMLError:
        return name
    return found.decode() if isinstance(found, bytes) else str(found)


class GpuSampler:
    """Reads them in a thread of its own between `__enter__` and `__exit__`, and closes it.

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
        reading = self._gpus.read() if self._gpus is not None else GpuReading()
        told = {
            EngineMetric.GPU_UTILIZATION: reading.utilization,
            EngineMetric.GPU_MEMORY_GIB: reading.memory_gib,
            EngineMetric.GPU_POWER_W: reading.power_w,
        }
        values = {metric: value for metric, value in told.items() if value is not None}
        if not values:
            return
        at_s, unix_s = self._clock.monotonic(), self._clock.now().timestamp()
        with self._lock:
            self._scrapes.append(Scrape(at_s, unix_s, values))
