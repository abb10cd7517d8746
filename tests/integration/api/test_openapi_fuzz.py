"""Whatever the OpenAPI document allows, and much that it does not: no answer is our mistake."""

from __future__ import annotations

import re
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from sqlalchemy import Engine, event

from api.app import create_app
from api.settings import ApiSettings, Limits
from tests.support.api_client import BASE_URL, SIMULATED, api_settings, make_key, store_at
from tests.support.ledger import new_trial
from tuner.domain.access import Scope
from tuner.domain.states import TrialOrigin

EXAMPLES = 5
"""Per operation, mode and choice of path."""

KNOWN = {"study": "chat", "number": 0, "name": "engine.log", "upload": "abc", "key_id": "0" * 12}
ENDLESS = r"/events$"
MODES = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)


def seeded(url: str) -> None:
    """The study `chat` with a trial, whatever an operation before has done to it."""
    with store_at(url) as store, store.writing() as work:
        made = work.studies.create("chat", "d", {**SIMULATED})
        if made.created:
            work.trials.propose(made.study.id, new_trial(origin=TrialOrigin.BASELINE))


def fuzz(service: ApiSettings, url: str, headers: dict[str, str]) -> Counter[int]:
    """How often each status was answered by all operations together."""
    schema = schemathesis.openapi.from_asgi(
        "/api/v1/openapi.json", create_app(service), headers={"Host": "127.0.0.1:8000"}
    )
    statuses: Counter[int] = Counter()
    for found in schema.exclude(path_regex=ENDLESS).get_all_operations():
        operation = cast(Any, found).ok()
        known = {p.name: KNOWN[p.name] for p in operation.path_parameters}
        for mode in MODES:
            for paths in ({}, known) if known else ({},):
                seeded(url)
                call(operation, mode, paths, headers, statuses)
    return statuses


def call(
    operation: Any,
    mode: GenerationMode,
    paths: dict[str, Any],
    headers: dict[str, str],
    statuses: Counter[int],
) -> None:
    given_paths = {"path_parameters": paths} if paths else {}

    @given(case=operation.as_strategy(generation_mode=mode, **given_paths))
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def answered(case: Any) -> None:
        answer = case.call(base_url=BASE_URL, headers=headers)
        statuses[answer.status_code] += 1
        case.validate_response(answer, checks=[not_a_server_error])
        if answer.status_code >= 400:
            assert answer.headers["content-type"][0].startswith("application/problem+json")

    with suppress(Unsatisfiable):  # there is nothing about a request without parts to get wrong
        answered()


OTHERS = {
    "alembic_version",
    "servetune_alembic_version",
    "version_info",
    "sqlite_master",
    "studies",
}
"""What readiness looks at besides, and Optuna's `studies`, whose ledger a deletion takes along."""


@pytest.fixture
def tables() -> Iterator[set[str]]:
    """Every table that was named in a statement."""
    named: set[str] = set()

    def executed(_c: object, _k: object, statement: str, *_: object) -> None:
        named.update(re.findall(r"\b(?:FROM|JOIN|INTO|UPDATE)\s+\"?(\w+)", statement, re.I))

    event.listen(Engine, "before_cursor_execute", executed)
    yield named
    event.remove(Engine, "before_cursor_execute", executed)


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Where to somebody tried to connect from here: nobody who answers requests should."""
    tried: list[object] = []

    def connect(_: socket.socket, address: object) -> None:
        tried.append(address)
        raise ConnectionRefusedError

    monkeypatch.setattr(socket.socket, "connect", connect)
    return tried


@pytest.fixture
def service(sqlite_url: str, tmp_path: Path) -> ApiSettings:
    plenty = Limits(requests_per_minute=10**6, failures_per_minute=10**6)
    return api_settings(sqlite_url, tmp_path, limits=plenty)


@pytest.mark.timeout(600)
def test_with_a_key_no_request_finds_a_mistake_of_ours(
    service: ApiSettings, sqlite_url: str, tables: set[str], connections: list[object]
) -> None:
    """Nor makes it the service ask anybody else, or read another program's tables."""
    key = make_key(sqlite_url, Scope.ADMIN)
    statuses = fuzz(service, sqlite_url, {"Authorization": f"Bearer {key}"})
    assert statuses.total() > 300
    assert statuses[200] > 50
    assert statuses[422] > 50
    assert connections == []
    assert "servetune_studies" in tables
    assert {name for name in tables - OTHERS if not name.startswith("servetune_")} == set()


@pytest.mark.timeout(600)
def test_without_a_key_nobody_gets_anywhere(service: ApiSettings, sqlite_url: str) -> None:
    statuses = fuzz(service, sqlite_url, {})
    assert statuses.total() > 300
    assert statuses[401] > 100
    with store_at(sqlite_url) as store, store.reading() as work:
        assert work.keys.all() == ()
        assert [study.name for study in work.studies.all()] == ["chat"]
