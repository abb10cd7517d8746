from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from tests.support.ledger import START, SteppingClock
from tuner.domain.access import Scope
from tuner.errors import InvalidInputError
from tuner.store.api_keys import use_is_due
from tuner.store.idempotency import KEPT_FOR, StoredAnswer
from tuner.store.unit_of_work import Store
from tuner.store.uploads import NewUpload

ANSWER = StoredAnswer("f" * 64, 201, {"Location": "/api/v1/studies/1"}, {"id": 1, "x": [None]})


class LateClock(SteppingClock):
    """The same steps, another day."""

    def __init__(self, later: timedelta) -> None:
        super().__init__()
        self._later = later

    def now(self) -> datetime:
        return super().now() + self._later


def test_a_key_is_known_again_by_its_text_only(store: Store) -> None:
    with store.writing() as work:
        made = work.keys.create("ci", [Scope.WRITE])
    with store.reading() as work:
        found = work.keys.authenticate(made.text)
        assert found is not None
        assert (found.id, found.name, found.scopes) == (made.record.id, "ci", (Scope.WRITE,))
        for wrong in (
            "",
            "st_",
            made.text[:-1],
            made.text + "x",
            made.text.upper(),
            "st_" + "0" * 56,
        ):
            assert work.keys.authenticate(wrong) is None


def test_no_part_of_the_secret_is_stored(store: Store) -> None:
    with store.writing() as work:
        made = work.keys.create("ci", [Scope.READ])
    secret = made.text.split("_", maxsplit=2)[2]  # it may hold underscores itself
    with store.database.session() as session:
        row = session.execute(text("SELECT * FROM servetune_api_keys")).one()
    assert secret not in str(row)
    assert made.text not in repr(made)


def test_a_revoked_or_expired_key_opens_nothing(store: Store) -> None:
    with store.writing() as work:
        revoked = work.keys.create("a", [Scope.ADMIN])
        expired = work.keys.create("b", [Scope.ADMIN], expires_at=START)
        first = work.keys.revoke(revoked.record.id)
        assert work.keys.revoke(revoked.record.id) == first
    with store.reading() as work:
        assert work.keys.authenticate(revoked.text) is None
        assert work.keys.authenticate(expired.text) is None
        assert not work.keys.any_active()
        assert [key.name for key in work.keys.all()] == ["a", "b"]


def test_an_active_key_is_seen(store: Store) -> None:
    with store.writing() as work:
        assert not work.keys.any_active()
        work.keys.create("a", [Scope.READ], expires_at=START + timedelta(days=1))
        assert work.keys.any_active()


@pytest.mark.parametrize("name", ["", "x" * 101, "a\nb", "\x1b[31m", "a\x00b"])
def test_names_that_would_forge_a_log_line_are_refused(store: Store, name: str) -> None:
    with store.writing() as work, pytest.raises(InvalidInputError, match="name of a key"):
        work.keys.create(name, [Scope.READ])


def test_a_key_needs_a_scope_and_an_unknown_one_cannot_be_revoked(store: Store) -> None:
    with store.writing() as work:
        with pytest.raises(InvalidInputError, match="scope"):
            work.keys.create("a", [])
        with pytest.raises(InvalidInputError, match="no key"):
            work.keys.revoke("0" * 12)


def test_use_is_noted_once_a_minute(store: Store) -> None:
    with store.writing() as work:
        made = work.keys.create("a", [Scope.READ]).record
        assert use_is_due(made, START)
        work.keys.note_use(made.id)
        work.keys.note_use("gone")
    with store.reading() as work:
        noted = work.keys.get(made.id)
    assert noted is not None
    assert noted.last_used_at is not None
    assert not use_is_due(noted, noted.last_used_at + timedelta(seconds=59))
    assert use_is_due(noted, noted.last_used_at + timedelta(seconds=60))


def test_a_session_lives_until_it_expires_or_is_closed(store: Store) -> None:
    with store.writing() as work:
        key = work.keys.create("a", [Scope.READ]).record
        opened = work.sessions.open(key.id, timedelta(hours=1))
        short = work.sessions.open(key.id, timedelta(microseconds=1))
    with store.reading() as work:
        found = work.sessions.find(opened.cookie)
        assert found is not None
        assert found.key_id == key.id
        assert found.accepts(opened.csrf_token)
        assert not found.accepts("")
        assert not found.accepts(opened.cookie)
        assert work.sessions.find(short.cookie) is None
        assert work.sessions.find("") is None
    with store.writing() as work:
        work.sessions.close(opened.cookie)
        work.sessions.close("gone")
        assert work.sessions.find(opened.cookie) is None


def test_neither_cookie_nor_csrf_token_is_stored(store: Store) -> None:
    with store.writing() as work:
        key = work.keys.create("a", [Scope.READ]).record
        opened = work.sessions.open(key.id, timedelta(hours=1))
    with store.database.session() as session:
        row = str(session.execute(text("SELECT * FROM servetune_sessions")).one())
    assert opened.cookie not in row
    assert opened.csrf_token not in row
    assert opened.cookie not in repr(opened)


def test_an_answer_is_found_under_its_principal_and_key(store: Store) -> None:
    with store.writing() as work:
        work.idempotency.keep("key:a", "k1", ANSWER)
    with store.reading() as work:
        assert work.idempotency.find("key:a", "k1") == ANSWER
        assert work.idempotency.find("key:b", "k1") is None
        assert work.idempotency.find("key:a", "k2") is None


def test_a_second_answer_under_the_same_key_is_refused_by_the_database(store: Store) -> None:
    with store.writing() as work:
        work.idempotency.keep("key:a", "k1", ANSWER)
    with pytest.raises(IntegrityError), store.writing() as work:
        work.idempotency.keep("key:a", "k1", ANSWER)


def test_answers_are_forgotten_after_a_day(store: Store) -> None:
    with store.writing() as work:
        work.idempotency.keep("key:a", "k1", ANSWER)
    later = Store(store.database, LateClock(KEPT_FOR + timedelta(minutes=1)))
    with later.reading() as work:
        assert work.idempotency.find("key:a", "k1") is None
    with later.writing() as work:
        work.idempotency.keep("key:a", "k1", ANSWER)
    with store.reading() as work:
        assert work.idempotency.find("key:a", "k1") is not None


def upload(sha256: str) -> NewUpload:
    return NewUpload("t.csv", "azure", 10, sha256, {"requests": 2}, "key:a")


def test_the_same_bytes_are_one_upload(store: Store) -> None:
    with store.writing() as work:
        first = work.uploads.add(upload("a" * 64))
        assert work.uploads.add(upload("a" * 64)) == first
        other = work.uploads.add(upload("b" * 64))
        assert work.uploads.total_bytes() == 20
    with store.reading() as work:
        assert work.uploads.get(first.id) == first
        assert work.uploads.get("nope") is None
        assert work.uploads.page(None, 1) == (first,)
        assert work.uploads.page(first.id, 5) == (other,)


def test_the_audit_trail_reads_from_the_newest(store: Store) -> None:
    with store.writing() as work:
        work.audit.record("key:a", "study.create", "chat@1", detail={"origin": "api"})
        work.audit.record("key:b", "study.cancel", "x" * 300, outcome="denied")
    with store.reading() as work:
        rows = work.audit.page(None, 10)
        assert [(row.principal, row.outcome) for row in rows] == [
            ("key:b", "denied"),
            ("key:a", "done"),
        ]
        assert len(rows[0].subject or "") == 255
        assert work.audit.page(rows[0].id, 10) == rows[1:]
