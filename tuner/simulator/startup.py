"""How long a start takes: what is forecast of it, and what the embedded engine accounts for."""

from __future__ import annotations

import random
from dataclasses import dataclass, fields

from tuner.simulator.limits import EngineLimits
from tuner.simulator.memory import MemoryAccount
from tuner.simulator.models import ModelGeometry


@dataclass(frozen=True, slots=True)
class StartRates:
    """What a start's parts cost on one machine. `nominal()` is what forecasts believe."""

    load_gib_per_s: float = 2.2
    compile_s_per_layer: float = 0.55
    capture_s_per_size: float = 0.11
    imports_s: float = 14.0
    profile_s: float = 4.0

    @classmethod
    def of_seed(cls, seed: int | None) -> StartRates:
        """A machine that forecasts do not know, every rate off by up to ±30%; nominal for None.

        Its own source of chance: the rates of steps and memory do not depend on these.
        """
        if seed is None:
            return cls()
        source = random.Random(f"servetune-start-{seed}")
        nominal = cls()
        return cls(
            **{f.name: getattr(nominal, f.name) * source.uniform(0.7, 1.3) for f in fields(cls)}
        )


@dataclass(frozen=True, slots=True)
class StartDurations:
    """Engine seconds of a start's parts."""

    imports_s: float
    load_s: float
    profile_s: float
    compile_s: float
    capture_s: float

    @property
    def init_engine_s(self) -> float:
        return self.profile_s + self.compile_s + self.capture_s

    @property
    def total_s(self) -> float:
        return self.imports_s + self.load_s + self.init_engine_s


def start_durations(
    model: ModelGeometry, limits: EngineLimits, account: MemoryAccount, rates: StartRates
) -> StartDurations:
    """Imports, weights at the disk's rate, profiling, compilation by layer, capture by size."""
    eager = limits.graph_tokens == 0
    return StartDurations(
        imports_s=rates.imports_s,
        load_s=1.0 + account.weights_gib / rates.load_gib_per_s,
        profile_s=rates.profile_s,
        compile_s=0.0 if eager else rates.compile_s_per_layer * model.layers,
        capture_s=rates.capture_s_per_size * limits.graph_sizes,
    )
