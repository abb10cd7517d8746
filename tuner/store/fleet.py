"""Counts over all studies, for monitoring: a few aggregate queries, however many studies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from tuner.domain.states import StudyState, TrialState
from tuner.store.models import StudyRow, TrialRow

BEST_OF = 20
"""Studies whose best score is told: a label per study must not grow without end."""


@dataclass(frozen=True, slots=True)
class BestScore:
    """The best scored trial of a study that runs."""

    reference: str
    score: float


@dataclass(frozen=True, slots=True)
class Fleet:
    """How many studies and trials are in which state; every state is there, with 0 where none."""

    studies: Mapping[str, int]
    trials: Mapping[str, int]
    failures: Mapping[str, int]
    """Trials with a diagnosis by its failure class."""

    best: tuple[BestScore, ...]
    """Of the most recent running studies, at most BEST_OF."""


def fleet(session: Session) -> Fleet:
    """The counts as they stand."""
    return Fleet(
        studies=_counts(session, StudyRow.state, StudyState),
        trials=_counts(session, TrialRow.state, TrialState),
        failures=_failures(session),
        best=_best(session),
    )


def _counts(
    session: Session, column: InstrumentedAttribute[str], states: type[StudyState | TrialState]
) -> dict[str, int]:
    rows = session.execute(select(column, func.count()).group_by(column)).all()
    found = {state: count for state, count in rows}
    return {state.value: found.get(state.value, 0) for state in states}


def _failures(session: Session) -> dict[str, int]:
    name = TrialRow.failure_class
    query = select(name, func.count()).where(name.is_not(None)).group_by(name)
    return {str(failure): int(count) for failure, count in session.execute(query)}


def _best(session: Session) -> tuple[BestScore, ...]:
    recent = (
        select(StudyRow.id, StudyRow.name, StudyRow.generation)
        .where(StudyRow.state == StudyState.RUNNING.value)
        .order_by(StudyRow.id.desc())
        .limit(BEST_OF)
        .subquery()
    )
    score = func.max(TrialRow.score["value"].as_float())
    query = (
        select(recent.c.name, recent.c.generation, score)
        .join(TrialRow, TrialRow.study_id == recent.c.id)
        .where(TrialRow.state == TrialState.COMPLETE.value)
        .group_by(recent.c.id, recent.c.name, recent.c.generation)
        .order_by(recent.c.id)
    )
    return tuple(
        BestScore(f"{name}@{generation}", float(best))
        for name, generation, best in session.execute(query)
        if best is not None
    )
