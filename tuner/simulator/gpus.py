"""GPUs the engine model knows."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.errors import InvalidInputError

_TERA = 1e12
_GIGA = 1e9


@dataclass(frozen=True, slots=True)
class Gpu:
    """One device, from its vendor's data sheet.

    `memory_gib` is what CUDA reports as total, a little under the data sheet's round number.
    `bf16_flops` is dense (no sparsity), floating-point operations per second on tensor cores.
    `link_bytes_per_s` is one direction to the peers of the same host: NVLink where the board has
    it, PCIe otherwise.
    """

    name: str
    memory_gib: float
    bf16_flops: float
    memory_bytes_per_s: float
    multiprocessors: int
    link_bytes_per_s: float

    @property
    def ridge_tokens(self) -> float:
        """Tokens per step at which reading 2-byte weights and multiplying by them take as long."""
        return self.bf16_flops / self.memory_bytes_per_s


def _gpu(
    name: str, memory_gib: float, tflops: float, gbytes: float, sms: int, link_gbytes: float
) -> Gpu:
    return Gpu(name, memory_gib, tflops * _TERA, gbytes * _GIGA, sms, link_gbytes * _GIGA)


_PRESETS: dict[str, Gpu] = {
    gpu.name: gpu
    for gpu in (
        _gpu("L4", 22.0, 121.0, 300.0, 58, 32.0),
        _gpu("A10G", 22.0, 70.0, 600.0, 80, 32.0),
        _gpu("L40S", 44.4, 362.0, 864.0, 142, 32.0),
        _gpu("A100-40", 39.4, 312.0, 1555.0, 108, 300.0),
        _gpu("A100-80", 79.2, 312.0, 2039.0, 108, 300.0),
        _gpu("H100", 79.2, 989.0, 3350.0, 132, 450.0),
        _gpu("H200", 139.8, 989.0, 4800.0, 132, 450.0),
        _gpu("B200", 178.4, 2250.0, 8000.0, 148, 900.0),
    )
}


def known_gpus() -> tuple[str, ...]:
    """Names that `gpu_preset` accepts, smallest memory first."""
    return tuple(_PRESETS)


def gpu_preset(name: str) -> Gpu:
    """The GPU of this name, in any case; raises InvalidInputError naming the known ones."""
    wanted = name.strip().casefold()
    for known, gpu in _PRESETS.items():
        if known.casefold() == wanted:
            return gpu
    raise InvalidInputError(
        f"unknown GPU {name!r}", hint=f"the engine model knows {', '.join(known_gpus())}"
    )
