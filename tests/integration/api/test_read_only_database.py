"""A database that takes no writes: reading goes on, nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import event

from api.settings import ApiSettings
from tests.support.api_client import SIMULATED, client_of, make_key
from tuner.domain.access import Scope


@pytest.fixture
def fresh(settings: ApiSettings, database_url: str) -> Iterator[TestClient]:
    """A caller whose key was never used: its first use would be noted."""
    with client_of(settings, make_key(database_url, Scope.WRITE)) as found:
        yield found


@contextmanager
def read_only(client: TestClient) -> Iterator[None]:
    """Every connection that the service takes refuses to write."""
    engine = client.app.state.services.store.database.engine  # type: ignore[attr-defined]

    def refuse(connection: Any, record: object, proxy: object) -> None:
        if engine.dialect.name == "sqlite":
            connection.execute("PRAGMA query_only = ON")
        else:
            connection.read_only = True

    event.listen(engine, "checkout", refuse)
    try:
        yield
    finally:
        event.remove(engine, "checkout", refuse)
        engine.dispose()


def test_reading_goes_on(fresh: TestClient) -> None:
    with read_only(fresh):
        assert fresh.get("/api/v1/studies").status_code == 200
        assert fresh.get("/readyz").status_code == 200


def test_a_study_is_refused_for_now_and_made_once_when_writing_works_again(
    fresh: TestClient,
) -> None:
    headers = {"Idempotency-Key": "once"}
    with read_only(fresh):
        refused = fresh.post("/api/v1/studies?new=true", json=SIMULATED, headers=headers)
    assert refused.status_code == 503
    assert refused.headers["retry-after"]
    assert refused.headers["content-type"] == "application/problem+json"
    made = fresh.post("/api/v1/studies?new=true", json=SIMULATED, headers=headers)
    again = fresh.post("/api/v1/studies?new=true", json=SIMULATED, headers=headers)
    assert (made.status_code, again.status_code) == (201, 201)
    assert made.json()["id"] == again.json()["id"]
    assert len(fresh.get("/api/v1/studies").json()["items"]) == 1
