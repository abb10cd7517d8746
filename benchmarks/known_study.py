"""A study of which the worth of every trial is known, and how soon it found what there was."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.study_cost import TrialOutcome
from benchmarks.verdict_study import StudyOutcome
from tuner.domain.states import TrialState

NEAR = -math.log(0.95)
"""A gain that falls short of the best by no more is within 5% of it."""


@dataclass(frozen=True, slots=True)
class KnownTrial:
    """A trial with its true gain (score difference, starts' noise apart); None: it dies."""

    trial: TrialOutcome
    gain: float | None


@dataclass(frozen=True, slots=True)
class KnownStudy:
    """A study under one variant, what its measured trials are worth, and the space's best."""

    variant: str
    study: StudyOutcome
    trials: tuple[KnownTrial, ...]
    best: float

    @property
    def arrival(self) -> TrialOutcome | None:
        """The first trial within 5% of the best; None where the search never got there."""
        complete = (k for k in self.trials if k.trial.state is TrialState.COMPLETE)
        return next((k.trial for k in complete if self._near(k)), None)

    @property
    def wrongly_cut(self) -> int:
        """Load tests that were cut short although their configuration is within 5% of the best."""
        return sum(k.trial.state is TrialState.PRUNED and self._near(k) for k in self.trials)

    @property
    def last(self) -> TrialOutcome:
        """The search's last measured trial: what it had spent by then."""
        return self.trials[-1].trial

    @property
    def gap(self) -> float:
        """How far what the search ranks first falls short of the best; a dying one by all of it."""
        scored = [k for k in self.trials if k.trial.score is not None]
        first = max(scored, key=lambda k: k.trial.score or 0.0)
        return self.best - (first.gain if first.gain is not None else 0.0)

    def _near(self, known: KnownTrial) -> bool:
        return known.gain is not None and known.gain >= self.best - NEAR


def middle(values: Sequence[float | None]) -> float | None:
    """The median, where None is later than everything; None where the middle one is."""
    ranked = sorted(math.inf if value is None else value for value in values)
    if not ranked:
        return None
    found = ranked[(len(ranked) - 1) // 2]
    return None if math.isinf(found) else found
