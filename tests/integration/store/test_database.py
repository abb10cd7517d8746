from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from tests.support.ledger import SteppingClock, new_study
from tests.support.postgres import PostgresServer
from tuner.domain.states import StudyPhase
from tuner.errors import DatabaseError, SchemaNotCurrentError
from tuner.store import database as database_module
from tuner.store.database import Database, open_database
from tuner.store.unit_of_work import Store, Work


def pragma(database: Database, name: str) -> object:
    with database.session() as session:
        return session.scalar(text(f"PRAGMA {name}"))


def test_sqlite_is_durable_concurrent_and_checks_foreign_keys(sqlite_url: str) -> None:
    with open_database(sqlite_url) as database:
        assert pragma(database, "journal_mode") == "wal"
        assert pragma(database, "synchronous") == 2
        assert pragma(database, "foreign_keys") == 1
        assert pragma(database, "busy_timeout") == 30_000


def test_foreign_keys_hold(database: Database) -> None:
    insert = text(
        "INSERT INTO servetune_events (study_id, seq, kind, payload, at)"
        " VALUES (99, 1, 'notice', '{}', '2026-11-30 12:00:00')"
    )
    with pytest.raises(IntegrityError), database.transaction() as session:
        session.execute(insert)


def test_deleting_a_study_deletes_what_belongs_to_it(store: Store, study_id: int) -> None:
    with store.database.transaction() as session:
        session.execute(text("DELETE FROM servetune_studies"))
    with store.database.session() as session:
        assert session.scalar(text("SELECT count(*) FROM servetune_events")) == 0


def test_a_reader_sees_one_moment(store: Store, study_id: int) -> None:
    with store.reading() as reader:
        before = reader.studies.get(study_id)
        with store.writing() as writer:
            writer.studies.set_phase(study_id, StudyPhase.SEARCH)

        assert reader.studies.get(study_id) == before
        assert len(reader.events.after(study_id, 0)) == before.last_event_seq
    with store.reading() as reader:
        assert reader.studies.get(study_id).phase is StudyPhase.SEARCH


def test_a_write_is_visible_to_others_only_after_its_end(store: Store) -> None:
    with store.writing() as writer:
        new_study(writer)
        with store.reading() as reader:
            assert reader.studies.all() == ()
    with store.reading() as reader:
        assert len(reader.studies.all()) == 1


def test_a_closed_database_connects_again(database: Database) -> None:
    database.close()
    with database.session() as session:
        assert session.scalar(text("SELECT 1")) == 1


def test_opening_connects_to_nothing_and_makes_no_file(tmp_path: Path) -> None:
    open_database(f"sqlite:///{tmp_path / 'no.db'}").close()
    open_database("postgresql://nobody@127.0.0.1:1/none").close()

    assert list(tmp_path.iterdir()) == []


def test_a_missing_file_is_a_clear_error_and_is_not_made(empty_sqlite_url: str) -> None:
    with open_database(empty_sqlite_url) as database:
        with pytest.raises(DatabaseError) as caught, database.session() as session:
            session.execute(text("SELECT 1"))
        assert "db upgrade" in (caught.value.hint or "")
        path = database.url.sqlite_path
    assert path is not None
    assert not path.exists()


def test_a_file_that_is_no_database_is_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    path.write_text("these are my notes\n" * 100)

    with (
        open_database(f"sqlite:///{path}") as database,
        pytest.raises(DatabaseError, match="not an SQLite database"),
        database.session() as session,
    ):
        session.execute(text("SELECT * FROM servetune_studies"))


def test_a_full_disk_is_a_clear_error_and_loses_nothing(sqlite_url: str) -> None:
    with open_database(sqlite_url) as database:
        store = Store(database, SteppingClock())
        with store.writing() as work:
            study_id = new_study(work)
        with pytest.raises(DatabaseError, match="disk is full"):
            fill(database, study_id)
        database.close()
        with store.writing() as work:
            assert work.studies.get(study_id).notices == ()
            work.studies.add_notice(study_id, {"text": "there is room again"})


def fill(database: Database, study_id: int) -> None:
    """Write more than fits: SQLite reports a file at its page limit as it does a full disk."""
    with database.transaction() as session:
        pages = session.scalar(text("PRAGMA page_count"))
        session.execute(text(f"PRAGMA max_page_count = {pages}"))
        work = Work(session, SteppingClock())
        for number in range(100):
            work.studies.add_notice(study_id, {"number": number, "text": "x" * 4000})


WRITE_AND_REPORT = """
import sys
from tests.support.ledger import SteppingClock, new_study
from tuner.errors import DatabaseError
from tuner.store.database import open_database
from tuner.store.unit_of_work import Store, Work
with open_database(sys.argv[1]) as database:
    try:
        with Store(database, SteppingClock()).writing() as work:
            new_study(work)
    except DatabaseError as error:
        print(error)
"""


def test_a_read_only_file_is_a_clear_error(sqlite_url: str) -> None:
    Path(sqlite_url.removeprefix("sqlite:///")).chmod(0o444)
    # Root may write to any file by a capability, which the process is started without.
    as_anybody = ["setpriv", "--bounding-set=-dac_override"] if os.geteuid() == 0 else []
    command = [*as_anybody, sys.executable, "-c", WRITE_AND_REPORT, sqlite_url]
    done = subprocess.run(command, check=True, capture_output=True, text=True)

    assert "read-only" in done.stdout
    assert "hint: " in done.stdout


def test_a_writer_waits_for_another_and_gives_up_clearly(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "LOCK_WAIT_S", 0.05)
    with open_database(sqlite_url) as first, open_database(sqlite_url) as second:
        with (
            first.transaction(),
            pytest.raises(DatabaseError, match="locked"),
            second.transaction(),
        ):
            pytest.fail("two writers at once")
        with second.transaction() as session:
            assert session.scalar(text("SELECT 1")) == 1


@pytest.mark.postgres
def test_a_row_lock_is_waited_for_and_given_up_clearly(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "LOCK_WAIT_S", 0.05)
    with open_database(postgres_url) as first, open_database(postgres_url) as second:
        one, other = Store(first, SteppingClock()), Store(second, SteppingClock())
        with one.writing() as work:
            study_id = new_study(work)
        with one.writing() as holder:
            holder.studies.set_phase(study_id, StudyPhase.SEARCH)
            with pytest.raises(DatabaseError, match="locked"), other.writing() as work:
                work.studies.set_phase(study_id, StudyPhase.SEARCH)


@pytest.mark.postgres
def test_a_read_only_server_is_a_clear_error(
    postgres_server: PostgresServer, empty_postgres_url: str
) -> None:
    name = empty_postgres_url.rpartition("/")[2]
    postgres_server.execute("CREATE TABLE t (x int)", name)
    postgres_server.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")

    with (
        open_database(empty_postgres_url) as database,
        pytest.raises(DatabaseError, match="read-only"),
        database.transaction() as session,
    ):
        session.execute(text("INSERT INTO t VALUES (1)"))


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("user", "database_name", "expected"),
    [("nobody", "postgres", "refuses the login"), ("servetune", "no_such", "does not exist")],
)
def test_a_refused_connection_says_why_without_the_password(
    postgres_server: PostgresServer, user: str, database_name: str, expected: str
) -> None:
    url = f"postgresql://{user}:hunter2@127.0.0.1:{postgres_server.port}/{database_name}"
    with (
        open_database(url) as database,
        pytest.raises(DatabaseError, match=expected) as caught,
        database.session() as session,
    ):
        session.execute(text("SELECT 1"))

    assert "hunter2" not in str(caught.value)


@pytest.mark.postgres
def test_an_unreachable_server_is_a_clear_error() -> None:
    # Port 1 of the loopback interface: nothing listens there.
    with (
        open_database("postgresql://ann:hunter2@127.0.0.1:1/db") as database,
        pytest.raises(DatabaseError, match="not reachable") as caught,
        database.session() as session,
    ):
        session.execute(text("SELECT 1"))
    assert "hunter2" not in str(caught.value)


@pytest.mark.postgres
def test_a_connection_that_broke_is_replaced(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    with open_database(postgres_url) as database:
        with database.session() as session:
            pid = session.scalar(text("SELECT pg_backend_pid()"))
        postgres_server.execute(f"SELECT pg_terminate_backend({pid}, 10000)")
        with database.session() as session:
            assert session.scalar(text("SELECT pg_backend_pid()")) != pid


@pytest.mark.postgres
def test_a_connection_that_breaks_in_a_transaction_is_a_clear_error(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    with open_database(postgres_url) as database:
        store = Store(database, SteppingClock())
        with pytest.raises(DatabaseError, match="shutting down"):
            write_on_a_broken_connection(database, postgres_server)
        with store.reading() as work:
            assert work.studies.all() == ()


def write_on_a_broken_connection(database: Database, server: PostgresServer) -> None:
    with database.transaction() as session:
        work = Work(session, SteppingClock())
        new_study(work)
        pid = session.scalar(text("SELECT pg_backend_pid()"))
        server.execute(f"SELECT pg_terminate_backend({pid}, 10000)")
        new_study(work, "second")


def test_a_database_without_tables_asks_for_an_upgrade(empty_url: str) -> None:
    path = empty_url.removeprefix("sqlite:///")
    if path != empty_url:
        Path(path).touch()
    with (
        open_database(empty_url) as database,
        pytest.raises(SchemaNotCurrentError, match="db upgrade"),
        Store(database, SteppingClock()).reading() as work,
    ):
        work.studies.all()


@pytest.mark.postgres
def test_the_session_time_zone_does_not_matter(postgres_url: str) -> None:
    with open_database(f"{postgres_url}?options=-c%20TimeZone%3DAsia/Tokyo") as database:
        store = Store(database, SteppingClock())
        with store.writing() as work:
            made = work.studies.create("chat", "d", {}).study
        with store.reading() as work:
            assert work.studies.get(made.id) == made
