"""Whether measurements bear out what the engine model predicted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tuner.domain.states import TrialState
from tuner.store.records import TrialRecord
from tuner.study.ledger import History
from tuner.study.trial_score import score_value

FEWEST_SCORED = 5
LOWEST_CORRELATION = 0.5
"""Below this rank correlation a prior misleads (facts/optimisation.md §9.3)."""

DROPPED = "engine_model_dropped"


@dataclass(frozen=True, slots=True)
class Agreement:
    """Spearman's rank correlation of predicted and measured scores over `trials` trials."""

    correlation: float
    trials: int

    @property
    def misleads(self) -> bool:
        return self.correlation < LOWEST_CORRELATION


def agreement(history: History, reference_score: float | None) -> Agreement | None:
    """None before there are enough scored trials, or where either side never differs.

    The reference was measured before there could be a prediction for it: it is what every
    prediction is compared with, and so has `reference_score`.
    """
    pairs = _pairs(history, reference_score)
    return _agreement(pairs) if len(pairs) >= FEWEST_SCORED else None


def trust_report(history: History) -> dict[str, object] | None:
    """How well the predictions of the trials order what was measured of them, for people.

    None before two trials have both. Without the reference, which nobody predicted.
    """
    found = _agreement(_pairs(history, None))
    if found is None:
        return None
    return {
        "rank_correlation": found.correlation,
        "trials": found.trials,
        "threshold": LOWEST_CORRELATION,
        "dropped": was_dropped(history),
    }


def _pairs(history: History, reference_score: float | None) -> list[tuple[float, float]]:
    """Predicted and measured scores of the trials that have both."""
    pairs = []
    for trial in history.trials:
        predicted = _predicted(trial, history, reference_score)
        measured = score_value(trial.score) if trial.state is TrialState.COMPLETE else None
        if predicted is not None and measured is not None:
            pairs.append((predicted, measured))
    return pairs


def _agreement(pairs: Sequence[tuple[float, float]]) -> Agreement | None:
    correlation = rank_correlation([p for p, _ in pairs], [m for _, m in pairs])
    return None if correlation is None else Agreement(correlation, len(pairs))


def rank_correlation(left: Sequence[float], right: Sequence[float]) -> float | None:
    """Spearman's; equal values share their mean rank. None where one side has a single value."""
    a, b = _ranks(left), _ranks(right)
    mean = (len(a) + 1) / 2
    covariance = sum((x - mean) * (y - mean) for x, y in zip(a, b, strict=True))
    spread = sum((x - mean) ** 2 for x in a) * sum((y - mean) ** 2 for y in b)
    return covariance / spread**0.5 if spread > 0 else None


def was_dropped(history: History) -> bool:
    return any(notice.get("kind") == DROPPED for notice in history.study.notices)


def _predicted(trial: TrialRecord, history: History, reference_score: float | None) -> float | None:
    if trial.prediction is not None:
        value = trial.prediction.get("score")
        return float(value) if isinstance(value, int | float) else None
    reference = history.reference
    own = reference is not None and trial.number == reference.number
    return reference_score if own else None


def _ranks(values: Sequence[float]) -> list[float]:
    order = sorted(range(len(values)), key=lambda i: values[i])
    ranks = [0.0] * len(values)
    start = 0
    while start < len(order):
        stop = start
        while stop < len(order) and values[order[stop]] == values[order[start]]:
            stop += 1
        for place in range(start, stop):
            ranks[order[place]] = (start + stop + 1) / 2
        start = stop
    return ranks
