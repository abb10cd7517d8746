from __future__ import annotations

import pytest

from tests.support.study_fakes import ManualClock
from tests.support.study_records import study_record, trial_record
from tuner.domain.events import Event
from tuner.domain.states import StudyPhase, TrialState
from tuner.domain.study_spec import StudySpec
from tuner.study.budget import Spent, planned_starts
from tuner.study.executor import LoadStatus
from tuner.study.ledger import History
from tuner.study.monitor import ProgressMonitor
from tuner.study.progress import StudyProgress

SPEC = StudySpec.model_validate(
    {"model": {"id": "m"}, "engine": {"kind": "vllm"}, "budget": {"trials": 4}}
)
HISTORY = History(study_record(), (trial_record(0, score=0.0), trial_record(1, score=0.3)), (), ())


class Watcher:
    def __init__(self) -> None:
        self.seen: list[StudyProgress] = []

    def happened(self, event: Event) -> None:
        """Not watched here."""

    def progressed(self, progress: StudyProgress) -> None:
        self.seen.append(progress)


class Watched:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.watcher = Watcher()
        self.monitor = ProgressMonitor(SPEC, self.watcher, self.clock)

    @property
    def last(self) -> StudyProgress:
        return self.watcher.seen[-1]


def account(starts: int, mean_s: float | None = 60.0) -> Spent:
    return Spent(trials=1, starts=starts, gpu_minutes=1.0, mean_attempt_s=mean_s)


def test_the_standing_is_the_stores() -> None:
    watched = Watched()
    watched.monitor.standing(HISTORY, account(2))
    last = watched.last
    assert last.phase is StudyPhase.SEARCH
    assert (last.trials_done, last.trials_total) == (1, 4)
    assert (last.starts_done, last.starts_total) == (2, planned_starts(SPEC))
    assert (last.best_trial, last.best_score) == (1, 0.3)


def test_time_left_is_unknown_before_an_attempt_has_ended() -> None:
    watched = Watched()
    watched.monitor.standing(HISTORY, account(0, None))
    assert watched.last.time_left_s is None


def test_time_left_shrinks_while_an_attempt_runs() -> None:
    watched = Watched()
    watched.monitor.standing(HISTORY, account(2), starts_left=3)
    assert watched.last.time_left_s == pytest.approx(180)
    watched.monitor.attempt_started(2)
    watched.clock.elapsed_s += 20
    watched.monitor.loading(LoadStatus("latency", 1, 2, 3, measuring=True))
    assert watched.last.time_left_s == pytest.approx(160)
    assert watched.last.load is not None
    watched.clock.elapsed_s += 1000
    watched.monitor.entered(TrialState.STOPPING)
    assert watched.last.time_left_s == pytest.approx(120)


def test_a_longer_confirmation_moves_the_total() -> None:
    watched = Watched()
    watched.monitor.standing(HISTORY, account(50))
    assert watched.last.starts_total == 50
    watched.monitor.standing(HISTORY, account(20), starts_left=4)
    assert watched.last.starts_total == 24


def test_between_attempts_no_trial_is_shown() -> None:
    watched = Watched()
    watched.monitor.attempt_started(3)
    watched.monitor.entered(TrialState.MEASURING)
    assert (watched.last.trial_number, watched.last.trial_state) == (3, TrialState.MEASURING)
    watched.monitor.attempt_ended()
    assert (watched.last.trial_number, watched.last.trial_state) == (None, None)
