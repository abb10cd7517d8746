"""kill -9 at every point between the two ledgers' commits, then the same call again.

The engines here are sleeping processes and the measurements invented: what is tested is what two
ledgers and a reaper make of a death. Real engines: test_study_on_the_embedded_engine.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.study_runs import (
    assert_whole,
    conclusive,
    document,
    drive,
    engines_alive,
    history_of,
    optuna_trials,
)
from tuner.domain.states import AttemptOutcome, AttemptPurpose
from tuner.study import checkpoints

pytestmark = pytest.mark.usefixtures("sqlite_url")
"""A database with its schema in `tmp_path`, which a study would otherwise spend a second making."""

TRIALS = 3
STUDY = document(trials=TRIALS)

POINTS = [
    (checkpoints.BEFORE_ASK, 2),
    (checkpoints.AFTER_ASK, 1),
    (checkpoints.AFTER_TRIAL_ROW, 3),
    (checkpoints.AFTER_LAUNCH, 1),
    (checkpoints.AFTER_LAUNCH, 3),
    (checkpoints.MID_LOAD, 3),
    (checkpoints.AFTER_MEASUREMENT, 3),
    (checkpoints.AFTER_COMMIT, 1),
    (checkpoints.AFTER_COMMIT, 3),
    (checkpoints.AFTER_TELL, 1),
    (checkpoints.AFTER_TELL, 3),
    (checkpoints.IN_CONFIRMATION, 1),
    (checkpoints.IN_CONFIRMATION, 3),
    (checkpoints.IN_RECOMMENDATION, 1),
]


@pytest.mark.parametrize(("point", "occurrence"), POINTS)
def test_nothing_is_lost_or_repeated_after_a_kill(
    tmp_path: Path, point: str, occurrence: int
) -> None:
    assert not drive(tmp_path, STUDY, crash_at=point, occurrence=occurrence)
    before = conclusive(history_of(tmp_path))
    assert drive(tmp_path, STUDY)
    history = assert_whole(tmp_path, trials=TRIALS)
    after = conclusive(history)
    assert before.items() <= after.items()
    assert sum(a.outcome is AttemptOutcome.LOST for a in history.attempts) <= 1


def test_every_point_is_tried() -> None:
    assert {point for point, _ in POINTS} == set(checkpoints.ALL_CHECKPOINTS)


def test_a_study_killed_again_and_again_still_ends_whole(tmp_path: Path) -> None:
    kills = 0
    for point, occurrence in [*((p, 1) for p in checkpoints.ALL_CHECKPOINTS), ("", 1)]:
        kills += not drive(tmp_path, STUDY, crash_at=point or None, occurrence=occurrence)
    assert kills >= 6
    assert_whole(tmp_path, trials=TRIALS)


def test_an_engine_left_by_a_dead_driver_is_ended_by_the_next(tmp_path: Path) -> None:
    drive(tmp_path, STUDY, crash_at=checkpoints.AFTER_LAUNCH, occurrence=2)
    assert len(set(engines_alive(history_of(tmp_path)))) == 1
    drive(tmp_path, STUDY)
    assert engines_alive(history_of(tmp_path)) == []


def test_a_trial_asked_but_never_stored_is_told_as_failed(tmp_path: Path) -> None:
    drive(tmp_path, STUDY, crash_at=checkpoints.AFTER_ASK, occurrence=2)
    history = history_of(tmp_path)
    assert [t.state.name for t in optuna_trials(tmp_path, history)].count("RUNNING") == 1
    drive(tmp_path, STUDY)
    told = optuna_trials(tmp_path, history)
    assert [t.state.name for t in told].count("FAIL") == 1


def test_a_first_point_lost_after_its_ask_is_proposed_again(tmp_path: Path) -> None:
    drive(tmp_path, STUDY, crash_at=checkpoints.AFTER_ASK, occurrence=1)
    drive(tmp_path, STUDY)
    origins = [t.origin.value for t in history_of(tmp_path).trials]
    assert origins.count("preset") == 1
    assert origins.count("space_filling") == 1


def test_a_finished_study_is_left_alone(tmp_path: Path) -> None:
    drive(tmp_path, STUDY)
    before = history_of(tmp_path)
    drive(tmp_path, STUDY)
    assert history_of(tmp_path) == before


def test_confirmation_starts_every_arm_once_per_round(tmp_path: Path) -> None:
    drive(tmp_path, STUDY)
    history = history_of(tmp_path)
    arms = [
        (a.round, a.trial_number, a.workload_seed)
        for a in history.attempts
        if a.purpose is AttemptPurpose.CONFIRMATION
    ]
    assert len(arms) == 4
    seeds = {number: {s for r, _, s in arms if r == number} for number in (0, 1)}
    assert all(len(s) == 1 for s in seeds.values())
    assert seeds[0] != seeds[1]
    assert history.study.recommendation is not None
    assert history.study.recommendation["verdict"] == "better"
