"""kill -9 at every point between the two ledgers' commits, then the same call again.

The engines here are sleeping processes and the measurements invented: what is tested is what two
ledgers and a reaper make of a death. Real engines: test_study_on_the_embedded_engine.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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
from tuner.study.trial_score import score_value

pytestmark = pytest.mark.usefixtures("sqlite_url")
"""A database with its schema in `tmp_path`, which a study would otherwise spend a second making."""

TRIALS = 3
STUDY = document(trials=TRIALS)

NO_MEMORY = document(
    trials=1,
    search_space={"gpu_memory_utilization": {"low": 0.3, "high": 0.4}},
    sampler={"type": "random"},
)
"""Every proposal is predicted to fail, until the prediction is put to the test."""

TWINS = document(
    trials=TRIALS,
    search_space={
        "max_num_seqs": {"low": 16, "high": 17},
        "max_num_batched_tokens": {"low": 2048, "high": 2048},
        "enable_chunked_prefill": {"choices": [True]},
        "gpu_memory_utilization": {"low": 0.9, "high": 0.9},
    },
    sampler={"type": "random"},
)
"""A space of two configurations, of which an insistent sampler repeats one."""


@dataclass(frozen=True)
class Row:
    """A row of docs/crash-matrix.md: die at this point's nth time."""

    point: str
    occurrence: int
    study: Mapping[str, Any] = field(default_factory=lambda: STUDY)
    trials: int = TRIALS
    """How many end up launched."""

    process: str = "tune"
    request: str | None = None
    """What a user asks of the study in its first load."""

    @property
    def name(self) -> str:
        parts = (self.point, str(self.occurrence), self.request)
        return "-".join(part for part in parts if part) + ("-w" if self.process == "worker" else "")


ROWS = (
    Row(checkpoints.BEFORE_ASK, 2),
    Row(checkpoints.AFTER_ASK, 1),
    Row(checkpoints.AFTER_REJECTION, 2, NO_MEMORY, trials=1),
    Row(checkpoints.AFTER_SKIP, 1, TWINS, trials=2),
    Row(checkpoints.AFTER_TRIAL_ROW, 3),
    Row(checkpoints.AFTER_LAUNCH, 1),
    Row(checkpoints.AFTER_LAUNCH, 3),
    Row(checkpoints.MID_LOAD, 3),
    Row(checkpoints.AFTER_MEASUREMENT, 3),
    Row(checkpoints.AFTER_COMMIT, 1),
    Row(checkpoints.AFTER_COMMIT, 3),
    Row(checkpoints.AFTER_TELL, 1),
    Row(checkpoints.AFTER_TELL, 3),
    Row(checkpoints.IN_RESCORING, 2),
    Row(checkpoints.IN_CONFIRMATION, 1),
    Row(checkpoints.IN_CONFIRMATION, 3),
    Row(checkpoints.IN_RECOMMENDATION, 1),
    Row(checkpoints.AFTER_CLAIM, 1),
    Row(checkpoints.AFTER_CLAIM, 1, process="worker"),
    Row(checkpoints.BEFORE_STOP, 1, process="worker", request="pause"),
    Row(checkpoints.BEFORE_STOP, 1, process="worker", request="cancel"),
    Row(checkpoints.BEFORE_RELEASE, 1, process="worker"),
)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_nothing_is_lost_or_repeated_after_a_kill(tmp_path: Path, row: Row) -> None:
    insistent = row.study is TWINS
    assert not drive(
        tmp_path,
        row.study,
        crash_at=row.point,
        occurrence=row.occurrence,
        insistent=insistent,
        process=row.process,
        request=row.request,
    )
    before = conclusive(history_of(tmp_path))
    if row.request is not None:
        # The next worker does what the dead one was asked to.
        assert drive(tmp_path, row.study, process="worker")
        assert history_of(tmp_path).study.state.value in ("paused", "cancelled")
        assert engines_alive(history_of(tmp_path)) == []
    assert drive(tmp_path, row.study, insistent=insistent)
    history = assert_whole(tmp_path, trials=row.trials)
    after = conclusive(history)
    assert before.items() <= after.items()
    assert sum(a.outcome is AttemptOutcome.LOST for a in history.attempts) <= 1


def test_every_point_is_tried_and_told_of() -> None:
    assert {row.point for row in ROWS} == set(checkpoints.ALL_CHECKPOINTS)
    matrix = (Path(__file__).parents[3] / "docs" / "crash-matrix.md").read_text()
    rows = [line for line in matrix.splitlines() if line.startswith("| `")]
    told = [line.split("|")[1].strip(" `") for line in rows]
    assert sorted(told) == sorted(checkpoints.ALL_CHECKPOINTS)


def test_scores_are_the_same_whether_or_not_rescoring_was_interrupted(tmp_path: Path) -> None:
    drive(tmp_path, STUDY, crash_at=checkpoints.IN_RESCORING, occurrence=1)
    drive(tmp_path, STUDY)
    history = history_of(tmp_path)
    assert score_value(history.trials[0].score) == pytest.approx(0)
    assert len([n for n in history.study.notices if n["kind"] == "noise"]) == 1


def test_a_study_killed_again_and_again_still_ends_whole(tmp_path: Path) -> None:
    kills = 0
    for point in dict.fromkeys(row.point for row in ROWS if row.study is STUDY):
        kills += not drive(tmp_path, STUDY, crash_at=point)
    drive(tmp_path, STUDY)
    assert kills >= 7
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
