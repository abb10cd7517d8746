from __future__ import annotations

from datetime import UTC

import pytest

from tests.support.ledger import new_study, new_trial
from tuner.domain.events import EventKind
from tuner.domain.states import StudyPhase
from tuner.errors import UnknownStudyError
from tuner.store.unit_of_work import Store


def test_events_are_numbered_by_their_study(store: Store) -> None:
    with store.writing() as work:
        first, second = new_study(work, "a"), new_study(work, "b")
        for study_id in (first, second, first, first):
            work.events.append(study_id, EventKind.NOTICE, {"text": "x"})

    assert [event.seq for event in store.events_after(first, 0)] == [1, 2, 3, 4]
    assert [event.seq for event in store.events_after(second, 0)] == [1, 2]


def test_an_event_comes_back_as_it_was_appended(store: Store, study_id: int) -> None:
    payload = {"text": "☃", "nested": {"list": [1, 2.5, None, True]}}
    with store.writing() as work:
        work.trials.propose(study_id, new_trial())
        event = work.events.append(study_id, EventKind.NOTICE, payload, trial_number=0)

    assert store.events_after(study_id, event.seq - 1) == (event,)
    assert event.payload == payload
    assert event.trial_number == 0
    assert event.at.tzinfo is UTC


def test_a_reader_continues_after_any_number(store: Store, study_id: int) -> None:
    with store.writing() as work:
        for _ in range(4):
            work.events.append(study_id, EventKind.NOTICE)

    assert [event.seq for event in store.events_after(study_id, 3)] == [4, 5]
    assert [event.seq for event in store.events_after(study_id, 1, limit=2)] == [2, 3]
    assert store.events_after(study_id, 5) == ()
    assert store.events_after(study_id, 99) == ()
    assert store.events_after(study_id + 1, 0) == ()


def test_an_event_of_no_study_is_refused(store: Store) -> None:
    with pytest.raises(UnknownStudyError), store.writing() as work:
        work.events.append(5, EventKind.NOTICE)


def test_a_rolled_back_change_tells_nothing_and_leaves_no_gap(store: Store, study_id: int) -> None:
    with pytest.raises(RuntimeError, match="boom"):
        change_and_fail(store, study_id)
    with store.writing() as work:
        assert work.studies.get(study_id).phase is StudyPhase.BASELINE
        work.studies.set_phase(study_id, StudyPhase.CONFIRMATION)

    assert [event.seq for event in store.events_after(study_id, 0)] == [1, 2]


def change_and_fail(store: Store, study_id: int) -> None:
    with store.writing() as work:
        work.studies.set_phase(study_id, StudyPhase.SEARCH)
        raise RuntimeError("boom")


@pytest.mark.parametrize("kind", list(EventKind))
def test_every_kind_of_event_can_be_stored(store: Store, study_id: int, kind: EventKind) -> None:
    with store.writing() as work:
        work.events.append(study_id, kind)

    assert store.events_after(study_id, 1)[0].kind is kind
