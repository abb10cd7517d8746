from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from api.app import create_app
from api.settings import ApiSettings
from tests.support.api_client import SIMULATED, api_settings, client_of, make_key
from tuner.domain.access import Scope


def scraped(client: TestClient, name: str) -> list[Sample]:
    answer = client.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    families = text_string_to_metric_families(answer.text)
    return [s for family in families for s in family.samples if s.name == name]


def routes(client: TestClient) -> dict[tuple[str, str, str], float]:
    return {
        (s.labels["method"], s.labels["route"], s.labels["status"]): s.value
        for s in scraped(client, "servetune_http_request_seconds_count")
    }


def test_studies_are_counted_by_state(client: TestClient) -> None:
    assert client.post("/api/v1/studies", json=SIMULATED).status_code == 201
    states = {s.labels["state"]: s.value for s in scraped(client, "servetune_studies")}
    assert states["queued"] == 1
    assert [s.value for s in scraped(client, "servetune_database_up")] == [1]
    assert [s.value for s in scraped(client, "servetune_sse_streams")] == [0]
    assert scraped(client, "servetune_build_info")[0].labels["version"]


def test_requests_are_counted_by_the_template_of_their_route(client: TestClient) -> None:
    for name in ("a", "b", "c@1"):
        assert client.get(f"/api/v1/studies/{name}").status_code == 404
    client.get("/api/v1/studies")
    found = routes(client)
    assert found["GET", "/api/v1/studies/{study}", "4xx"] == 3
    assert found["GET", "/api/v1/studies", "2xx"] == 1
    assert sum(s.value for s in scraped(client, "servetune_http_request_seconds_sum")) > 0


def test_what_a_caller_makes_up_makes_no_label(client: TestClient) -> None:
    for path in ("/nothing/1", "/nothing/2", "/api/v1/nothing"):
        client.get(path)
    client.request("BREW", "/api/v1/studies")
    client.get("/api/v1/studies", headers={"Host": "evil.example"})
    found = routes(client)
    assert found["GET", "none", "4xx"] == 4
    assert not any("nothing" in route for _, route, _ in found)
    assert {method for method, _, _ in found} <= {"GET", "other"}


def test_a_scrape_needs_a_key_with_the_scope_read(settings: ApiSettings, database_url: str) -> None:
    with client_of(settings) as stranger:
        assert stranger.get("/metrics").status_code == 401
    with client_of(settings, make_key(database_url, Scope.READ)) as reader:
        assert reader.get("/metrics").status_code == 200


def test_a_scrape_fails_while_the_database_that_knows_the_keys_is_away(
    sqlite_url: str, tmp_path: Path
) -> None:
    settings = api_settings(sqlite_url, tmp_path)
    file = Path(sqlite_url.removeprefix("sqlite:///"))
    key = make_key(sqlite_url, Scope.READ)
    anybody = replace(settings, authentication=False)
    with client_of(settings, key) as reader, client_of(anybody) as local:
        file.rename(file.with_suffix(".away"))
        assert reader.get("/metrics").status_code == 503
        assert [s.value for s in scraped(local, "servetune_database_up")] == [0]
        assert scraped(local, "servetune_studies") == []
        file.with_suffix(".away").rename(file)
        assert reader.get("/metrics").status_code == 200


def test_without_authentication_anybody_on_this_machine_may_scrape(
    settings: ApiSettings,
) -> None:
    with client_of(replace(settings, authentication=False)) as client:
        assert client.get("/metrics").status_code == 200


def test_two_applications_count_apart(settings: ApiSettings, database_url: str) -> None:
    key = make_key(database_url, Scope.READ)
    with client_of(settings, key) as first, client_of(settings, key) as second:
        first.get("/healthz")
        assert ("GET", "/healthz", "2xx") in routes(first)
        assert ("GET", "/healthz", "2xx") not in routes(second)


@pytest.mark.parametrize("accept", ["", "application/openmetrics-text; version=1.0.0"])
def test_both_text_formats_are_spoken(client: TestClient, accept: str) -> None:
    answer = client.get("/metrics", headers={"Accept": accept})
    assert answer.status_code == 200
    assert ("# EOF" in answer.text) == accept.startswith("application/openmetrics")


def test_making_an_application_opens_no_database(settings: ApiSettings) -> None:
    assert create_app(settings).state.services.metrics.registry is not None
