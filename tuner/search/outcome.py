from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from objectives.constraints import feasible_constraints, violated_constraints


class ToldAs(Enum):
    """What stands behind the value in Optuna's ledger; only `measured` is a result."""

    MEASURED = "measured"
    EXTRAPOLATED = "extrapolated"
    FILLER = "filler"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Completed:
    """A score per objective, higher is better; `extrapolated` for an attempt cut short."""

    values: tuple[float, ...]
    extrapolated: bool = False

    def __post_init__(self) -> None:
        if not self.values or not all(math.isfinite(value) for value in self.values):
            raise ValueError(f"only finite scores can be told, not {self.values}")

    @classmethod
    def of(cls, score: float | Sequence[float], *, extrapolated: bool = False) -> Completed:
        values = tuple(score) if isinstance(score, Sequence) else (score,)
        return cls(tuple(float(value) for value in values), extrapolated)

    @property
    def told_as(self) -> ToldAs:
        return ToldAs.EXTRAPOLATED if self.extrapolated else ToldAs.MEASURED

    @property
    def constraints(self) -> dict[str, float]:
        return feasible_constraints()


@dataclass(frozen=True, slots=True)
class Infeasible:
    """The engine cannot run it: which named constraint is violated, and by how much (> 0)."""

    constraint: str
    grade: float

    def __post_init__(self) -> None:
        violated_constraints(self.constraint, self.grade)

    @property
    def told_as(self) -> ToldAs:
        return ToldAs.FILLER

    @property
    def constraints(self) -> dict[str, float]:
        return violated_constraints(self.constraint, self.grade)


Outcome = Completed | Infeasible
