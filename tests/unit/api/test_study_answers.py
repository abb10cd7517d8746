"""What was computed of a study is computed once for all who ask at that moment."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier, Event

import pytest

from api.study_answers import StudyAnswers
from tests.support.study_records import study_record
from tuner.store.records import StudyRecord

ASKING = 8
WAIT_S = 30


@pytest.fixture
def study() -> StudyRecord:
    return replace(study_record(), last_event_seq=5)


def test_those_who_ask_at_once_wait_for_one_computation(study: StudyRecord) -> None:
    answers, together, made = StudyAnswers(), Barrier(ASKING), []
    release = Event()

    def make() -> object:
        made.append(1)
        release.wait(WAIT_S)
        return {"n": len(made)}

    def ask(_: int) -> bytes:
        together.wait(WAIT_S)
        release.set()
        return bytes(answers.json(study, "front", make).body)

    with ThreadPoolExecutor(ASKING) as pool:
        found = set(pool.map(ask, range(ASKING)))
    assert (found, len(made)) == ({b'{"n":1}'}, 1)


def test_an_answer_is_made_anew_after_the_studys_next_event(study: StudyRecord) -> None:
    answers = StudyAnswers()
    for seq, expected in ((5, b"5"), (6, b"6")):
        now = replace(study, last_event_seq=seq)
        assert answers.json(now, "front", lambda seq=seq: seq).body == expected  # type: ignore[misc]


def test_who_has_read_an_older_study_gets_the_newer_answer(study: StudyRecord) -> None:
    answers = StudyAnswers()
    answers.json(replace(study, last_event_seq=6), "front", lambda: "newer")
    assert answers.json(study, "front", lambda: "older").body == b'"newer"'


def test_a_mistake_while_computing_is_not_kept(study: StudyRecord) -> None:
    answers = StudyAnswers()

    def broken() -> object:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        answers.json(study, "front", broken)
    assert answers.json(study, "front", lambda: 1).body == b"1"
