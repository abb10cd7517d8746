from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from api.settings import ApiSettings
from tests.support.api_client import api_settings, client_of, make_key
from tuner.domain.access import Scope


@pytest.fixture
def settings(database_url: str, tmp_path: Path) -> ApiSettings:
    """A front end on SQLite and on PostgreSQL, with authentication."""
    return api_settings(database_url, tmp_path)


@pytest.fixture
def client(settings: ApiSettings, database_url: str) -> Iterator[TestClient]:
    """A caller with a write key."""
    with client_of(settings, make_key(database_url, Scope.WRITE)) as found:
        yield found
