"""Databases as earlier versions left them, with a finished study in each, upgraded to this one."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import optuna
import psycopg
import pytest
from alembic import command

from tests.support.ledger import SteppingClock
from tuner.domain.states import AttemptPurpose, StudyOrigin, StudyState, TrialState
from tuner.errors import SchemaNotCurrentError
from tuner.store import schema
from tuner.store.database import Database, open_database
from tuner.store.optuna_storage import close_optuna_storage, optuna_storage
from tuner.store.unit_of_work import Store
from tuner.study.report import trial_summary

DUMPS = Path(__file__).parent / "dumps"
RELEASES = ["0001"]


def restore(url: str, release: str) -> None:
    """Fill an empty database from the dump that `release` left of this kind of database."""
    kind = "sqlite" if url.startswith("sqlite") else "postgresql"
    text = (DUMPS / f"{release}.{kind}.sql").read_text()
    if kind == "sqlite":
        connection = sqlite3.connect(url.removeprefix("sqlite:///"))
        connection.executescript(text)
        connection.close()
        return
    with psycopg.connect(url, autocommit=True) as connection_:
        connection_.execute(text.encode())


@pytest.fixture(params=RELEASES)
def old_url(request: pytest.FixtureRequest, empty_url: str) -> str:
    restore(empty_url, request.param)
    return empty_url


def store_of(database: Database) -> Store:
    return Store(database, SteppingClock())


def test_an_old_database_is_refused_until_it_is_upgraded(old_url: str) -> None:
    with pytest.raises(SchemaNotCurrentError, match="of an older version"):
        schema.check(old_url)
    schema.upgrade(old_url)
    schema.check(old_url)


def test_every_study_trial_and_event_is_there_after_the_upgrade(old_url: str) -> None:
    schema.upgrade(old_url)
    with open_database(old_url) as database, store_of(database).reading() as work:
        finished, waiting = work.studies.all()
        trials = work.trials.all(finished.id)
        events = work.events.after(finished.id, 0)
        assert (finished.state, waiting.state) == (StudyState.COMPLETE, StudyState.QUEUED)
        assert [t.state for t in trials] == [TrialState.COMPLETE] * 3
        assert [e.seq for e in events] == list(range(1, finished.last_event_seq + 1))
        assert (waiting.lease, waiting.requested) == (None, None)
        assert waiting.origin is StudyOrigin.CLI


def test_measured_trials_get_the_summary_that_new_ones_are_stored_with(old_url: str) -> None:
    schema.upgrade(old_url)
    with open_database(old_url) as database, store_of(database).reading() as work:
        for trial in work.trials.all(1):
            searched = work.measurements.of_study(1, purposes=[AttemptPurpose.SEARCH])
            (measured,) = (m for m in searched if m.trial_number == trial.number)
            now = trial_summary(measured.measurement)
            quantities = now["quantities"]
            assert isinstance(quantities, dict)
            # What is summarised only since then, nobody had measured.
            assert quantities.pop("max_rate_per_s") is None
            assert trial.summary == now


def test_optuna_still_knows_its_study(old_url: str) -> None:
    schema.upgrade(old_url)
    storage = optuna_storage(old_url)
    study = optuna.load_study(storage=storage, study_name="chat@1")
    assert [t.state.name for t in study.get_trials()] == ["COMPLETE"] * 2
    close_optuna_storage(storage)


def test_the_models_describe_an_upgraded_database(old_url: str) -> None:
    schema.upgrade(old_url)
    with schema.migration_connection(old_url) as connection:
        command.check(schema.migration_config(connection))


def test_an_upgrade_can_be_undone_without_losing_what_the_old_release_knew(old_url: str) -> None:
    schema.upgrade(old_url)
    with schema.migration_connection(old_url) as connection:
        command.downgrade(schema.migration_config(connection), RELEASES[0])
    schema.upgrade(old_url)
    with open_database(old_url) as database, store_of(database).reading() as work:
        assert len(work.studies.all()) == 2
        assert all(trial.summary is not None for trial in work.trials.all(1))


def test_a_new_study_of_an_upgraded_database_gets_an_id_nobody_had(old_url: str) -> None:
    schema.upgrade(old_url)
    with open_database(old_url) as database, store_of(database).writing() as work:
        assert work.studies.create("new", "digest", {}).study.id == 3
