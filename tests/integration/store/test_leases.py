from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.support.ledger import SetClock, new_study, new_trial
from tuner.domain.events import EventKind
from tuner.domain.states import StudyRequest, StudyState
from tuner.errors import AlreadyDrivenError, LeaseLostError
from tuner.store.database import Database
from tuner.store.leases import Claim
from tuner.store.records import HeldLease
from tuner.store.unit_of_work import Store

TTL_S = 30.0
LONG_AGO_S = -60.0
"""A lease time that has run out before it begins, on any clock."""


@pytest.fixture
def store(database: Database) -> Store:
    return Store(database, SetClock())


def claim(store: Store, worker: str = "a", ttl_s: float = TTL_S) -> Claim | None:
    with store.writing() as work:
        return work.leases.claim(worker, ttl_s)


def claimed(store: Store, worker: str = "a", ttl_s: float = TTL_S) -> Claim:
    found = claim(store, worker, ttl_s)
    assert found is not None
    return found


def study(store: Store, name: str = "chat") -> int:
    with store.writing() as work:
        return new_study(work, name)


def test_the_oldest_waiting_study_is_claimed_once(store: Store) -> None:
    first, second = study(store, "one"), study(store, "two")

    assert [claimed(store, "a").study_id, claimed(store, "b").study_id] == [first, second]
    assert claim(store, "c") is None


def test_a_claim_is_told_with_its_token(store: Store) -> None:
    number = study(store)
    claimed(store, "a", LONG_AGO_S)
    claimed(store, "b")

    told = [e for e in store.events_after(number, 0) if e.kind is EventKind.STUDY_CLAIMED]
    assert [dict(e.payload) for e in told] == [
        {"worker": "a", "token": 1, "taken_from": None},
        {"worker": "b", "token": 2, "taken_from": "a"},
    ]


def test_a_lease_that_ran_out_is_anybodys(store: Store) -> None:
    study(store)
    late = claimed(store, "a", LONG_AGO_S)
    next_one = claimed(store, "b")

    assert next_one.token == late.token + 1
    with store.writing() as work, pytest.raises(LeaseLostError, match="worker b drives it"):
        work.leases.require(late)


def test_a_lease_that_ran_out_is_renewed_while_nobody_else_has_claimed(store: Store) -> None:
    number = study(store)
    late = claimed(store, "a", LONG_AGO_S)
    with store.writing() as work:
        work.leases.renew(Claim(number, "a", late.token, TTL_S))

    assert claim(store, "b") is None


def test_what_a_driver_writes_after_its_lease_was_taken_is_refused_whole(store: Store) -> None:
    number = study(store)
    late = claimed(store, "a", LONG_AGO_S)
    claimed(store, "b")

    def write_late() -> None:
        with store.writing() as work:
            work.trials.propose(number, new_trial())
            work.leases.require(late)

    with pytest.raises(LeaseLostError):
        write_late()

    with store.reading() as work:
        assert work.trials.all(number) == ()


def test_renewing_tells_what_a_user_wants(store: Store) -> None:
    number = study(store)
    mine = claimed(store)
    with store.writing() as work:
        assert work.leases.renew(mine) is None
        work.requests.stop(number, StudyRequest.PAUSE)
    with store.reading() as work:
        assert work.leases.look(mine) is StudyRequest.PAUSE
    with store.writing() as work:
        assert work.leases.renew(mine) is StudyRequest.PAUSE


def test_a_released_study_is_free_and_its_token_used_up(store: Store) -> None:
    study(store)
    first = claimed(store, "a")
    with store.writing() as work:
        work.leases.release(first)
    second = claimed(store, "b")

    assert second.token == first.token + 1
    with store.writing() as work:
        work.leases.release(first)
        work.leases.require(second)


@pytest.mark.parametrize("state", [StudyState.PAUSED, StudyState.CANCELLED, StudyState.FAILED])
def test_a_study_that_rests_is_not_claimed_but_may_be_taken_by_name(
    store: Store, state: StudyState
) -> None:
    number = study(store)
    with store.writing() as work:
        work.studies.set_state(number, state)

    assert claim(store) is None
    with store.writing() as work:
        assert work.leases.claim_study(number, "a", TTL_S).study_id == number


def test_a_study_that_is_driven_is_refused_by_name_too(store: Store) -> None:
    number = study(store)
    claimed(store, "a")
    with store.writing() as work, pytest.raises(AlreadyDrivenError, match="driven by a"):
        work.leases.claim_study(number, "b", TTL_S)


def test_a_lease_whose_holder_is_known_to_be_dead_need_not_run_out(store: Store) -> None:
    number = study(store)
    claimed(store, "a")
    with store.writing() as work:
        (held,) = work.leases.held()
        assert (held.study_id, held.worker_id, held.token) == (number, "a", 1)
        taken = work.leases.claim("b", TTL_S, dead=[held])
    assert taken is not None
    with store.writing() as work:
        assert work.leases.claim("c", TTL_S, dead=[held]) is None


def test_a_dead_holder_that_has_renewed_meanwhile_was_not_dead(store: Store) -> None:
    study(store)
    claimed(store, "a")
    with store.writing() as work:
        (held,) = work.leases.held()
    other = HeldLease(held.study_id, "a", 1, held.expires_at - timedelta(seconds=1))
    with store.writing() as work:
        assert work.leases.claim("b", TTL_S, dead=[other]) is None


def test_a_study_a_worker_does_not_want_is_left_to_others(store: Store) -> None:
    first, second = study(store, "one"), study(store, "two")
    with store.writing() as work:
        taken = work.leases.claim("a", TTL_S, skip=[first])
    assert taken is not None
    assert taken.study_id == second


@pytest.mark.postgres
def test_leases_run_by_the_databases_clock_not_by_the_workers(postgres_url: str) -> None:
    from tuner.store.database import open_database

    clock = SetClock()
    clock.offset_s = 10**8
    with open_database(postgres_url) as opened, Store(opened, clock).writing() as work:
        new_study(work)
        taken = work.leases.claim("a", TTL_S)
        (held,) = work.leases.held()
    assert taken is not None
    assert abs(held.expires_at - datetime.now(UTC)) < timedelta(seconds=TTL_S + 300)
