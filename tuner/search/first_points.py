from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from types import MappingProxyType

from tuner.domain.defaults import default_utilization
from tuner.domain.engine_config import EngineConfig
from tuner.domain.states import TrialOrigin
from tuner.search.model_picks import Pick
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
            config = config.with_flags({"gpu-memory-utilization": default_utilization()})
        return space.nearest(config)


CHAT = Preset("chat", 128, 512, True)
BATCH = Preset("batch", 64, 4096, False)
MIXED = Preset("mixed", 256, 2048, True)
LONG_CONTEXT = Preset("long-context-qa", 64, 2048, True)

PRESET_OF_WORKLOAD = MappingProxyType(
    {"chat": CHAT, "mixed": MIXED, "long-context-qa": LONG_CONTEXT}
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which kinds of first points there shall be."""

    preset: bool = True
    space_filling: bool = True


def first_points(
    space: SearchSpace,
    *,
    workload_preset: str | None,
    seed: int,
    known: Sequence[EngineConfig] = (),
    throughput_only: bool = False,
    wanted: Wanted = Wanted(),
    model_picks: Sequence[Pick] = (),
) -> tuple[FirstPoint, ...]:
    """The workload's preset, moved into the space, one space-filling point, the model's picks.

    A trace or free lengths take the preset for mixed load; an objective that weighs nothing but
    throughput takes the batch preset. `known` are effective configurations that are measured anyway
    (the baseline): a point equal to one of them is left out. The model's best pick comes first and
    its last one at the end, where measurements may already have spoken against the model.
    """
    taken = [c for k in known if not isinstance(c := space.to_coordinates(k), OutsideSpace)]
    taken += [pick.coordinates for pick in model_picks]
    others: list[FirstPoint] = []
    if wanted.preset:
        preset = preset_of(workload_preset, throughput_only=throughput_only)
        at_preset = preset.coordinates(space)
        others.append(FirstPoint(at_preset, TrialOrigin.PRESET, f"preset {preset.name}"))
        taken.append(at_preset)
    if wanted.space_filling:
        far = _farthest(space, taken, seed)
        others.append(FirstPoint(far, TrialOrigin.SPACE_FILLING, "far from the points before it"))
    picks = [
        FirstPoint(pick.coordinates, TrialOrigin.ENGINE_MODEL, "a favourite of the engine model")
        for pick in model_picks
    ]
    return _without_twins(space, _alternating(picks, others), known)


def preset_of(workload_preset: str | None, *, throughput_only: bool) -> Preset:
    """The practitioners' recommendation for a study."""
    return BATCH if throughput_only else PRESET_OF_WORKLOAD.get(workload_preset or "", MIXED)


def _alternating(picks: Sequence[FirstPoint], others: Sequence[FirstPoint]) -> Iterator[FirstPoint]:
    for pair in zip_longest(picks, others):
        yield from (point for point in pair if point is not None)


def _without_twins(
    space: SearchSpace, points: Iterable[FirstPoint], known: Sequence[EngineConfig]
) -> tuple[FirstPoint, ...]:
    inside = (space.to_coordinates(config) for config in known)
    seen = [space.to_config(found) for found in inside if not isinstance(found, OutsideSpace)]
    kept: list[FirstPoint] = []
    for point in points:
        flags = space.to_config(point.coordinates)
        if flags not in seen:
            seen.append(flags)
            kept.append(point)
    return tuple(kept)


def _farthest(space: SearchSpace, taken: Sequence[Coordinates], seed: int) -> Coordinates:
    """The first Sobol point, or among many the one farthest from all that are taken."""
    candidates = list(sobol_points(space, derived_seed(seed, -1), CANDIDATES))
    if not taken:
        return candidates[0]
    return max(candidates, key=lambda point: min(distance(space, point, t) for t in taken))
