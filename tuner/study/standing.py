"""What a study has spent and found so far, read as few columns and never from measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from tuner.domain.states import TrialState
from tuner.domain.study_spec import StudySpec
from tuner.store.records import (
    AttemptRecord,
    AttemptSpan,
    StudyRecord,
    TrialRecord,
    TrialStanding,
)
from tuner.store.study_reader import StudyRows
from tuner.store.unit_of_work import Work
from tuner.study.budget import Spent, planned_starts, spent
from tuner.study.engine_launch import time_scale
from tuner.study.stored_study import stored_spec
from tuner.study.target import gpu_count
from tuner.study.trial_score import score_value


@dataclass(frozen=True, slots=True)
class Planned:
    """What the document allows: trials, engine starts, and the limits where it sets any."""

    trials: int
    starts: int
    gpu_minutes: float | None
    deadline: datetime | None


@dataclass(frozen=True, slots=True)
class Standing:
    """A study's account beside its plan, its best trial and its baseline."""

    planned: Planned
    account: Spent
    best: TrialRecord | None
    baseline: TrialRecord | None


def standings(work: Work, studies: Sequence[StudyRecord]) -> Mapping[int, Standing]:
    """The standing of each study by its id, in three queries however many they are."""
    ids = [study.id for study in studies]
    trials, attempts = work.standings.trials(ids), work.standings.attempts(ids)
    best = {study: best_number(found) for study, found in trials.items()}
    wanted = {(study, number) for study, number in best.items() if number is not None}
    named = work.standings.named(wanted | {(study, 0) for study in ids})

    def trial(study: int, number: int | None) -> TrialRecord | None:
        return None if number is None else named.get((study, number))

    return {
        study.id: Standing(
            *_account(stored_spec(study), trials[study.id], attempts[study.id]),
            trial(study.id, best[study.id]),
            trial(study.id, 0),
        )
        for study in studies
    }


def standing_of(rows: StudyRows) -> Standing:
    """The standing of a study all of whose trials and attempts are at hand."""
    by_number = {trial.number: trial for trial in rows.trials}
    best = best_number(rows.trials)
    return Standing(
        *_account(stored_spec(rows.study), rows.trials, rows.attempts),
        None if best is None else by_number[best],
        by_number.get(0),
    )


def _account(
    spec: StudySpec,
    trials: Sequence[TrialRecord | TrialStanding],
    attempts: Sequence[AttemptRecord | AttemptSpan],
) -> tuple[Planned, Spent]:
    budget = spec.budget
    scale = time_scale(spec.engine)
    return (
        Planned(budget.trials, planned_starts(spec), budget.gpu_minutes, budget.deadline),
        spent(trials, attempts, gpu_count=gpu_count(spec), time_scale=scale),
    )


def best_number(trials: Sequence[TrialRecord | TrialStanding]) -> int | None:
    """The best complete trial; the older one of equals, None where none was scored."""
    scored = [
        (value, -trial.number)
        for trial in trials
        if trial.state is TrialState.COMPLETE and (value := score_value(trial.score)) is not None
    ]
    return -max(scored)[1] if scored else None
