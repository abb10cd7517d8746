"""How often verdicts were right, with the uncertainty of so many studies."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from benchmarks.verdict_study import LARGE_GAIN, StudyOutcome

NO_GAIN = math.log(1.01)
"""`tuner.study.intervals.PRACTICAL_GAIN`: less is not worth a change of a running service."""


@dataclass(frozen=True, slots=True)
class Aim:
    """A share that is wanted: at least `threshold`, or at most."""

    name: str
    at_least: bool
    threshold: float


@dataclass(frozen=True, slots=True)
class Share:
    """What was reached in `total` studies; `low` and `high` are Wilson's 90% interval."""

    aim: Aim
    hits: int
    total: int

    @property
    def value(self) -> float | None:
        return self.hits / self.total if self.total else None

    @property
    def interval(self) -> tuple[float, float] | None:
        return wilson(self.hits, self.total) if self.total else None

    @property
    def met(self) -> bool | None:
        """None where there was no study to tell."""
        if self.value is None:
            return None
        reached, wanted = self.value, self.aim.threshold
        return reached >= wanted if self.aim.at_least else reached <= wanted


def wilson(hits: int, total: int, z: float = 1.6448536269514722) -> tuple[float, float]:
    """Wilson's score interval of a share (90% by default)."""
    share, shrink = hits / total, 1 + z**2 / total
    middle = (share + z**2 / (2 * total)) / shrink
    margin = z * math.sqrt(share * (1 - share) / total + z**2 / (4 * total**2)) / shrink
    return max(0.0, middle - margin), min(1.0, middle + margin)


def best_gain(study: StudyOutcome) -> float:
    """The largest true gain known in the space: the search's, or a finalist's that beat it."""
    known = [g for g in (study.best, *(f.true for f in study.finalists)) if g is not None]
    return max((g.mean for g in known if g.failures == 0), default=0.0)


def shares(studies: Sequence[StudyOutcome]) -> tuple[Share, ...]:
    """The four aims over the studies whose baseline ran."""
    usable = [s for s in studies if s.reference_is_baseline]
    gain = [s for s in usable if best_gain(s) >= LARGE_GAIN]
    none = [s for s in usable if best_gain(s) < NO_GAIN]
    judged = [s for s in usable if s.judged is not None]
    return (
        _share(Aim("true gain ≥ 10% in the space: recommended", True, 0.90), gain, _recommended),
        _share(Aim("no gain in the space: baseline kept", True, 0.95), none, _kept),
        _share(Aim("a configuration worse than the baseline recommended", False, 0.02),
               usable, _harmful),
        _share(Aim("the verdict's 90% interval covers the true gain", True, 0.88),
               judged, _covered),
    )  # fmt: skip


def _share(aim: Aim, studies: Sequence[StudyOutcome], hit: Callable[[StudyOutcome], bool]) -> Share:
    return Share(aim, sum(hit(s) for s in studies), len(studies))


def _recommended(study: StudyOutcome) -> bool:
    winner = study.winner
    return winner is not None and winner.low is not None and winner.low > 0


def _kept(study: StudyOutcome) -> bool:
    return study.verdict == "keep_baseline"


def _harmful(study: StudyOutcome) -> bool:
    """Worse on average, or dying under loads that the confirmation did not happen to draw."""
    winner = study.winner
    if winner is None:
        return False
    return winner.true is None or winner.true.failures > 0 or winner.true.mean < 0


def _covered(study: StudyOutcome) -> bool:
    judged = study.judged
    if judged is None or judged.low is None or judged.high is None or judged.true is None:
        return False
    return judged.low <= judged.true.mean <= judged.high


def mean(values: Iterable[float]) -> float | None:
    """None without values."""
    found = list(values)
    return math.fsum(found) / len(found) if found else None
