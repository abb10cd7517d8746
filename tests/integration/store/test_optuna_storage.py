from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from pathlib import Path

import optuna
import pytest
from optuna.storages import RDBStorage
from optuna.trial import TrialState as OptunaState
from sqlalchemy import text

from tests.support.ledger import SteppingClock, new_study
from tuner.errors import DatabaseError, SchemaNotCurrentError
from tuner.store import optuna_storage as optuna_storage_module
from tuner.store import schema
from tuner.store.database import open_database
from tuner.store.optuna_storage import close_optuna_storage, optuna_errors, optuna_storage
from tuner.store.unit_of_work import Store
from tuner.store.url import DatabaseUrl


@pytest.fixture
def storage(database_url: str) -> Iterator[RDBStorage]:
    opened = optuna_storage(database_url)
    yield opened
    close_optuna_storage(opened)


def test_ask_and_tell_work_beside_our_tables(database_url: str, storage: RDBStorage) -> None:
    study = optuna.create_study(storage=storage, study_name="chat@1")
    trial = study.ask({"x": optuna.distributions.FloatDistribution(0, 1)})
    study.tell(trial, 0.5)
    with open_database(database_url) as db, Store(db, SteppingClock()).writing() as work:
        new_study(work)

    assert [t.state for t in study.get_trials()] == [OptunaState.COMPLETE]
    schema.check(database_url)


def test_only_our_commits_wait_for_the_disk(sqlite_url: str) -> None:
    """Optuna's stand before ours in one log, and are on the disk with the next of ours."""
    normal, full = 1, 2
    opened = optuna_storage(sqlite_url)
    with opened.engine.connect() as connection:
        assert connection.execute(text("PRAGMA synchronous")).scalar() == normal
    close_optuna_storage(opened)
    with open_database(sqlite_url) as database, database.session() as session:
        assert session.execute(text("PRAGMA synchronous")).scalar() == full
        assert session.execute(text("PRAGMA journal_mode")).scalar() == "wal"


def test_both_ledgers_write_at_the_same_time(database_url: str, storage: RDBStorage) -> None:
    study = optuna.create_study(storage=storage, study_name="chat@1")
    with open_database(database_url) as database:
        store = Store(database, SteppingClock())
        for number in range(20):
            trial = study.ask({"x": optuna.distributions.FloatDistribution(0, 1)})
            with store.writing() as work:
                new_study(work, f"s{number}")
            study.tell(trial, trial.params["x"])

    assert len(study.get_trials()) == 20


def test_opening_gives_no_warning_and_changes_no_logging(database_url: str) -> None:
    logger = logging.getLogger("somebody.else")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        close_optuna_storage(optuna_storage(database_url))

    assert not logger.disabled


def test_opening_creates_nothing(empty_url: str) -> None:
    with pytest.raises((SchemaNotCurrentError, DatabaseError)):
        optuna_storage(empty_url)

    path = empty_url.removeprefix("sqlite:///")
    if path != empty_url:
        assert not Path(path).exists()
    else:
        with open_database(empty_url) as database, database.session() as session:
            tables = session.scalar(
                text("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")
            )
        assert tables == 0


def test_another_optunas_tables_ask_for_an_upgrade(database_url: str) -> None:
    with open_database(database_url) as database, database.transaction() as session:
        before = session.scalar(text("SELECT version_num FROM alembic_version"))
        session.execute(text("UPDATE alembic_version SET version_num = 'v3.0.0.d'"))
    try:
        with pytest.raises(SchemaNotCurrentError, match="older version") as caught:
            optuna_storage(database_url)
        assert "db upgrade" in (caught.value.hint or "")
    finally:
        with open_database(database_url) as database, database.transaction() as session:
            version = {"version": before}
            session.execute(text("UPDATE alembic_version SET version_num = :version"), version)


def test_a_locked_database_is_our_error_through_optuna(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(optuna_storage_module, "LOCK_WAIT_S", 0.05)
    storage = optuna_storage(sqlite_url)
    study = optuna.create_study(storage=storage, study_name="chat@1")
    try:
        with open_database(sqlite_url) as database:
            with (
                database.transaction(),
                pytest.raises(DatabaseError, match="locked"),
                optuna_errors(sqlite_url),
            ):
                study.ask()
            with optuna_errors(sqlite_url):
                assert study.ask().number == 0
    finally:
        close_optuna_storage(storage)


def test_what_optuna_cannot_explain_is_a_database_error() -> None:
    with (
        pytest.raises(DatabaseError, match="Optuna could not store") as caught,
        optuna_errors("postgresql://ann:hunter2@host/db"),
    ):
        raise optuna.exceptions.StorageInternalError("commit for hunter2 failed")

    assert "hunter2" not in str(caught.value)


def test_optunas_own_refusals_pass_through(sqlite_url: str) -> None:
    storage = optuna_storage(sqlite_url)
    study = optuna.create_study(storage=storage, study_name="chat@1")
    study.tell(study.ask(), 1.0)
    try:
        with pytest.raises(ValueError, match="Cannot tell"), optuna_errors(sqlite_url):
            study.tell(0, 2.0)
    finally:
        close_optuna_storage(storage)


@pytest.mark.postgres
def test_an_unreachable_server_is_our_error_through_optuna() -> None:
    with pytest.raises(DatabaseError, match="not reachable") as caught:
        optuna_storage("postgresql://ann:hunter2@127.0.0.1:1/db")

    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("name", ["with space", "per%20cent", "br{ace}", "que?stion", "ü"])
def test_any_file_name_works_for_optuna_too(tmp_path: Path, name: str) -> None:
    url = DatabaseUrl.of_file(tmp_path / f"{name}.db")
    schema.upgrade(url)
    schema.check(url)
    storage = optuna_storage(url)
    optuna.create_study(storage=storage, study_name="chat@1")
    close_optuna_storage(storage)

    assert (tmp_path / f"{name}.db").exists()
