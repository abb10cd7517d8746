from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import text

from tests.support.ledger import SetClock, new_study, worker_identity
from tuner.domain.states import WorkerState
from tuner.store.database import Database
from tuner.store.unit_of_work import Store
from tuner.store.workers import FORGOTTEN_AFTER_S, SILENT_AFTER_S


@pytest.fixture
def store(database: Database) -> Store:
    return Store(database, SetClock())


def grow_older(store: Store, worker_id: str, seconds: float) -> None:
    with store.writing() as work:
        worker = work.workers.find(worker_id)
    assert worker is not None
    with store.database.transaction() as session:
        session.execute(
            text("UPDATE servetune_workers SET last_seen_at = :at WHERE id = :id"),
            {
                "at": (worker.last_seen_at - timedelta(seconds=seconds)).replace(tzinfo=None)
                if store.database.url.sqlite_path
                else worker.last_seen_at - timedelta(seconds=seconds),
                "id": worker_id,
            },
        )


def test_a_registered_worker_is_known_with_its_process(store: Store) -> None:
    with store.writing() as work:
        made = work.workers.register(worker_identity("w1", pid=42))
    with store.reading() as work:
        found = work.workers.find("w1")
        assert work.workers.find("w2") is None

    assert found == made
    assert (made.pid, made.start_ticks, made.host, made.state) == (
        42,
        1000,
        "host-a",
        WorkerState.IDLE,
    )


def test_a_beat_says_what_a_worker_does(store: Store) -> None:
    with store.writing() as work:
        work.workers.register(worker_identity("w1"))
        study = new_study(work)
        work.workers.beat("w1", WorkerState.DRIVING, study)
    with store.reading() as work:
        (worker,) = work.workers.living()
    assert (worker.state, worker.study_id) == (WorkerState.DRIVING, study)


def test_a_worker_survives_the_study_it_drove(store: Store) -> None:
    with store.writing() as work:
        work.workers.register(worker_identity("w1"))
        study = new_study(work)
        work.workers.beat("w1", WorkerState.DRIVING, study)
        work.requests.delete(study)
    with store.reading() as work:
        (worker,) = work.workers.all()
    assert worker.study_id is None


def test_who_has_ended_or_fallen_silent_does_not_live(store: Store) -> None:
    with store.writing() as work:
        for name in ("ended", "silent", "alive"):
            work.workers.register(worker_identity(name))
        work.workers.beat("ended", WorkerState.GONE)
    grow_older(store, "silent", SILENT_AFTER_S + 5)
    with store.reading() as work:
        assert [worker.id for worker in work.workers.living()] == ["alive"]


def test_workers_of_long_ago_are_forgotten_unless_they_hold_a_lease(store: Store) -> None:
    with store.writing() as work:
        for name in ("old", "holder"):
            work.workers.register(worker_identity(name))
        new_study(work)
        work.leases.claim("holder")
    for name in ("old", "holder"):
        grow_older(store, name, FORGOTTEN_AFTER_S + 5)
    with store.writing() as work:
        work.workers.register(worker_identity("new"))
        assert {worker.id for worker in work.workers.all()} == {"holder", "new"}


def test_a_beat_of_nobody_is_an_error(store: Store) -> None:
    with store.writing() as work, pytest.raises(KeyError, match="no worker"):
        work.workers.beat("w9", WorkerState.IDLE)
