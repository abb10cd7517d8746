from __future__ import annotations

import dataclasses
from datetime import timedelta

import pytest

from tests.support.study_records import START, attempt_record, trial_record
from tuner.domain.states import AttemptPurpose, TrialState
from tuner.store.records import AttemptRecord, TrialRecord
from tuner.study.trajectory import TrajectoryPoint, trajectory


def at(minutes: float) -> timedelta:
    return timedelta(minutes=minutes)


def trial(
    number: int, end: float | None, score: float | None, state: TrialState = TrialState.COMPLETE
) -> TrialRecord:
    ended = None if end is None else START + at(end)
    return dataclasses.replace(trial_record(number, state, score=score), ended_at=ended)


def attempt(
    identifier: int,
    number: int,
    start: float,
    end: float,
    purpose: AttemptPurpose = AttemptPurpose.SEARCH,
) -> AttemptRecord:
    record = attempt_record(identifier, number, purpose=purpose)
    return dataclasses.replace(record, started_at=START + at(start), ended_at=START + at(end))


def run(*trials: TrialRecord, more: tuple[AttemptRecord, ...] = ()) -> tuple[TrajectoryPoint, ...]:
    attempts = [
        attempt(
            t.number,
            t.number,
            (t.ended_at - START).total_seconds() / 60 - 2,
            (t.ended_at - START).total_seconds() / 60,
        )
        for t in trials
        if t.ended_at is not None
    ]
    return trajectory(trials, (*attempts, *more), gpu_count=1, time_scale=1.0)


def test_the_best_never_falls() -> None:
    points = run(trial(0, 2, 0.0), trial(1, 4, 0.2), trial(2, 6, 0.1), trial(3, 8, 0.3))
    assert [p.best_score for p in points] == [0.0, 0.2, 0.2, 0.3]
    assert [p.best_trial for p in points] == [0, 1, 1, 3]
    assert [p.score for p in points] == [0.0, 0.2, 0.1, 0.3]


def test_minutes_add_up_in_the_order_of_the_ends() -> None:
    points = run(trial(0, 2, 0.0), trial(2, 6, 0.1), trial(1, 4, 0.2))
    assert [p.trial for p in points] == [0, 1, 2]
    assert [p.gpu_minutes for p in points] == pytest.approx([2.0, 4.0, 6.0])


def test_a_repeat_of_the_baseline_costs_too() -> None:
    repeat = attempt(50, 0, 2.0, 3.5, AttemptPurpose.BASELINE_REPEAT)
    points = run(trial(0, 2, 0.0), trial(1, 6, 0.2), more=(repeat,))
    assert points[-1].gpu_minutes == pytest.approx(5.5)


def test_every_gpu_and_every_engine_second_counts() -> None:
    only = trial(0, 2, 0.0)
    (point,) = trajectory([only], [attempt(1, 0, 0, 2)], gpu_count=4, time_scale=10.0)
    assert point.gpu_minutes == pytest.approx(80.0)


def test_what_could_not_run_costs_and_has_no_score() -> None:
    points = run(trial(0, 2, 0.0), trial(1, 4, 0.9, TrialState.INFEASIBLE))
    assert (points[1].score, points[1].best_trial) == (None, 0)
    assert points[1].gpu_minutes == pytest.approx(4.0)


def test_trials_that_run_or_were_never_launched_are_no_points() -> None:
    waiting = trial(5, 9, None, TrialState.CANCELLED)
    points = trajectory(
        [trial(0, 2, 0.0), trial(1, None, None, TrialState.MEASURING), waiting],
        [attempt(1, 0, 0, 2), attempt_record(2, 1, seconds=None)],
        gpu_count=1,
        time_scale=1.0,
    )
    assert [p.trial for p in points] == [0]


def test_the_older_of_equals_stays_the_best() -> None:
    points = run(trial(0, 2, 0.1), trial(1, 4, 0.1))
    assert points[-1].best_trial == 0
    assert points[-1].to_dict()["best_score"] == 0.1


def test_before_any_score_there_is_no_best() -> None:
    (point,) = run(trial(0, 2, None))
    assert (point.best_trial, point.best_score) == (None, None)
