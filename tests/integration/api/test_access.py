"""Who gets in, and what is refused to everybody."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient

from api.app import create_app
from api.settings import ApiSettings, Limits
from tests.support.api_client import (
    BASE_URL,
    SIMULATED,
    api_settings,
    client_of,
    make_key,
    store_at,
)
from tuner.domain.access import Scope

OPEN = {("/healthz", "GET"), ("/readyz", "GET"), ("/api/v1/session", "POST")}
ADMIN = {
    ("/api/v1/keys", "GET"),
    ("/api/v1/keys", "POST"),
    ("/api/v1/keys/{key_id}", "DELETE"),
    ("/api/v1/audit", "GET"),
}
READING_POSTS = {("/api/v1/studies/{study}/rescore", "POST")}
OWN = {("/api/v1/session", "GET"), ("/api/v1/session", "DELETE")}


@pytest.fixture
def settings(sqlite_url: str, tmp_path: Path) -> ApiSettings:
    return api_settings(sqlite_url, tmp_path)


@pytest.fixture
def stranger(settings: ApiSettings) -> Iterator[TestClient]:
    """A caller without a key."""
    with client_of(settings) as client:
        yield client


def operations(settings: ApiSettings) -> list[tuple[str, str]]:
    document = create_app(settings).openapi()
    return [
        (path, method.upper()) for path, methods in document["paths"].items() for method in methods
    ]


def address(path: str) -> str:
    for name, value in (("{study}", "chat"), ("{number}", "0"), ("{name}", "engine.log")):
        path = path.replace(name, value)
    return path.replace("{key_id}", "0" * 12).replace("{upload}", "abc")


def test_nothing_but_probes_and_login_answers_without_a_key(
    settings: ApiSettings, stranger: TestClient
) -> None:
    found = operations(settings)
    assert len(found) > 30
    for path, method in found:
        if (path, method) in OPEN:
            continue
        answer = stranger.request(method, address(path), headers={"Content-Type": "text/csv"})
        assert answer.status_code == 401, (path, method)
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.headers["content-type"] == "application/problem+json"


def test_a_key_for_reading_changes_nothing(settings: ApiSettings, sqlite_url: str) -> None:
    with client_of(settings, make_key(sqlite_url, Scope.READ)) as reader:
        for path, method in operations(settings):
            if method == "GET" or (path, method) in OPEN | READING_POSTS | OWN:
                continue
            answer = reader.request(method, address(path), headers={"Content-Type": "text/csv"})
            assert answer.status_code in (403, 404, 415), (path, method, answer.text)
            if answer.status_code == 404:  # there is no such study to change
                assert "chat" in answer.text
        assert reader.post("/api/v1/studies", json=SIMULATED).status_code == 403
    with store_at(sqlite_url) as store, store.reading() as work:
        assert work.studies.all() == ()
        denied = work.audit.page(None, 50)
    assert {row.outcome for row in denied} == {"denied"}


def test_keys_and_audit_are_for_administrators(settings: ApiSettings, sqlite_url: str) -> None:
    with client_of(settings, make_key(sqlite_url, Scope.WRITE)) as writer:
        for path, method in ADMIN:
            assert writer.request(method, address(path), json={}).status_code in (403, 422), path
        made = writer.post("/api/v1/keys", json={"name": "mine", "scopes": ["admin"]})
        assert made.status_code == 403
    with client_of(settings, make_key(sqlite_url, Scope.ADMIN)) as admin:
        made = admin.post("/api/v1/keys", json={"name": "ci", "scopes": ["read"]})
        assert made.status_code == 201
        text, key_id = made.json()["key"], made.json()["id"]
        header = {"Authorization": f"Bearer {text}"}
        assert admin.get("/api/v1/studies", headers=header).status_code == 200
        listed = admin.get("/api/v1/keys")
        assert text.split("_", maxsplit=2)[2] not in listed.text
        assert admin.delete(f"/api/v1/keys/{key_id}").json()["revoked_at"] is not None
        assert admin.get("/api/v1/studies", headers=header).status_code == 401
        assert admin.delete("/api/v1/keys/ffffffffffff").status_code == 404
        trail = admin.get("/api/v1/audit").json()["items"]
        assert [row["action"] for row in trail][:2] == ["key.revoke", "key.create"]
        assert text.split("_", maxsplit=2)[2] not in str(trail)


@pytest.mark.parametrize(
    "header",
    [
        "Bearer",
        "Bearer nonsense",
        "Bearer st_000000000000_" + "A" * 43,
        "Basic YTpi",
        "bearer st_",
        "Bearer \x00",
    ],
)
def test_what_is_no_key_opens_nothing(stranger: TestClient, header: str) -> None:
    answer = stranger.get("/api/v1/studies", headers={"Authorization": header})
    assert answer.status_code == 401


def test_many_wrong_keys_from_one_address_have_to_wait(
    settings: ApiSettings, sqlite_url: str
) -> None:
    few = replace(settings, limits=Limits(failures_per_minute=3))
    wrong = {"Authorization": "Bearer st_000000000000_" + "A" * 43}
    right = {"Authorization": f"Bearer {make_key(sqlite_url, Scope.READ)}"}
    with client_of(few) as client:
        found = [client.get("/api/v1/studies", headers=wrong).status_code for _ in range(5)]
        assert found == [401, 401, 401, 429, 429]
        assert client.get("/api/v1/studies", headers=right).status_code == 200


def test_too_many_requests_have_to_wait(settings: ApiSettings) -> None:
    few = replace(settings, limits=Limits(requests_per_minute=3))
    with client_of(few) as client:
        answers = [client.get("/healthz") for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert int(answers[-1].headers["retry-after"]) >= 1
    assert answers[-1].json()["status"] == 429


def logged_in(client: TestClient, key: str) -> str:
    """Open a browser's session; returns its CSRF token."""
    answer = client.post("/api/v1/session", json={"key": key})
    assert answer.status_code == 201
    set_cookies = answer.headers.get_list("set-cookie")
    session = next(c for c in set_cookies if c.startswith("servetune_session="))
    assert {"httponly", "samesite=strict", "path=/"} <= set(session.lower().split("; "))
    csrf = next(c for c in set_cookies if c.startswith("servetune_csrf="))
    assert "httponly" not in csrf.lower()
    assert "samesite=strict" in csrf.lower()
    return str(client.cookies["servetune_csrf"])


def test_a_browser_session_needs_its_token_to_change_anything(
    settings: ApiSettings, sqlite_url: str, stranger: TestClient
) -> None:
    token = logged_in(stranger, make_key(sqlite_url, Scope.WRITE))
    assert stranger.get("/api/v1/studies").status_code == 200
    assert stranger.get("/api/v1/session").json()["scopes"] == ["write"]
    assert stranger.post("/api/v1/studies", json=SIMULATED).status_code == 403
    wrong = {"X-CSRF-Token": token[::-1]}
    assert stranger.post("/api/v1/studies", json=SIMULATED, headers=wrong).status_code == 403
    right = {"X-CSRF-Token": token}
    assert stranger.post("/api/v1/studies", json=SIMULATED, headers=right).status_code == 201
    cookies = dict(stranger.cookies)
    assert stranger.delete("/api/v1/session", headers=right).status_code == 204
    stranger.cookies.update(cookies)  # a thief's copy is worth nothing now
    assert stranger.get("/api/v1/studies").status_code == 401


def test_a_session_ends_with_its_time_and_with_its_key(
    settings: ApiSettings, sqlite_url: str, stranger: TestClient
) -> None:
    key = make_key(sqlite_url, Scope.READ)
    logged_in(stranger, key)
    with store_at(sqlite_url) as store, store.writing() as work:
        work.keys.revoke(work.keys.all()[0].id)
    assert stranger.get("/api/v1/studies").status_code == 401
    brief = replace(settings, session_lifetime=timedelta(seconds=0))
    with client_of(brief) as client:
        client.post("/api/v1/session", json={"key": make_key(sqlite_url, Scope.READ)})
        assert client.get("/api/v1/studies").status_code == 401


@pytest.mark.parametrize("body", [{"key": "x"}, {"key": "st_" + "0" * 12 + "_" + "A" * 43}])
def test_a_wrong_key_opens_no_session(stranger: TestClient, body: dict[str, str]) -> None:
    answer = stranger.post("/api/v1/session", json=body)
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers


def test_a_key_is_not_repeated_in_an_answer(stranger: TestClient) -> None:
    secret = "st_000000000000_" + "S" * 300
    answer = stranger.post("/api/v1/session", json={"key": secret, "extra": secret})
    assert answer.status_code == 422
    assert "SSSS" not in answer.text


def test_other_hosts_and_other_sites_pages_are_refused(
    settings: ApiSettings, sqlite_url: str
) -> None:
    with client_of(settings, make_key(sqlite_url, Scope.ADMIN)) as client:
        rebound = client.get("/api/v1/studies", headers={"Host": "evil.example"})
        assert rebound.status_code == 421
        assert client.get("/healthz", headers={"Host": "evil.example"}).status_code == 421
        foreign = {"Origin": "https://evil.example"}
        assert client.post("/api/v1/studies", json=SIMULATED, headers=foreign).status_code == 403
        own = {"Origin": BASE_URL}
        assert client.post("/api/v1/studies", json=SIMULATED, headers=own).status_code == 201
        preflight = client.options("/api/v1/studies", headers=foreign)
        assert "access-control-allow-origin" not in preflight.headers
    named = replace(settings, allowed_hosts=("tuner.example",))
    with client_of(named) as client:
        assert client.get("/healthz", headers={"Host": "tuner.example"}).status_code == 200


def test_without_authentication_a_foreign_page_still_changes_nothing(
    settings: ApiSettings,
) -> None:
    with client_of(replace(settings, authentication=False)) as client:
        assert client.get("/api/v1/session").json() == {
            "principal": "local",
            "scopes": ["admin"],
            "authentication": False,
        }
        foreign = {"Origin": "https://evil.example", "Content-Type": "text/plain"}
        assert client.post("/api/v1/studies", content="{}", headers=foreign).status_code == 403
        fetched = {"Sec-Fetch-Site": "cross-site"}
        assert client.post("/api/v1/studies/1/cancel", headers=fetched).status_code == 403
        assert client.post("/api/v1/studies", json=SIMULATED).status_code == 201


def test_every_answer_carries_the_security_headers(
    settings: ApiSettings, stranger: TestClient
) -> None:
    app = stranger.app
    for path in ("/healthz", "/api/v1/studies", "/nothing"):
        answer = stranger.get(path)
        policy = answer.headers["content-security-policy"]
        assert "script-src 'self';" in policy
        assert "unsafe-eval" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert "server" not in answer.headers
    assert stranger.get("/api/v1/studies").headers["cache-control"] == "no-store"
    assert app is not None


def test_a_mistake_of_ours_is_a_problem_that_tells_nothing_of_the_inside(
    settings: ApiSettings, caplog: pytest.LogCaptureFixture
) -> None:
    app = create_app(settings)

    def broken() -> None:
        raise ZeroDivisionError("the secret inside")

    app.router.routes.insert(0, APIRoute("/broken", broken))
    with TestClient(app, base_url=BASE_URL, raise_server_exceptions=False) as client:
        answer = client.get("/broken")
    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert "secret" not in answer.text
    assert "content-security-policy" in answer.headers
    assert any(r.exc_info and r.exc_info[0] is ZeroDivisionError for r in caplog.records)


def test_a_database_that_is_away_is_503_and_says_nothing_of_where_it_is(
    settings: ApiSettings, sqlite_url: str, tmp_path: Path
) -> None:
    key = make_key(sqlite_url, Scope.WRITE)
    with client_of(settings, key) as client:
        path = Path(sqlite_url.removeprefix("sqlite:///"))
        path.rename(path.with_suffix(".away"))
        answer = client.get("/api/v1/studies")
        assert answer.status_code == 503
        assert str(tmp_path) not in answer.text
        assert answer.headers["retry-after"]
        assert client.get("/healthz").status_code == 200
        assert client.get("/readyz").status_code == 503
        path.with_suffix(".away").rename(path)
        assert client.get("/api/v1/studies").status_code == 200


@pytest.mark.parametrize(
    "name",
    ["../../servetune.db", "..%2f..%2fservetune.db", "%2e%2e%2fx", ".hidden", "a%00b", "x" * 101],
)
def test_no_path_leads_out_of_an_attempts_folder(
    settings: ApiSettings, sqlite_url: str, name: str
) -> None:
    with client_of(settings, make_key(sqlite_url, Scope.ADMIN)) as client:
        study = client.post("/api/v1/studies", json=SIMULATED).json()
        _with_attempt(sqlite_url, settings, study["id"])
        path = f"/api/v1/studies/{study['id']}/trials/0/artifacts"
        found = client.get(f"{path}/engine.log")
        assert (found.status_code, found.text) == (200, "hello\n")
        assert found.headers["content-disposition"].startswith("attachment")
        answer = client.get(f"{path}/{name}")
        assert answer.status_code in (404, 422), answer.text
        assert client.get(f"{path}/link").status_code == 404
        assert client.get(f"{path}/engine.log?attempt=2").status_code == 404


def _with_attempt(url: str, settings: ApiSettings, study_id: int) -> None:
    from tests.support.ledger import new_attempt, new_trial
    from tuner.domain.states import TrialOrigin
    from tuner.store.artifacts import ArtifactStore

    with store_at(url) as store, store.writing() as work:
        trial = work.trials.propose(study_id, new_trial(origin=TrialOrigin.BASELINE))
        attempt = work.attempts.start(study_id, trial.number, new_attempt())
    artifacts = ArtifactStore(settings.artifacts)
    artifacts.write(attempt.directory, "engine.log", b"hello\n")
    (artifacts.resolve(attempt.directory) / "link").symlink_to("/etc/passwd")


@pytest.mark.parametrize(
    "text",
    ["x\n2026 ERROR forged", "x\r\nforged", "x\x1b[31m", "x\u2028forged"],
)
def test_no_caller_writes_lines_into_the_log(
    settings: ApiSettings, sqlite_url: str, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with client_of(settings, make_key(sqlite_url, Scope.ADMIN)) as client:
        client.post("/api/v1/keys", json={"name": text, "scopes": ["read"]})
        client.post("/api/v1/studies", json={**SIMULATED, "name": text})
        client.post(
            f"/api/v1/uploads?name={text!r}", content=b"x", headers={"Content-Type": "text/csv"}
        )
        client.get("/api/v1/studies", headers={"Authorization": f"Bearer {text!r}"})
    for record in caplog.records:
        if record.name.startswith(("api", "tuner")):
            assert "forged" not in record.getMessage()


TRACE = b"""TIMESTAMP,ContextTokens,GeneratedTokens
2024-05-10 00:00:00.1,374,44
2024-05-10 00:00:02.1,396,109
"""
CSV = {"Content-Type": "text/csv"}


def test_an_uploaded_trace_is_described_and_used(settings: ApiSettings, sqlite_url: str) -> None:
    with client_of(settings, make_key(sqlite_url, Scope.WRITE)) as client:
        made = client.post("/api/v1/uploads?name=mine.csv", content=TRACE, headers=CSV)
        assert made.status_code == 201
        upload = made.json()
        assert upload["description"]["requests"] == 2
        assert upload["description"]["prompt_tokens"]["p50"] == 374
        again = client.post("/api/v1/uploads?name=other", content=TRACE, headers=CSV)
        assert (again.status_code, again.json()["name"]) == (200, "mine.csv")
        assert client.get(made.headers["location"]).json() == upload
        assert client.get("/api/v1/uploads").json()["items"] == [upload]
        document = {**SIMULATED, "workload": {"upload": upload["id"]}}
        study = client.post("/api/v1/studies", json=document)
        assert study.status_code == 201
        shown = client.get(study.headers["location"]).json()["document"]
        assert shown["workload"]["upload"] == upload["id"]
        assert client.get("/api/v1/uploads/nope").status_code == 404
        assert client.get("/api/v1/uploads/..%2fx").status_code == 404


MOONCAKE = b'{"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [1, 2]}\n'


@pytest.mark.parametrize(
    ("content", "media", "format"),
    [
        (TRACE, "text/csv", "azure"),
        (MOONCAKE * 2, "application/jsonl", "mooncake"),
        (b'{"prompt_tokens": 5, "output_tokens": 3}\n', "application/x-ndjson", "jsonl"),
        (
            b'{"messages": [{"role": "user", "content": "a"}, '
            b'{"role": "assistant", "content": "b"}]}',
            "application/json",
            "sharegpt",
        ),
        (b"num_prefill_tokens,num_decode_tokens\n5,3\n", "text/csv", "vidur"),
        (
            b"Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n1,m,4,2,6,x\n",
            "text/csv",
            "burstgpt",
        ),
    ],
)
def test_every_format_is_told_and_used(
    settings: ApiSettings, sqlite_url: str, content: bytes, media: str, format: str
) -> None:
    with client_of(settings, make_key(sqlite_url, Scope.WRITE)) as client:
        made = client.post("/api/v1/uploads", content=content, headers={"Content-Type": media})
        assert (made.status_code, made.json()["format"]) == (201, format)
        document = {**SIMULATED, "workload": {"upload": made.json()["id"]}}
        assert client.post("/api/v1/studies", json=document).status_code == 201


def test_a_broken_line_of_an_upload_is_named(settings: ApiSettings, sqlite_url: str) -> None:
    with client_of(settings, make_key(sqlite_url, Scope.WRITE)) as client:
        answer = client.post(
            "/api/v1/uploads?format=mooncake",
            content=MOONCAKE + b"{}\n",
            headers={"Content-Type": "application/jsonl"},
        )
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["path"] == "upload, line 2"


@pytest.mark.parametrize(
    ("content", "media", "query", "status"),
    [
        (b"", "text/csv", "", 422),
        (b"a,b\n1,2\n", "text/csv", "", 422),
        (b"\xff\xfe\x00", "text/csv", "", 422),
        (TRACE + b"x,y,z\n", "text/csv", "", 422),
        (TRACE, "application/pdf", "", 415),
        (TRACE, "application/json", "?format=sharegpt", 422),
        (TRACE, "text/csv", "?format=servegen", 422),
        (TRACE, "text/csv", "?name=../x", 422),
        (TRACE, "text/csv", "?name=a/b", 422),
        (TRACE, "text/csv", "?format=exe", 422),
    ],
)
def test_a_trace_that_cannot_be_used_is_refused(
    settings: ApiSettings, sqlite_url: str, content: bytes, media: str, query: str, status: int
) -> None:
    with client_of(settings, make_key(sqlite_url, Scope.WRITE)) as client:
        answer = client.post(
            f"/api/v1/uploads{query}", content=content, headers={"Content-Type": media}
        )
        assert answer.status_code == status
        assert answer.headers["content-type"] == "application/problem+json"
        assert client.get("/api/v1/uploads").json()["items"] == []


def test_uploads_have_a_limit_each_and_together(settings: ApiSettings, sqlite_url: str) -> None:
    key = make_key(sqlite_url, Scope.WRITE)
    small = replace(settings, limits=Limits(upload_bytes=len(TRACE) - 1))
    with client_of(small, key) as client:
        assert client.post("/api/v1/uploads", content=TRACE, headers=CSV).status_code == 413
    full = replace(settings, limits=Limits(all_uploads_bytes=len(TRACE) + 10))
    with client_of(full, key) as client:
        assert client.post("/api/v1/uploads", content=TRACE, headers=CSV).status_code == 201
        assert client.post("/api/v1/uploads", content=TRACE, headers=CSV).status_code == 200
        more = TRACE + b"2024-05-10 00:00:03.1,1,1\n"
        assert client.post("/api/v1/uploads", content=more, headers=CSV).status_code == 413


def test_what_the_operator_allows_is_listed_without_what_is_behind_it(
    settings: ApiSettings, sqlite_url: str
) -> None:
    from tuner.domain.operator_config import load_operator

    operator = load_operator(
        """
        [profiles.stable]
        description = "ours"
        engine = {kind = "vllm", launcher = {type = "process", executable = "/opt/secret/vllm"}}
        [models.chat]
        path = "/models/secret"
        max_model_len = 4096
        """,
        where="test",
    )
    with client_of(
        replace(settings, operator=operator), make_key(sqlite_url, Scope.READ)
    ) as client:
        profiles, models = client.get("/api/v1/profiles"), client.get("/api/v1/models")
        workers = client.get("/api/v1/workers")
    assert profiles.json()["items"][0]["name"] == "stable"
    assert models.json()["items"] == [{"id": "chat", "profiles": None, "max_model_len": 4096}]
    assert workers.json() == {"items": []}
    assert "secret" not in profiles.text + models.text
