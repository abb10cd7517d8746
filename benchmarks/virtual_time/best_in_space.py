"""The best configuration of a search space on a hidden machine: dense grid, then local search."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.virtual_time.truth import HiddenMachine, bare_measurement, truth_seeds
from objectives.measurement import Measurement
from tuner.domain.engine_config import EngineConfig
from tuner.domain.study_spec import SearchSpaceSpec, SimulatedEngineSpec
from tuner.simulator.gpus import gpu_preset
from tuner.simulator.hardware import Hardware
from tuner.simulator.memory import max_safe_utilization
from tuner.simulator.models import model_preset

NEIGHBOUR_RATIOS = (1 / 1.4, 1 / 1.15, 1.15, 1.4)
LOCAL_ROUNDS = 2
KEPT_AFTER_GRID = 3
PLAYOFF = 6
PLAYOFF_LOADS = 6


@dataclass(frozen=True, slots=True)
class Point:
    """The searched knobs but utilisation, of which more is better until memory runs out."""

    seqs: int
    tokens: int
    chunked: bool


class BestInSpace:
    """Searches one machine's space with all knowledge that a study lacks."""

    def __init__(self, machine: HiddenMachine, baseline: EngineConfig) -> None:
        self._machine = machine
        self._baseline = baseline
        self._space: SearchSpaceSpec = machine.spec.search_space
        self._seeds = truth_seeds(machine.spec, "search", 1 + PLAYOFF_LOADS)
        self._scores: dict[Point, float | None] = {}
        self._peak: dict[Point, int] = {}
        self._reference = self._measured(self._seeds[0])

    def find(self, known: Sequence[EngineConfig] = ()) -> EngineConfig:
        """Grid and local search on one load, then a play-off on others.

        `known` configurations take part in the play-off.
        """
        for tokens, chunked in self._columns():
            self._climb(tokens, chunked)
        for _ in range(LOCAL_ROUNDS):
            for point in self._leaders(KEPT_AFTER_GRID):
                for near in self._neighbours(point):
                    self._try(near)
        found = (self.config_of(point) for point in self._leaders(PLAYOFF))
        return self._play_off(list(dict.fromkeys([*(f for f in found if f is not None), *known])))

    def config_of(self, point: Point) -> EngineConfig | None:
        """The point with the largest utilisation that survives; None where none does."""
        flags = {
            "max-num-seqs": point.seqs,
            "max-num-batched-tokens": point.tokens,
            "enable-chunked-prefill": point.chunked,
        }
        spec, target = self._machine.spec, self._machine.target
        if not isinstance(spec.engine, SimulatedEngineSpec):
            raise TypeError("only the embedded engine has a hidden machine")
        safe = max_safe_utilization(
            gpu_preset(spec.engine.gpu),
            spec.engine.count,
            model_preset(spec.model.id or ""),
            target.effective(target.with_searched(dict(flags))),
            target.max_model_len,
            Hardware.of_seed(spec.engine.hardware_seed),
        )
        limits = self._space.gpu_memory_utilization
        if safe is None or safe < limits.low:
            return None
        utilization = math.floor(min(safe, limits.high) * 200) / 200
        return target.with_searched({**flags, "gpu-memory-utilization": utilization})

    def _columns(self) -> Iterator[tuple[int, bool]]:
        for tokens in _powers(self._space.max_num_batched_tokens.low, self._high_tokens):
            for chunked in self._space.enable_chunked_prefill.choices:
                if chunked or tokens >= self._machine.target.max_model_len:
                    yield tokens, chunked

    @property
    def _high_tokens(self) -> int:
        return self._space.max_num_batched_tokens.high

    def _climb(self, tokens: int, chunked: bool) -> None:
        """Sequences upwards until more are never used at once, or no longer fit in memory."""
        limits = self._space.max_num_seqs
        for seqs in _powers(limits.low, min(limits.high, tokens)):
            point = Point(seqs, tokens, chunked)
            self._try(point)
            if self._peak.get(point, 0) < seqs:
                return

    def _neighbours(self, point: Point) -> Iterator[Point]:
        limits, space = self._space.max_num_seqs, self._space.max_num_batched_tokens
        lowest = 1 if point.chunked else self._machine.target.max_model_len
        for ratio in NEIGHBOUR_RATIOS:
            seqs = min(max(round(point.seqs * ratio), limits.low), limits.high)
            tokens = min(max(round(point.tokens * ratio / 16) * 16, space.low, lowest), space.high)
            if seqs <= point.tokens:
                yield Point(seqs, point.tokens, point.chunked)
            if point.seqs <= tokens:
                yield Point(point.seqs, tokens, point.chunked)

    def _try(self, point: Point) -> None:
        if point in self._scores:
            return
        self._scores[point] = None
        config = self.config_of(point)
        if config is None:
            return
        runs = self._machine.runs(config, self._seeds[0])
        if runs is None:
            return
        self._peak[point] = max(int(r.run.steps.running.max(initial=0)) for r in runs)
        own = bare_measurement(runs, self._seeds[0])
        self._scores[point] = self._machine.difference(own, self._reference)

    def _leaders(self, count: int) -> list[Point]:
        scored = [(score, p) for p, score in self._scores.items() if score is not None]
        return [p for _, p in sorted(scored, key=lambda pair: -pair[0])[:count]]

    def _play_off(self, rivals: Sequence[EngineConfig]) -> EngineConfig:
        """The best on average over loads which the grid did not see; failing once is out."""
        totals = dict.fromkeys(rivals, 0.0)
        for seed in self._seeds[1:]:
            reference = self._measured(seed)
            for config in rivals:
                own = self._machine.measure(config, seed)
                value = None if own is None else self._machine.difference(own, reference)
                totals[config] += -math.inf if value is None else value
        return max(rivals, key=lambda config: totals[config])

    def _measured(self, seed: int) -> Measurement:
        measured = self._machine.measure(self._baseline, seed)
        if measured is None:
            raise ValueError("the baseline does not run on its own machine")
        return measured


def _powers(low: int, high: int) -> Iterator[int]:
    """Low, then every doubling, then high itself."""
    value = low
    while value < high:
        yield value
        value *= 2
    yield high
