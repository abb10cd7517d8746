"""What the verdict's interval is worth over whole confirmations: looks, selection, odd noise.

Simulated with fixed seeds; bounds are wide of what was seen, so that only a change of the method
can break them. The same on the engine model with hidden hardware: benchmarks/verdicts.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from tests.support.study_measurements import measurement
from tuner.domain.engine_config import EngineConfig
from tuner.study.changes import PairedRound
from tuner.study.confirmation import ArmRound, ConfirmationState, next_arm
from tuner.study.intervals import look_level
from tuner.study.recommendation import (
    Candidate,
    Recommendation,
    Reference,
    Setting,
    Verdict,
    recommend,
)

Noise = Callable[[np.random.Generator, int], np.ndarray[tuple[int], np.dtype[np.float64]]]
ROUNDS, MOST_ROUNDS = 3, 14
STUDIES = 250
MEASURED = measurement()
REFERENCE = Reference(0, EngineConfig(), is_baseline=True)


def normal(
    generator: np.random.Generator, count: int
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return generator.standard_normal(count)


def skewed(
    generator: np.random.Generator, count: int
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Log-normal of unit variance and skewness 2.5: queues near capacity do this."""
    sigma = 0.69
    raw = np.exp(sigma * generator.standard_normal(count)) - math.exp(sigma**2 / 2)
    scale = math.sqrt((math.exp(sigma**2) - 1) * math.exp(sigma**2))
    return np.asarray(raw / scale, dtype=np.float64)


@dataclass(frozen=True)
class World:
    """Two finalists with these true gains; their rounds share the noise of the requests."""

    gains: tuple[float, float]
    spread: float
    noise: Noise = normal
    expected: float | None = 1.0
    """What the runs' intervals predict of the spread, relative to it; None: nothing."""

    def confirm(self, seed: int) -> tuple[Recommendation, dict[int, float]]:
        generator = np.random.default_rng(seed)
        shared = self.noise(generator, MOST_ROUNDS)
        truth = {1: self.gains[0], 2: self.gains[1]}
        rows = {
            arm: gain
            + self.spread
            * (math.sqrt(0.7) * shared + math.sqrt(0.3) * self.noise(generator, MOST_ROUNDS))
            for arm, gain in truth.items()
        }
        done: set[ArmRound] = set()
        level = look_level(ROUNDS, MOST_ROUNDS, finalists=2)
        while (arm := next_arm(self._state(done, rows), ROUNDS, MOST_ROUNDS, level)) is not None:
            done.add(arm)
        state = self._state(done, rows)
        candidates = [
            Candidate(
                number,
                EngineConfig(),
                tuple(
                    PairedRound(i, difference, MEASURED, MEASURED, self._expected)
                    for i, difference in enumerate(state.differences[number])
                ),
            )
            for number in truth
        ]
        return recommend(REFERENCE, candidates, Setting(False, level)), truth

    @property
    def _expected(self) -> float | None:
        return None if self.expected is None else self.expected * self.spread

    def _state(
        self, done: set[ArmRound], rows: dict[int, np.ndarray[tuple[int], np.dtype[np.float64]]]
    ) -> ConfirmationState:
        counts = {arm: sum(a.trial_number == arm for a in done) for arm in rows}
        return ConfirmationState(
            0,
            (1, 2),
            frozenset(done),
            {arm: tuple(row[: counts[arm]].tolist()) for arm, row in rows.items()},
            frozenset(),
            {arm: (self._expected,) * count for arm, count in counts.items()},
        )


@dataclass(frozen=True)
class Shares:
    covered: float
    recommended: float
    harmful: float


def shares(world: World, studies: int = STUDIES) -> Shares:
    covered = recommended = harmful = 0
    for seed in range(studies):
        verdict, truth = world.confirm(seed)
        judged = verdict.trial_number
        if verdict.verdict is Verdict.KEEP_BASELINE:
            judged = max(
                verdict.finalists, key=lambda f: f.gain.mean if f.gain else -math.inf
            ).trial_number
        else:
            recommended += 1
            harmful += truth[judged or 0] < 0
        gain = verdict.gain
        assert gain is not None
        assert gain.low is not None
        assert gain.high is not None
        covered += gain.low <= truth[judged or 0] <= gain.high
    return Shares(covered / studies, recommended / studies, harmful / studies)


@pytest.mark.parametrize("noise", [normal, skewed], ids=["normal", "skewed"])
@pytest.mark.parametrize("gains", [(0.0, 0.0), (0.1, 0.08), (0.4, 0.4), (-0.05, -0.02)])
@pytest.mark.parametrize("expected", [0.7, 1.5])
def test_the_interval_covers_the_true_gain(
    gains: tuple[float, float], noise: Noise, expected: float
) -> None:
    found = shares(World(gains, 0.12, noise, expected))
    assert found.covered >= 0.88


@pytest.mark.parametrize("spread", [0.03, 0.1])
def test_without_intervals_in_the_runs_it_covers_all_the_same(spread: float) -> None:
    assert shares(World((0.1, 0.1), spread, normal, None)).covered >= 0.88


@pytest.mark.parametrize("noise", [normal, skewed], ids=["normal", "skewed"])
@pytest.mark.parametrize("spread", [0.02, 0.12])
def test_without_a_gain_the_baseline_is_kept(spread: float, noise: Noise) -> None:
    assert shares(World((0.0, 0.0), spread, noise), 2 * STUDIES).recommended <= 0.05


def test_what_is_worse_than_the_baseline_is_hardly_ever_recommended() -> None:
    for gains in ((-0.02, -0.02), (-0.1, -0.03)):
        assert shares(World(gains, 0.08)).harmful <= 0.02


def test_a_gain_twice_its_spread_is_nearly_always_found() -> None:
    assert shares(World((0.2, 0.1), 0.1)).recommended >= 0.95


def test_a_gain_as_large_as_its_spread_is_mostly_found() -> None:
    assert shares(World((0.1, 0.1), 0.1)).recommended >= 0.85
