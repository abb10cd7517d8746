"""An engine configuration: vLLM's flags by their long names."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

FlagValue = bool | int | float | str

SEARCHED_FLAGS = (
    "max-num-seqs",
    "max-num-batched-tokens",
    "enable-chunked-prefill",
    "gpu-memory-utilization",
)
"""The flags that every study searches."""


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Flags sorted by vLLM's long name without dashes (`max-num-seqs`), each at most once.

    A boolean is rendered as `--name` or `--no-name`. A flag that is absent is the engine's default.
    """

    flags: tuple[tuple[str, FlagValue], ...] = ()

    @classmethod
    def of(cls, flags: Mapping[str, FlagValue]) -> EngineConfig:
        """The canonical configuration with these flags."""
        return cls(tuple(sorted(flags.items())))

    def get(self, name: str) -> FlagValue | None:
        """The flag's value, or None when it is left to the engine."""
        return self.as_dict().get(name)

    def with_flags(self, flags: Mapping[str, FlagValue]) -> EngineConfig:
        """A copy in which `flags` override."""
        return EngineConfig.of({**self.as_dict(), **flags})

    def without(self, *names: str) -> EngineConfig:
        """A copy that leaves these flags to the engine."""
        return EngineConfig(tuple((k, v) for k, v in self.flags if k not in names))

    def as_dict(self) -> dict[str, FlagValue]:
        return dict(self.flags)

    @property
    def digest(self) -> str:
        """16 hex digits that are equal for equal configurations only (SHA-256, truncated)."""
        text = json.dumps(self.flags, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def max_num_seqs(self) -> int | None:
        return _integer(self.get("max-num-seqs"))

    @property
    def max_num_batched_tokens(self) -> int | None:
        return _integer(self.get("max-num-batched-tokens"))

    @property
    def enable_chunked_prefill(self) -> bool | None:
        value = self.get("enable-chunked-prefill")
        return value if isinstance(value, bool) else None

    @property
    def gpu_memory_utilization(self) -> float | None:
        value = self.get("gpu-memory-utilization")
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return float(value)

    @property
    def kv_cache_memory_bytes(self) -> int | None:
        return _integer(self.get("kv-cache-memory-bytes"))

    @property
    def max_model_len(self) -> int | None:
        return _integer(self.get("max-model-len"))


def _integer(value: FlagValue | None) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


@dataclass(frozen=True, slots=True)
class LaunchCommand:
    """What is started or exported: a model, its configuration and an allow-listed environment."""

    model: str
    config: EngineConfig
    env: tuple[tuple[str, str], ...] = ()
