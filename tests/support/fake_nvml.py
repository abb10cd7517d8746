"""A stand-in for the `pynvml` module of nvidia-ml-py: GPUs whose readings a test decides.

It implements the functions that ServeTune calls, by their names and units in that module: rates in
per cent, memory in bytes, power in milliwatts, UUIDs as text. Nothing here has seen a GPU.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import ModuleType


class FakeNvmlError(Exception):
    """NVML's own exception class."""


class FakeNotSupportedError(FakeNvmlError):
    """What NVML raises for a reading that a device does not have."""


@dataclass(frozen=True)
class Memory:
    used: int


@dataclass(frozen=True)
class Rates:
    gpu: int
    memory: int = 0


@dataclass
class FakeDriver:
    """Per cent of utilisation by index and by UUID; None is a GPU that does not tell."""

    by_index: dict[int, int | None] = field(default_factory=dict)
    by_uuid: dict[str, int | None] = field(default_factory=dict)
    used_gib: dict[int | str, float | None] = field(default_factory=dict)
    """Memory in use by index or UUID; None is a device without memory of its own."""
    power_mw: dict[int | str, int] = field(default_factory=dict)
    uuids: dict[int | str, str] = field(default_factory=dict)
    driver: bool = True
    open: int = 0
    reads: int = 0

    def module(self) -> ModuleType:
        module = ModuleType("pynvml")
        functions = {
            "NVMLError": FakeNvmlError,
            "NVMLError_NotSupported": FakeNotSupportedError,
            "nvmlDeviceGetMemoryInfo": self._memory,
            "nvmlDeviceGetPowerUsage": self._power,
            "nvmlDeviceGetUUID": self._uuid,
            "nvmlInit": self._init,
            "nvmlShutdown": self._shutdown,
            "nvmlDeviceGetHandleByIndex": self._find(self.by_index),
            "nvmlDeviceGetHandleByUUID": self._find(self.by_uuid),
            "nvmlDeviceGetUtilizationRates": self._rates,
        }
        for name, value in functions.items():
            setattr(module, name, value)
        return module

    def _init(self) -> None:
        if not self.driver:
            raise FakeNvmlError("driver not loaded")
        self.open += 1

    def _shutdown(self) -> None:
        self.open -= 1

    @staticmethod
    def _find(known: object) -> object:
        def find(name: object) -> object:
            assert isinstance(known, dict)
            if name not in known:
                raise FakeNvmlError(f"no GPU {name}")
            return (known, name)

        return find

    def _rates(self, handle: tuple[dict[object, int | None], object]) -> Rates:
        self.reads += 1
        known, name = handle
        value = known[name]
        if value is None:
            raise FakeNvmlError("not supported")
        return Rates(value)

    def _memory(self, handle: tuple[object, int | str]) -> Memory:
        if handle[1] not in self.used_gib:
            raise FakeNvmlError("GPU is lost")
        used = self.used_gib[handle[1]]
        if used is None:
            raise FakeNotSupportedError("not supported")
        return Memory(int(used * 1024**3))

    def _power(self, handle: tuple[object, int | str]) -> int:
        if handle[1] not in self.power_mw:
            raise FakeNotSupportedError("not supported")
        return self.power_mw[handle[1]]

    def _uuid(self, handle: tuple[object, int | str]) -> str:
        if handle[1] not in self.uuids:
            raise FakeNvmlError("not found")
        return self.uuids[handle[1]]
