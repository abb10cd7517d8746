from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path

from fastapi.testclient import TestClient

from api.app import create_app

ROOT = Path(__file__).parents[3]


def test_healthz_answers_with_the_version() -> None:
    with TestClient(create_app()) as client:
        response = client.get("/healthz")
    assert response.status_code == 200
    assert response.json() == {"status": "ok", "version": version("servetune")}


def test_unknown_paths_are_not_found() -> None:
    with TestClient(create_app()) as client:
        assert client.get("/nothing-here").status_code == 404


def test_two_applications_share_nothing() -> None:
    first, second = create_app(), create_app()
    first.state.mark = 1
    assert not hasattr(second.state, "mark")


def test_committed_openapi_document_is_current() -> None:
    committed = json.loads((ROOT / "docs" / "openapi.json").read_text())
    assert committed == create_app().openapi()
