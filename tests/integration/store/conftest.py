from __future__ import annotations

import pytest

from tests.support.ledger import SteppingClock, new_study
from tuner.store.database import Database
from tuner.store.unit_of_work import Store


@pytest.fixture
def clock() -> SteppingClock:
    return SteppingClock()


@pytest.fixture
def store(database: Database, clock: SteppingClock) -> Store:
    """The store on SQLite and on PostgreSQL."""
    return Store(database, clock)


@pytest.fixture
def study_id(store: Store) -> int:
    with store.writing() as work:
        return new_study(work)
