"""An application in this process and a client for it, as a caller on this machine sees it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient

from api.app import create_app
from api.settings import ApiSettings
from tuner.domain.access import Scope
from tuner.domain.clock import SystemClock
from tuner.store.database import open_database
from tuner.store.unit_of_work import Store
from tuner.store.url import DatabaseUrl

BASE_URL = "http://127.0.0.1:8000"
SIMULATED: dict[str, Any] = {
    "name": "chat",
    "model": {"id": "Qwen/Qwen2.5-7B-Instruct", "max_model_len": 4096},
    "engine": {"kind": "simulated", "gpu": "L4", "time_scale": 20},
    "workload": {
        "lengths": {
            "prompt_tokens": {"type": "constant", "value": 600},
            "output_tokens": {"type": "constant", "value": 20},
        }
    },
    "budget": {"trials": 3},
}


def api_settings(url: str, directory: Path, **changes: Any) -> ApiSettings:
    settings = ApiSettings(
        database=DatabaseUrl.parse(url), artifacts=directory / "artifacts", event_poll_s=0.02
    )
    return replace(settings, **changes)


@contextmanager
def client_of(settings: ApiSettings, key: str | None = None) -> Iterator[TestClient]:
    """A client of a fresh application; errors of ours are answers, not exceptions."""
    app = create_app(settings)
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    with TestClient(
        app, base_url=BASE_URL, headers=headers, raise_server_exceptions=False
    ) as client:
        yield client


@contextmanager
def store_at(url: str) -> Iterator[Store]:
    with open_database(url) as database:
        yield Store(database, SystemClock())


def make_key(url: str, *scopes: Scope, name: str = "test") -> str:
    """A key's text."""
    with store_at(url) as store, store.writing() as work:
        return work.keys.create(name, list(scopes) or [Scope.ADMIN]).text
