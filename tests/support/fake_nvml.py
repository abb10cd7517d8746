"""A stand-in for the `pynvml` module: GPUs whose utilisation a test decides."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import ModuleType


class FakeNvmlError(Exception):
    """NVML's own exception class."""


@dataclass(frozen=True)
class Rates:
    gpu: int
    memory: int = 0


@dataclass
class FakeDriver:
    """Per cent of utilisation by index and by UUID; None is a GPU that does not tell."""

    by_index: dict[int, int | None] = field(default_factory=dict)
    by_uuid: dict[str, int | None] = field(default_factory=dict)
    driver: bool = True
    open: int = 0
    reads: int = 0

    def module(self) -> ModuleType:
        module = ModuleType("pynvml")
        functions = {
            "NVMLError": FakeNvmlError,
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
