from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.ledger import new_attempt, new_trial
from tests.support.study_measurements import measurement
from tuner.domain.events import EventKind
from tuner.domain.states import AttemptOutcome, StudyPhase, StudyState, TrialState
from tuner.store.records import AttemptEnd, AttemptRecord, ProcessRecord
from tuner.store.trials import TrialEnd
from tuner.store.unit_of_work import Store, Work

MEASURED = AttemptEnd(AttemptOutcome.MEASURED, measurement=measurement())
COMPLETE = TrialEnd(TrialState.COMPLETE, score={"value": 0.5})


@pytest.fixture
def attempt(store: Store, study_id: int) -> AttemptRecord:
    with store.writing() as work:
        work.trials.propose(study_id, new_trial())
        work.trials.propose(study_id, new_trial(64))
        return work.attempts.start(study_id, 0, new_attempt())


def test_finishing_a_trial_is_one_change(
    store: Store, study_id: int, attempt: AttemptRecord
) -> None:
    told = len(store.events_after(study_id, 0))
    with store.writing() as work:
        finished = work.finish_trial(study_id, 0, COMPLETE, attempt.id, MEASURED)

    assert finished.state is TrialState.COMPLETE
    with store.reading() as work:
        assert work.attempts.get(attempt.id).outcome is AttemptOutcome.MEASURED
        record = work.measurements.of_attempts([attempt.id]).get(attempt.id)
    assert record is not None
    assert record.measurement == MEASURED.measurement
    assert [event.kind for event in store.events_after(study_id, told)] == [
        EventKind.ATTEMPT_ENDED,
        EventKind.TRIAL_STATE,
        EventKind.TRIAL_SCORED,
    ]


@pytest.mark.parametrize(
    "end",
    [
        TrialEnd(TrialState.MEASURING),
        TrialEnd(TrialState.COMPLETE, score={"value": float("nan")}),
    ],
    ids=["live state", "score that is no number"],
)
def test_if_any_part_fails_nothing_is_stored(
    store: Store, study_id: int, attempt: AttemptRecord, end: TrialEnd
) -> None:
    told = len(store.events_after(study_id, 0))
    with pytest.raises(ValueError, match=r"cannot end|JSON"), store.writing() as work:
        work.finish_trial(study_id, 0, end, attempt.id, MEASURED)

    with store.reading() as work:
        assert work.attempts.get(attempt.id).outcome is AttemptOutcome.RUNNING
        assert work.measurements.of_attempts([attempt.id]).get(attempt.id) is None
        assert work.trials.get(study_id, 0).state is TrialState.LAUNCHING
    assert len(store.events_after(study_id, 0)) == told


def test_a_trial_is_finished_by_its_own_attempt_only(
    store: Store, study_id: int, attempt: AttemptRecord
) -> None:
    with pytest.raises(ValueError, match="not one of trial 1"), store.writing() as work:
        work.finish_trial(study_id, 1, COMPLETE, attempt.id, MEASURED)


def test_a_trial_is_finished_once(store: Store, study_id: int, attempt: AttemptRecord) -> None:
    with store.writing() as work:
        work.finish_trial(study_id, 0, COMPLETE, attempt.id, MEASURED)
    with pytest.raises(ValueError, match="already"), store.writing() as work:
        work.finish_trial(study_id, 0, COMPLETE, attempt.id, MEASURED)


WRITES: dict[str, Callable[[Work, int, int], object]] = {
    "study state": lambda w, s, a: w.studies.set_state(s, StudyState.RUNNING),
    "phase": lambda w, s, a: w.studies.set_phase(s, StudyPhase.SEARCH),
    "space": lambda w, s, a: w.studies.set_space(s, {}),
    "create": lambda w, s, a: w.studies.create("other", "d", {}),
    "propose": lambda w, s, a: w.trials.propose(s, new_trial()),
    "move": lambda w, s, a: w.trials.move(s, 0, TrialState.MEASURING),
    "finish": lambda w, s, a: w.trials.finish(s, 0, COMPLETE),
    "attempt": lambda w, s, a: w.attempts.start(s, 1, new_attempt()),
    "processes": lambda w, s, a: w.attempts.set_processes(
        a, guard=ProcessRecord(1, 1), engine=ProcessRecord(2, 2), port=1
    ),
    "end": lambda w, s, a: w.attempts.end(a, MEASURED),
    "event": lambda w, s, a: w.events.append(s, EventKind.NOTICE),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_write_while_reading_is_refused_not_lost(
    store: Store, study_id: int, attempt: AttemptRecord, name: str
) -> None:
    with pytest.raises(RuntimeError, match=r"Database\.transaction"), store.reading() as work:
        WRITES[name](work, study_id, attempt.id)
