"""Fixtures that every kind of test may use; heavy imports wait until one is asked for."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from tests.support.podman import Podman
    from tests.support.postgres import PostgresServer
    from tuner.store.database import Database

# How long an example takes depends on what else the machine does: no test asserts it. The examples
# of a run are always the same ones, so that a commit that passed passes again; new ones are looked
# for with HYPOTHESIS_PROFILE=explore.
settings.register_profile("servetune", parent=settings(), deadline=None, derandomize=True)
settings.register_profile("explore", parent=settings(), deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "servetune"))

_KINDS = ("sqlite", pytest.param("postgresql", marks=pytest.mark.postgres))


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One PostgreSQL server for the whole run."""
    from tests.support.postgres import postgres_server

    with postgres_server() as server:
        yield server


@pytest.fixture(scope="session")
def podman() -> Iterator[Podman]:
    """One container engine for the whole run."""
    from tests.support.podman import podman_service

    with podman_service() as service:
        yield service


@pytest.fixture(scope="session")
def _upgraded_postgres(postgres_server: PostgresServer) -> str:
    from tuner.store import schema

    name = postgres_server.create_database()
    schema.upgrade(postgres_server.url(name))
    return name


@pytest.fixture(scope="session")
def _sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tuner.store import schema

    path = tmp_path_factory.mktemp("template") / "servetune.db"
    schema.upgrade(f"sqlite:///{path}")
    return path


@pytest.fixture
def empty_postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """A PostgreSQL database without any table."""
    name = postgres_server.create_database()
    yield postgres_server.url(name)
    postgres_server.drop_database(name)


@pytest.fixture
def empty_sqlite_url(tmp_path: Path) -> str:
    """An SQLite database whose file does not exist yet."""
    return f"sqlite:///{tmp_path / 'servetune.db'}"


@pytest.fixture(params=_KINDS)
def empty_url(request: pytest.FixtureRequest) -> str:
    """A database without any table, on SQLite and on PostgreSQL."""
    kind = "empty_sqlite_url" if request.param == "sqlite" else "empty_postgres_url"
    url: str = request.getfixturevalue(kind)
    return url


@pytest.fixture
def sqlite_url(_sqlite_template: Path, tmp_path: Path) -> str:
    """An SQLite database with the current schema."""
    path = tmp_path / "servetune.db"
    shutil.copy(_sqlite_template, path)
    return f"sqlite:///{path}"


@pytest.fixture
def postgres_url(postgres_server: PostgresServer, _upgraded_postgres: str) -> Iterator[str]:
    """A PostgreSQL database with the current schema and no rows; leave the schema as it is."""
    yield postgres_server.url(_upgraded_postgres)
    postgres_server.empty_tables(_upgraded_postgres)


@pytest.fixture(params=_KINDS)
def database_url(request: pytest.FixtureRequest) -> str:
    """A database with the current schema, on SQLite and on PostgreSQL."""
    kind = "sqlite_url" if request.param == "sqlite" else "postgres_url"
    url: str = request.getfixturevalue(kind)
    return url


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """An open database with the current schema, on SQLite and on PostgreSQL."""
    from tuner.store.database import open_database

    with open_database(database_url) as opened:
        yield opened
