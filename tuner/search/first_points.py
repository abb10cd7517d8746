from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType

from tuner.domain.defaults import GPU_MEMORY_UTILIZATION
from tuner.domain.engine_config import EngineConfig
from tuner.domain.states import TrialOrigin
from tuner.search.sampler import derived_seed
from tuner.search.space import Coordinates, OutsideSpace, SearchSpace
from tuner.search.space_filling import distance, sobol_points

CANDIDATES = 64


@dataclass(frozen=True, slots=True)
class FirstPoint:
    """A proposal made before the sampler knows anything."""

    coordinates: Coordinates
    origin: TrialOrigin
    reason: str


@dataclass(frozen=True, slots=True)
class Preset:
    """A practitioners' recommendation for a kind of load (facts/practice.md)."""

    name: str
    max_num_seqs: int
    max_num_batched_tokens: int
    enable_chunked_prefill: bool

    def coordinates(self, space: SearchSpace) -> Coordinates:
        """The space's nearest point, at the utilisation a memory model calls safe, or vLLM's own.

        Without a memory model the top of the range would be a bet on running out of memory.
        """
        config = EngineConfig.of(
            {
                "max-num-seqs": self.max_num_seqs,
                "max-num-batched-tokens": self.max_num_batched_tokens,
                "enable-chunked-prefill": self.enable_chunked_prefill,
            }
        )
        if space.ceiling is None:
            config = config.with_flags({"gpu-memory-utilization": GPU_MEMORY_UTILIZATION})
        return space.nearest(config)


CHAT = Preset("chat", 128, 512, True)
BATCH = Preset("batch", 64, 4096, False)
MIXED = Preset("mixed", 256, 2048, True)
LONG_CONTEXT = Preset("long-context-qa", 64, 2048, True)

PRESET_OF_WORKLOAD = MappingProxyType(
    {"chat": CHAT, "mixed": MIXED, "long-context-qa": LONG_CONTEXT}
)


def first_points(
    space: SearchSpace,
    *,
    workload_preset: str | None,
    seed: int,
    known: Sequence[EngineConfig] = (),
    throughput_only: bool = False,
) -> tuple[FirstPoint, ...]:
    """The workload's preset, moved into the space, and one space-filling point far from the rest.

    A trace or free lengths take the preset for mixed load; an objective that weighs nothing but
    throughput takes the batch preset. `known` are effective configurations that are measured anyway
    (the baseline): a point equal to one of them is left out.
    """
    taken = [c for k in known if not isinstance(c := space.to_coordinates(k), OutsideSpace)]
    measured = [space.to_config(coordinates) for coordinates in taken]
    points: list[FirstPoint] = []
    preset = BATCH if throughput_only else PRESET_OF_WORKLOAD.get(workload_preset or "", MIXED)
    at_preset = preset.coordinates(space)
    if space.to_config(at_preset) not in measured:
        points.append(FirstPoint(at_preset, TrialOrigin.PRESET, f"preset {preset.name}"))
        taken.append(at_preset)
        measured.append(space.to_config(at_preset))
    far = _farthest(space, taken, seed)
    if space.to_config(far) not in measured:
        points.append(FirstPoint(far, TrialOrigin.SPACE_FILLING, "far from the points before it"))
    return tuple(points)


def _farthest(space: SearchSpace, taken: Sequence[Coordinates], seed: int) -> Coordinates:
    """The first Sobol point, or among many the one farthest from all that are taken."""
    candidates = list(sobol_points(space, derived_seed(seed, -1), CANDIDATES))
    if not taken:
        return candidates[0]
    return max(candidates, key=lambda point: min(distance(space, point, t) for t in taken))
