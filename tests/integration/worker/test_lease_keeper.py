from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from tests.support.ledger import new_study, worker_identity
from tests.support.worker_runs import until
from tuner.domain.cancellation import Cancellation
from tuner.domain.clock import SystemClock
from tuner.domain.states import StudyRequest, WorkerState
from tuner.store.database import Database, open_database
from tuner.store.leases import Claim
from tuner.store.unit_of_work import Store
from tuner.worker.lease_keeper import LeaseKeeper

POLL_S = 0.02


@pytest.fixture
def store(database: Database) -> Store:
    return Store(database, SystemClock())


def claimed(store: Store, ttl_s: float) -> Claim:
    with store.writing() as work:
        new_study(work)
        work.workers.register(worker_identity("a"))
        claim = work.leases.claim("a", ttl_s)
    assert claim is not None
    return claim


def taken_by(store: Store, worker_id: str) -> bool:
    with store.writing() as work:
        return work.leases.claim(worker_id, dead=work.leases.held()) is not None


def keeper(store: Store, claim: Claim, cancellation: Cancellation) -> LeaseKeeper:
    return LeaseKeeper(store, claim, cancellation, SystemClock(), poll_s=POLL_S)


def expires_at(store: Store) -> float:
    with store.reading() as work:
        (held,) = work.leases.held()
    return held.expires_at.timestamp()


def test_the_lease_is_renewed_and_the_worker_seen(store: Store) -> None:
    claim, cancellation = claimed(store, 0.3), Cancellation()
    first = expires_at(store)
    with keeper(store, claim, cancellation):
        until(lambda: expires_at(store) > first + 0.5, "it was renewed again and again")
        with store.reading() as work:
            worker = work.workers.find("a")
    assert worker is not None
    assert (worker.state, worker.study_id) == (WorkerState.DRIVING, claim.study_id)
    assert not cancellation.requested


def test_a_user_is_heard(store: Store) -> None:
    claim, cancellation = claimed(store, 30), Cancellation()
    with keeper(store, claim, cancellation):
        with store.writing() as work:
            work.requests.stop(claim.study_id, StudyRequest.PAUSE)
        assert cancellation.pause(60)
    assert cancellation.reason == "a user asked to pause the study"


def test_a_lost_token_stops_the_driver(store: Store) -> None:
    claim, cancellation = claimed(store, 30), Cancellation()
    with keeper(store, claim, cancellation):
        until(lambda: taken_by(store, "b"), "it was taken between two renewals")
        assert cancellation.pause(60)
    assert cancellation.reason is not None
    assert "worker b drives it" in cancellation.reason


def test_a_lease_that_ran_out_is_no_reason_to_stop(store: Store) -> None:
    claim, cancellation = claimed(store, 0.3), Cancellation()
    with store.writing() as work:
        work.leases.renew(Claim(claim.study_id, "a", claim.token, -60))
    with keeper(store, claim, cancellation):
        now = time.time()
        until(lambda: expires_at(store) > now, "it was renewed although it had run out")
    assert not cancellation.requested


def test_a_database_that_is_away_is_no_reason_to_stop(sqlite_url: str, tmp_path: Path) -> None:
    path, away = tmp_path / "servetune.db", tmp_path / "away.db"
    with open_database(sqlite_url) as database:
        store = Store(database, SystemClock())
        claim, cancellation = claimed(store, 0.3), Cancellation()
        first = expires_at(store)
        database.close()
        path.rename(away)
        with keeper(store, claim, cancellation) as keeping:
            until(lambda: keeping._away, "it noticed")
            away.rename(path)
            until(lambda: expires_at(store) > first, "it renewed when the database was back")
    assert not cancellation.requested


def test_it_renews_beside_a_driver_that_computes(sqlite_url: str) -> None:
    """Many short calls that each hold the interpreter's lock, as a sampler's numpy phase does."""
    with open_database(sqlite_url) as database:
        store = Store(database, SystemClock())
        claim, cancellation = claimed(store, 1.5), Cancellation()
        begun = time.monotonic()
        late: list[float] = []
        with keeper(store, claim, cancellation):
            values = np.arange(2000.0)
            while time.monotonic() - begun < 4.0:
                for _ in range(200):
                    np.sort(values[::-1]).tolist()
                late.append(expires_at(store) - time.time())
    assert min(late) > 0
    assert not cancellation.requested
