from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path

from api.app import create_app
from tests.support.api_client import api_settings, client_of

ROOT = Path(__file__).parents[3]


def nowhere(directory: Path) -> str:
    return f"sqlite:///{directory / 'none.db'}"


def test_healthz_answers_with_the_version_and_without_a_database(tmp_path: Path) -> None:
    with client_of(api_settings(nowhere(tmp_path), tmp_path)) as client:
        response = client.get("/healthz")
    assert response.status_code == 200
    assert response.json() == {"status": "ok", "version": version("servetune")}


def test_readyz_says_that_there_is_no_database(tmp_path: Path) -> None:
    with client_of(api_settings(nowhere(tmp_path), tmp_path)) as client:
        response = client.get("/readyz")
    assert response.status_code == 503
    assert response.json()["database"] == "not current"


def test_unknown_paths_are_problems(tmp_path: Path) -> None:
    with client_of(api_settings(nowhere(tmp_path), tmp_path)) as client:
        for path in ("/nothing-here", "/api/v1/nothing", "/docs", "/redoc"):
            response = client.get(path)
            assert response.status_code == 404
            assert response.headers["content-type"] == "application/problem+json"
            assert response.json()["instance"] == path


def test_two_applications_share_nothing(tmp_path: Path) -> None:
    settings = api_settings(nowhere(tmp_path), tmp_path)
    first, second = create_app(settings), create_app(settings)
    first.state.mark = 1
    assert not hasattr(second.state, "mark")
    assert first.state.services is not second.state.services


def test_committed_openapi_document_is_current(tmp_path: Path) -> None:
    committed = json.loads((ROOT / "docs" / "openapi.json").read_text())
    assert committed == create_app(api_settings(nowhere(tmp_path), tmp_path)).openapi()


def test_every_operation_has_a_stable_id_and_tells_of_problems(tmp_path: Path) -> None:
    document = create_app(api_settings(nowhere(tmp_path), tmp_path)).openapi()
    operations = [
        (path, operation)
        for path, methods in document["paths"].items()
        for operation in methods.values()
    ]
    identifiers = [operation["operationId"] for _, operation in operations]
    assert len(set(identifiers)) == len(identifiers) > 30
    for path, operation in operations:
        assert operation["operationId"].isalnum()
        if path.startswith("/api/"):
            assert "application/problem+json" in operation["responses"]["422"]["content"]


def test_every_reference_in_the_document_leads_somewhere(tmp_path: Path) -> None:
    document = create_app(api_settings(nowhere(tmp_path), tmp_path)).openapi()
    known = set(document["components"]["schemas"])
    for part in json.dumps(document).split('"#/components/schemas/')[1:]:
        assert part.partition('"')[0] in known
