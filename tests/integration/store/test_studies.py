from __future__ import annotations

from datetime import UTC
from typing import Any

import pytest

from tests.support.ledger import DOCUMENT, new_study
from tuner.domain.document import load_study, study_digest
from tuner.domain.events import EventKind
from tuner.domain.states import StudyPhase, StudyState
from tuner.errors import StudyChangedError, UnknownStudyError
from tuner.store.unit_of_work import Store

MINIMAL = "model: {id: Qwen/Qwen2.5-7B-Instruct}\nengine: {kind: simulated}\n"


def kinds(store: Store, study_id: int) -> list[EventKind]:
    return [event.kind for event in store.events_after(study_id, 0)]


def test_a_new_study_waits_in_its_first_phase(store: Store) -> None:
    with store.writing() as work:
        made = work.studies.create("chat", "d1", DOCUMENT)

    assert made.created
    study = made.study
    assert (study.name, study.generation, study.digest) == ("chat", 1, "d1")
    assert (study.state, study.phase) == (StudyState.QUEUED, StudyPhase.BASELINE)
    assert study.document == DOCUMENT
    assert study.reference == "chat@1"
    assert study.optuna_study_name.startswith("chat@1-")
    assert (study.space, study.calibration, study.recommendation, study.failure) == (None,) * 4
    assert (study.notices, study.started_at, study.ended_at) == ((), None, None)
    assert study.created_at.tzinfo is UTC
    assert kinds(store, study.id) == [EventKind.STUDY_CREATED]


def test_what_was_stored_is_what_another_session_reads(store: Store) -> None:
    with store.writing() as work:
        made = work.studies.create("chat", "d1", DOCUMENT)

    with store.reading() as work:
        assert work.studies.get(made.study.id) == made.study


def test_the_same_document_is_the_same_study(store: Store) -> None:
    with store.writing() as work:
        first = work.studies.create("chat", "d1", DOCUMENT)
    with store.writing() as work:
        again = work.studies.create("chat", "d1", DOCUMENT)

    assert not again.created
    assert again.study == first.study
    assert kinds(store, first.study.id) == [EventKind.STUDY_CREATED]


def test_another_document_of_the_name_asks_for_new(store: Store, study_id: int) -> None:
    with pytest.raises(StudyChangedError) as caught, store.writing() as work:
        work.studies.create("chat", "d2", DOCUMENT)

    assert "--new" in (caught.value.hint or "")
    with store.reading() as work:
        assert len(work.studies.all()) == 1


def test_a_study_of_an_older_version_is_found_by_its_document(store: Store) -> None:
    """That version did not know every key, so neither its document nor its digest has them."""
    spec = load_study(MINIMAL, where="the test")
    document = spec.model_dump(mode="json")
    older = {**document, "workload": dict(document["workload"])}
    del older["workload"]["load_processes"]
    with store.writing() as work:
        first = work.studies.create("chat", "of an older version", older)
    with store.writing() as work:
        again = work.studies.create("chat", study_digest(spec), document)
    assert not again.created
    assert again.study == first.study

    other = load_study(f"{MINIMAL}workload: {{load_processes: 2}}\n", where="the test")
    with pytest.raises(StudyChangedError), store.writing() as work:
        work.studies.create("chat", study_digest(other), other.model_dump(mode="json"))


def test_new_makes_the_next_generation_of_either_document(store: Store) -> None:
    with store.writing() as work:
        references = [
            work.studies.create("chat", digest, DOCUMENT, new=True).study.reference
            for digest in ("d1", "d2", "d2")
        ]

    assert references == ["chat@1", "chat@2", "chat@3"]


def test_an_older_generation_is_resumed_by_its_document(store: Store) -> None:
    with store.writing() as work:
        first = work.studies.create("chat", "d1", DOCUMENT).study
        work.studies.create("chat", "d2", DOCUMENT, new=True)
        resumed = work.studies.create("chat", "d1", DOCUMENT)

    assert not resumed.created
    assert resumed.study.id == first.id


def test_of_two_generations_of_one_document_the_newest_is_resumed(store: Store) -> None:
    with store.writing() as work:
        work.studies.create("chat", "d1", DOCUMENT)
        second = work.studies.create("chat", "d1", DOCUMENT, new=True).study

        assert work.studies.create("chat", "d1", DOCUMENT).study.id == second.id


def test_names_do_not_disturb_each_other(store: Store) -> None:
    with store.writing() as work:
        assert work.studies.create("a", "d1", DOCUMENT).created
        assert work.studies.create("b", "d1", DOCUMENT).created


def test_a_study_is_found_by_name_generation_or_id(store: Store) -> None:
    with store.writing() as work:
        first = work.studies.create("chat", "d1", DOCUMENT).study
        second = work.studies.create("chat", "d2", DOCUMENT, new=True).study

    with store.reading() as work:
        assert work.studies.find("chat").id == second.id
        assert work.studies.find("chat@1").id == first.id
        assert work.studies.find(str(first.id)).id == first.id


def test_a_name_that_looks_like_an_id_wins(store: Store) -> None:
    with store.writing() as work:
        other = new_study(work, "chat")
        named = new_study(work, str(other))

        assert work.studies.find(str(other)).id == named


@pytest.mark.parametrize(
    "reference",
    ["", "other", "chat@9", "chat@x", "@1", "999", "-1", "²", "9" * 30, "chat@" + "9" * 30],
)
def test_what_does_not_exist_is_unknown_and_names_what_does(
    store: Store, study_id: int, reference: str
) -> None:
    with pytest.raises(UnknownStudyError) as caught, store.reading() as work:
        work.studies.find(reference)

    assert "chat" in (caught.value.hint or "")


def test_in_an_empty_database_nothing_is_known(store: Store) -> None:
    with store.reading() as work:
        assert work.studies.all() == ()
        with pytest.raises(UnknownStudyError, match="no studies"):
            work.studies.find("chat")
        with pytest.raises(UnknownStudyError):
            work.studies.get(1)


def test_writing_to_a_study_that_does_not_exist_is_unknown(store: Store) -> None:
    with pytest.raises(UnknownStudyError), store.writing() as work:
        work.studies.set_state(77, StudyState.RUNNING)


def test_a_state_is_told_once(store: Store, study_id: int) -> None:
    for _ in range(2):
        with store.writing() as work:
            study = work.studies.set_state(study_id, StudyState.RUNNING)

    assert study.state is StudyState.RUNNING
    event = store.events_after(study_id, 1)[0]
    assert event.payload == {"from": "queued", "to": "running"}
    assert kinds(store, study_id) == [EventKind.STUDY_CREATED, EventKind.STUDY_STATE]


def test_start_and_end_are_noted(store: Store, study_id: int) -> None:
    with store.writing() as work:
        running = work.studies.set_state(study_id, StudyState.RUNNING)
        paused = work.studies.set_state(study_id, StudyState.PAUSED)
        resumed = work.studies.set_state(study_id, StudyState.RUNNING)
        complete = work.studies.set_state(study_id, StudyState.COMPLETE)

    assert running.started_at is not None
    assert resumed.started_at == paused.started_at == running.started_at
    assert paused.ended_at is None
    assert complete.ended_at is not None
    assert complete.ended_at > running.started_at


def test_a_failure_is_kept_until_the_study_goes_on(store: Store, study_id: int) -> None:
    failure = {"error": "ExecutableNotFoundError", "message": "no vllm"}
    with store.writing() as work:
        failed = work.studies.set_state(study_id, StudyState.FAILED, failure=failure)
        assert failed.failure == failure
        assert failed.ended_at is not None
        again = work.studies.set_state(study_id, StudyState.RUNNING, failure=failure)

    assert again.failure is None
    assert again.ended_at is None
    assert store.events_after(study_id, 1)[0].payload["failure"] == failure


def test_a_complete_study_stays_complete(store: Store, study_id: int) -> None:
    with store.writing() as work:
        work.studies.set_state(study_id, StudyState.COMPLETE)
    with pytest.raises(ValueError, match="is complete"), store.writing() as work:
        work.studies.set_state(study_id, StudyState.RUNNING)


def test_studies_are_listed_by_state(store: Store) -> None:
    with store.writing() as work:
        first, second = new_study(work, "a"), new_study(work, "b")
        work.studies.set_state(second, StudyState.RUNNING)

        assert [study.id for study in work.studies.all()] == [first, second]
        running = work.studies.all(states=[StudyState.RUNNING])
        assert [study.id for study in running] == [second]
        assert work.studies.all(states=[]) == ()


def test_phases_go_forward_only(store: Store, study_id: int) -> None:
    with store.writing() as work:
        work.studies.set_phase(study_id, StudyPhase.SEARCH)
        work.studies.set_phase(study_id, StudyPhase.SEARCH)
        study = work.studies.set_phase(study_id, StudyPhase.RECOMMENDATION)
    with pytest.raises(ValueError, match="cannot go back"), store.writing() as work:
        work.studies.set_phase(study_id, StudyPhase.CONFIRMATION)

    assert study.phase is StudyPhase.RECOMMENDATION
    assert [event.payload["to"] for event in store.events_after(study_id, 1)] == [
        "search",
        "recommendation",
    ]


def test_the_space_is_frozen(store: Store, study_id: int) -> None:
    space = {"tokens": {"low": 256, "high": 8192}}
    with store.writing() as work:
        work.studies.set_space(study_id, space)
        assert work.studies.set_space(study_id, space).space == space
    with pytest.raises(ValueError, match="frozen"), store.writing() as work:
        work.studies.set_space(study_id, {"tokens": {"low": 1, "high": 2}})

    assert kinds(store, study_id) == [EventKind.STUDY_CREATED]


def test_calibration_and_recommendation_are_told_whole(store: Store, study_id: int) -> None:
    calibration = {"rate_per_s": 4.5, "knee": None}
    recommendation = {"verdict": "keep_baseline", "interval": [-0.01, 0.02]}
    with store.writing() as work:
        work.studies.set_calibration(study_id, calibration)
        study = work.studies.set_recommendation(study_id, recommendation)

    assert study.calibration == calibration
    assert study.recommendation == recommendation
    told = store.events_after(study_id, 1)
    assert [event.kind for event in told] == [EventKind.LOAD_CALIBRATED, EventKind.RECOMMENDATION]
    assert [event.payload for event in told] == [calibration, recommendation]


def test_a_notice_is_given_once(store: Store, study_id: int) -> None:
    first, second = {"code": "prior_dropped"}, {"code": "rate_separates_nothing", "rate": 1.5}
    for notice in (first, first, second):
        with store.writing() as work:
            study = work.studies.add_notice(study_id, notice)

    assert study.notices == (first, second)
    assert kinds(store, study_id)[1:] == [EventKind.NOTICE, EventKind.NOTICE]


def test_the_last_events_number_is_on_the_record(store: Store, study_id: int) -> None:
    with store.writing() as work:
        work.studies.set_phase(study_id, StudyPhase.SEARCH)

    with store.reading() as work:
        study = work.studies.get(study_id)
        assert study.last_event_seq == store.events_after(study_id, 0)[-1].seq == 2
        assert study.updated_at > study.created_at


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_document_with_a_number_json_lacks_is_refused(store: Store, number: float) -> None:
    document: dict[str, Any] = {"rate": number}
    with pytest.raises(ValueError, match="JSON"), store.writing() as work:
        work.studies.create("chat", "d1", document)

    with store.reading() as work:
        assert work.studies.all() == ()


def test_any_text_is_stored(store: Store, study_id: int) -> None:
    text = "NUL \x00, half a surrogate \udcff, snow ☃, quote '"
    with store.writing() as work:
        work.studies.add_notice(study_id, {"text": text})

    with store.reading() as work:
        assert work.studies.get(study_id).notices == ({"text": text},)
