from __future__ import annotations

import pytest

from tests.support.ledger import SetClock, new_attempt, new_study, new_trial
from tests.support.study_measurements import measurement
from tuner.domain.engine_config import EngineConfig
from tuner.domain.events import EventKind
from tuner.domain.states import (
    AttemptOutcome,
    StudyPhase,
    StudyRequest,
    StudyState,
    TrialOrigin,
    TrialState,
)
from tuner.errors import LeaseLostError, StudyStateError, UnknownStudyError
from tuner.store.database import Database
from tuner.store.leases import Claim
from tuner.store.records import AttemptEnd
from tuner.store.trials import TrialEnd
from tuner.store.unit_of_work import Store

PAUSE, CANCEL = StudyRequest.PAUSE, StudyRequest.CANCEL
CONFIG = EngineConfig.of({"max-num-seqs": 64})


@pytest.fixture
def store(database: Database) -> Store:
    return Store(database, SetClock())


@pytest.fixture
def study_id(store: Store) -> int:
    with store.writing() as work:
        return new_study(work)


def drive(store: Store, study_id: int, ttl_s: float = 30) -> Claim:
    with store.writing() as work:
        work.studies.set_state(study_id, StudyState.RUNNING)
        return work.leases.claim_study(study_id, "a", ttl_s)


def state_of(store: Store, study_id: int) -> tuple[StudyState, StudyRequest | None]:
    with store.reading() as work:
        study = work.studies.get(study_id)
    return study.state, study.requested


@pytest.mark.parametrize(
    ("request_", "state"), [(PAUSE, StudyState.PAUSED), (CANCEL, StudyState.CANCELLED)]
)
def test_a_study_nobody_drives_stops_at_once(
    store: Store, study_id: int, request_: StudyRequest, state: StudyState
) -> None:
    with store.writing() as work:
        work.requests.stop(study_id, request_)

    assert state_of(store, study_id) == (state, None)


@pytest.mark.parametrize(
    ("request_", "state"), [(PAUSE, StudyState.PAUSED), (CANCEL, StudyState.CANCELLED)]
)
def test_a_driver_is_asked_and_then_says_that_it_stopped(
    store: Store, study_id: int, request_: StudyRequest, state: StudyState
) -> None:
    drive(store, study_id)
    with store.writing() as work:
        work.requests.stop(study_id, request_, by="ann")
    assert state_of(store, study_id) == (StudyState.RUNNING, request_)
    with store.writing() as work:
        work.requests.stopped(study_id, StudyState.QUEUED)

    assert state_of(store, study_id) == (state, None)
    told = store.events_after(study_id, 0)
    asked = [e.payload for e in told if e.kind is EventKind.STUDY_REQUESTED]
    assert asked == [{"request": request_.value, "by": "ann"}]


def test_a_driver_that_stops_unasked_leaves_the_study_as_it_says(
    store: Store, study_id: int
) -> None:
    drive(store, study_id)
    with store.writing() as work:
        work.requests.stopped(study_id, StudyState.QUEUED)

    assert state_of(store, study_id) == (StudyState.QUEUED, None)


def test_a_driver_whose_lease_ran_out_is_fenced_off_by_a_pause(store: Store, study_id: int) -> None:
    late = drive(store, study_id, ttl_s=-60)
    with store.writing() as work:
        work.requests.stop(study_id, PAUSE)

    assert state_of(store, study_id) == (StudyState.PAUSED, None)
    with store.writing() as work, pytest.raises(LeaseLostError, match="it was taken away"):
        work.leases.require(late)


def test_cancel_overrides_pause_and_not_the_other_way_round(store: Store, study_id: int) -> None:
    drive(store, study_id)
    for request in (PAUSE, CANCEL, PAUSE):
        with store.writing() as work:
            work.requests.stop(study_id, request)

    assert state_of(store, study_id) == (StudyState.RUNNING, CANCEL)


def test_a_request_can_be_taken_back_before_it_was_acted_on(store: Store, study_id: int) -> None:
    drive(store, study_id)
    with store.writing() as work:
        work.requests.stop(study_id, PAUSE)
        work.requests.resume(study_id)
        work.requests.stopped(study_id, StudyState.QUEUED)

    assert state_of(store, study_id) == (StudyState.QUEUED, None)


@pytest.mark.parametrize("state", [StudyState.PAUSED, StudyState.CANCELLED, StudyState.FAILED])
def test_what_rests_is_resumed_by_queueing_it(
    store: Store, study_id: int, state: StudyState
) -> None:
    with store.writing() as work:
        work.studies.set_state(study_id, state, failure={"message": "why"})
        resumed = work.requests.resume(study_id)

    assert (resumed.state, resumed.failure, resumed.ended_at) == (StudyState.QUEUED, None, None)


def test_the_same_request_again_tells_nothing_new(store: Store, study_id: int) -> None:
    with store.writing() as work:
        work.requests.stop(study_id, PAUSE)
        last = work.studies.get(study_id).last_event_seq
        work.requests.stop(study_id, PAUSE)
        assert work.studies.get(study_id).last_event_seq == last


def test_a_complete_study_refuses_every_request(store: Store, study_id: int) -> None:
    with store.writing() as work:
        work.studies.set_state(study_id, StudyState.COMPLETE)
        for request in StudyRequest:
            with pytest.raises(StudyStateError, match="is complete"):
                work.requests.stop(study_id, request)
        with pytest.raises(StudyStateError, match="cannot resume"):
            work.requests.resume(study_id)


def test_deleting_takes_everything_of_the_study_and_nothing_else(
    store: Store, study_id: int
) -> None:
    with store.writing() as work:
        other = new_study(work, "other")
        for study in (study_id, other):
            work.trials.propose(study, new_trial())
            attempt = work.attempts.start(study, 0, new_attempt())
            end = AttemptEnd(AttemptOutcome.MEASURED, measurement=measurement())
            work.finish_trial(study, 0, TrialEnd(TrialState.COMPLETE), attempt.id, end)
        work.requests.delete(study_id)

    with store.reading() as work:
        with pytest.raises(UnknownStudyError):
            work.studies.get(study_id)
        assert work.trials.all(study_id) == ()
        assert work.measurements.of_study(study_id) == ()
        assert work.events.after(study_id, 0) == ()
        assert len(work.measurements.of_study(other)) == 1


def test_a_driven_study_is_not_deleted(store: Store, study_id: int) -> None:
    drive(store, study_id)
    with store.writing() as work, pytest.raises(StudyStateError, match="cancel it first"):
        work.requests.delete(study_id)


def test_a_study_of_a_deleted_ones_name_has_a_ledger_of_its_own(
    store: Store, study_id: int
) -> None:
    with store.writing() as work:
        before = work.studies.get(study_id)
        work.requests.delete(study_id)
        after = work.studies.get(new_study(work))

    assert before.reference == after.reference
    assert before.optuna_study_name != after.optuna_study_name


def test_a_trial_by_hand_waits_behind_the_baseline(store: Store, study_id: int) -> None:
    with store.writing() as work:
        added = work.trials.add_manual(study_id, CONFIG, "ann")
        baseline = work.trials.propose(study_id, new_trial(8, origin=TrialOrigin.BASELINE))

    assert (baseline.number, added.trial.number, added.added) == (0, 1, True)
    assert (added.trial.origin, added.trial.state) == (TrialOrigin.MANUAL, TrialState.QUEUED)
    assert added.trial.requested_by == "ann"


def test_a_configuration_that_is_known_is_not_added_again(store: Store, study_id: int) -> None:
    with store.writing() as work:
        first = work.trials.add_manual(study_id, CONFIG, None)
        again = work.trials.add_manual(study_id, CONFIG, None)

    assert (again.trial.number, again.added) == (first.trial.number, False)


def test_a_configuration_that_failed_through_us_may_be_tried_again(
    store: Store, study_id: int
) -> None:
    with store.writing() as work:
        first = work.trials.add_manual(study_id, CONFIG, None)
        work.trials.finish(study_id, first.trial.number, TrialEnd(TrialState.FAILED))
        assert work.trials.add_manual(study_id, CONFIG, None).added


def test_no_trial_is_added_once_the_search_is_over(store: Store, study_id: int) -> None:
    with store.writing() as work:
        work.studies.set_phase(study_id, StudyPhase.CONFIRMATION)
        with pytest.raises(StudyStateError, match="search is over"):
            work.trials.add_manual(study_id, CONFIG, None)


def test_studies_are_listed_in_pages_newest_first(store: Store) -> None:
    with store.writing() as work:
        ids = [new_study(work, f"s{number}") for number in range(5)]
        work.studies.set_state(ids[3], StudyState.PAUSED)
    with store.reading() as work:
        first = work.studies.page(limit=2)
        second = work.studies.page(after_id=first[-1].id, limit=2)
        queued = work.studies.page([StudyState.QUEUED])

    assert [s.id for s in (*first, *second)] == [ids[4], ids[3], ids[2], ids[1]]
    assert [s.id for s in queued] == [ids[4], ids[2], ids[1], ids[0]]
