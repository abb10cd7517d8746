from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import yaml
from fastapi.testclient import TestClient

from tests.support.api_client import SIMULATED, store_at
from tuner.domain.states import StudyPhase, StudyState

YAML = {"Content-Type": "application/yaml"}


def create(client: TestClient, name: str = "chat", **query: str) -> dict[str, Any]:
    answer = client.post("/api/v1/studies", json={**SIMULATED, "name": name}, params=query)
    assert answer.status_code in (200, 201), answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_a_study_is_created_and_found_at_its_location(client: TestClient) -> None:
    answer = client.post("/api/v1/studies", json=SIMULATED)
    assert answer.status_code == 201
    made = answer.json()
    assert made["reference"] == "chat@1"
    assert (made["state"], made["origin"], made["simulated"]) == ("queued", "api", True)
    assert made["created_by"].startswith("key:")
    shown = client.get(answer.headers["location"])
    assert shown.status_code == 200
    detail = shown.json()
    assert detail["document"]["model"]["id"] == SIMULATED["model"]["id"]
    assert detail["progress"]["trials_total"] == 3
    assert detail["progress"]["gpu_minutes_used"] == 0
    assert detail["incumbent"] is None
    for reference in ("chat", "chat@1", str(made["id"])):
        assert client.get(f"/api/v1/studies/{reference}").json()["id"] == made["id"]


def test_yaml_is_the_same_document(client: TestClient) -> None:
    made = create(client)
    answer = client.post("/api/v1/studies", content=yaml.safe_dump(SIMULATED), headers=YAML)
    assert answer.status_code == 200
    assert answer.json()["id"] == made["id"]


def test_the_shown_document_is_the_study_again(client: TestClient) -> None:
    made = create(client)
    document = client.get("/api/v1/studies/chat").json()["document"]
    answer = client.post("/api/v1/studies", json=document)
    assert (answer.status_code, answer.json()["id"]) == (200, made["id"])


def test_another_document_of_the_name_is_a_conflict_unless_it_is_new(client: TestClient) -> None:
    create(client)
    other = {**SIMULATED, "budget": {"trials": 5}}
    answer = client.post("/api/v1/studies", json=other)
    assert answer.status_code == 409
    assert answer.headers["content-type"] == "application/problem+json"
    answer = client.post("/api/v1/studies?new=true", json=other)
    assert (answer.status_code, answer.json()["reference"]) == (201, "chat@2")


def test_every_fault_is_told_with_its_path(client: TestClient) -> None:
    document = {
        **SIMULATED,
        "budget": {"trials": 0},
        "engine": {"kind": "simulated", "gpu": "L5", "env": {"LD_PRELOAD": "x"}},
        "baseline": {"flags": {"trust-remote-code": True}},
    }
    answer = client.post("/api/v1/studies", json=document)
    assert answer.status_code == 422
    problem = answer.json()
    assert problem["title"] == "Unprocessable Content"
    assert {error["path"] for error in problem["errors"]} == {
        "budget.trials",
        "engine.gpu",
        "engine.env",
        "baseline.flags.trust-remote-code",
    }
    assert client.get("/api/v1/studies").json()["items"] == []


@pytest.mark.parametrize(
    ("content", "media", "status"),
    [
        (b"{}", "text/plain", 415),
        (b"{}", "", 415),
        (b"\xff\xfe", "application/json", 400),
        (b"", "application/json", 422),
        (b"[1]", "application/json", 422),
        (b"{", "application/json", 422),
        (b"x" * ((1 << 20) + 1), "application/yaml", 413),
    ],
)
def test_what_is_no_document_is_a_problem(
    client: TestClient, content: bytes, media: str, status: int
) -> None:
    headers = {"Content-Type": media} if media else {}
    answer = client.post("/api/v1/studies", content=content, headers=headers)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_body_without_a_length_is_cut_off_too(client: TestClient) -> None:
    answer = client.post("/api/v1/studies", content=iter([b"x" * 600_000] * 3), headers=YAML)
    assert answer.status_code == 413


def test_a_repeated_request_is_answered_as_the_first_time(client: TestClient) -> None:
    headers = {"Idempotency-Key": "abc"}
    first = client.post("/api/v1/studies?new=true", json=SIMULATED, headers=headers)
    again = client.post("/api/v1/studies?new=true", json=SIMULATED, headers=headers)
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json() == first.json()
    assert again.headers["location"] == first.headers["location"]
    assert again.headers["idempotency-replayed"] == "true"
    assert len(client.get("/api/v1/studies").json()["items"]) == 1
    other = client.post("/api/v1/studies", json=SIMULATED, headers=headers)
    assert other.status_code == 422
    assert "another request" in other.json()["detail"]


def test_requests_at_once_under_one_key_make_one_study(client: TestClient) -> None:
    def post(_: int) -> tuple[int, int]:
        answer = client.post(
            "/api/v1/studies?new=true", json=SIMULATED, headers={"Idempotency-Key": "k"}
        )
        return answer.status_code, answer.json()["id"]

    with ThreadPoolExecutor(6) as pool:
        answers = set(pool.map(post, range(6)))
    assert len(answers) == 1
    assert len(client.get("/api/v1/studies").json()["items"]) == 1


@pytest.mark.parametrize("key", ["", "a b", "x" * 256, "é"])
def test_a_key_that_cannot_be_kept_is_refused(client: TestClient, key: str) -> None:
    headers = [(b"Idempotency-Key", key.encode("latin-1"))]
    answer = client.post("/api/v1/studies", json=SIMULATED, headers=headers)
    assert answer.status_code == 422


def test_studies_are_listed_by_pages_newest_first(client: TestClient) -> None:
    made = [create(client, name)["id"] for name in ("a", "b", "c", "d", "e")]
    seen: list[int] = []
    cursor: str | None = None
    while True:
        query: dict[str, str | int] = {"limit": 2, **({"cursor": cursor} if cursor else {})}
        page = client.get("/api/v1/studies", params=query).json()
        seen += [study["id"] for study in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == made[::-1]


def test_studies_are_filtered_by_state(client: TestClient, database_url: str) -> None:
    create(client, "a")
    paused = create(client, "b")
    client.post(f"/api/v1/studies/{paused['id']}/pause")
    found = client.get("/api/v1/studies", params={"state": ["paused", "failed"]}).json()
    assert [study["name"] for study in found["items"]] == ["b"]
    assert client.get("/api/v1/studies", params={"state": "odd"}).status_code == 422


@pytest.mark.parametrize("query", ["limit=0", "limit=201", "limit=x", "cursor=%00", "cursor=e30"])
def test_bad_queries_are_problems(client: TestClient, query: str) -> None:
    answer = client.get(f"/api/v1/studies?{query}")
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["path"].startswith("query.")


@pytest.mark.parametrize(
    "reference",
    ["nope", "99999999999999999999", "chat@9", "..%2f..%2fetc", "%00", "a%0d%0ab", "-1", "chat@"],
)
def test_there_is_no_such_study(client: TestClient, reference: str) -> None:
    create(client)
    for path in ("", "/trials", "/best", "/pareto", "/recommendation", "/export", "/report"):
        answer = client.get(f"/api/v1/studies/{reference}{path}")
        assert answer.status_code == 404, path
        assert answer.headers["content-type"] == "application/problem+json"
    assert client.post(f"/api/v1/studies/{reference}/pause").status_code == 404
    assert client.delete(f"/api/v1/studies/{reference}").status_code == 404


def test_a_waiting_study_is_paused_resumed_and_cancelled_at_once(client: TestClient) -> None:
    path = f"/api/v1/studies/{create(client)['id']}"
    for action, state in (("pause", "paused"), ("resume", "queued"), ("cancel", "cancelled")):
        answer = client.post(f"{path}/{action}")
        assert (answer.status_code, answer.json()["state"]) == (202, state)
    assert client.post(f"{path}/resume").json()["state"] == "queued"


def test_a_driven_study_is_asked_to_stop(client: TestClient, database_url: str) -> None:
    study = create(client)
    path = f"/api/v1/studies/{study['id']}"
    with store_at(database_url) as store, store.writing() as work:
        work.leases.claim_study(study["id"], "w1")
        work.studies.set_state(study["id"], StudyState.RUNNING)
    paused = client.post(f"{path}/pause").json()
    assert (paused["state"], paused["requested"], paused["driven_by"]) == ("running", "pause", "w1")
    assert client.delete(path).status_code == 409
    assert client.post(f"{path}/resume").json()["requested"] is None
    assert client.post(f"{path}/cancel").json()["requested"] == "cancel"


def test_a_complete_study_cannot_be_stopped(client: TestClient, database_url: str) -> None:
    study = create(client)
    with store_at(database_url) as store, store.writing() as work:
        work.studies.set_state(study["id"], StudyState.COMPLETE)
    for action in ("pause", "cancel", "resume"):
        answer = client.post(f"/api/v1/studies/{study['id']}/{action}")
        assert answer.status_code == 409
        assert answer.headers["content-type"] == "application/problem+json"


def test_a_deleted_study_is_gone_with_its_files(client: TestClient, settings: Any) -> None:
    study = create(client)
    folder = settings.artifacts / f"study-{study['id']}"
    folder.mkdir(parents=True)
    (folder / "x").write_text("x")
    assert client.delete("/api/v1/studies/chat").status_code == 204
    assert not folder.exists()
    assert client.get("/api/v1/studies/chat").status_code == 404


def test_a_configuration_is_queued_as_a_trial(client: TestClient) -> None:
    study = create(client)
    path = f"/api/v1/studies/{study['id']}/trials"
    answer = client.post(path, json={"flags": {"max-num-seqs": 64}})
    assert answer.status_code == 201
    trial = answer.json()
    assert (trial["origin"], trial["state"]) == ("manual", "queued")
    assert trial["requested_by"].startswith("key:")
    assert trial["flags"]["max-num-seqs"] == 64
    assert client.get(answer.headers["location"]).json()["flags"] == trial["flags"]
    again = client.post(path, json={"flags": {"max-num-seqs": 64}})
    assert (again.status_code, again.json()["number"]) == (200, trial["number"])


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, "flags"),
        ({"flags": {}}, "flags"),
        ({"flags": {"max-num-seqs": 0}}, "flags.max-num-seqs"),
        ({"flags": {"max_num_seqs": 4}}, "flags.max_num_seqs"),
        ({"flags": {"trust-remote-code": True}}, "flags.trust-remote-code"),
        ({"flags": {"chat-template": "/etc/passwd"}}, "flags.chat-template"),
        ({"flags": {"port": 1}}, "flags.port"),
        (
            {"flags": {"max-num-seqs": 64, "max-num-batched-tokens": 32}},
            "flags.max-num-batched-tokens",
        ),
        ({"flags": {"max-num-seqs": [1]}}, "flags"),
        ({"flags": {"a": 1}, "more": 2}, "more"),
    ],
)
def test_a_configuration_with_faults_is_refused(
    client: TestClient, body: dict[str, object], path: str
) -> None:
    study = create(client)
    answer = client.post(f"/api/v1/studies/{study['id']}/trials", json=body)
    assert answer.status_code == 422, answer.text
    assert any(error["path"].startswith(path) for error in answer.json()["errors"])


def test_a_study_whose_search_is_over_takes_no_trial(client: TestClient, database_url: str) -> None:
    study = create(client)
    with store_at(database_url) as store, store.writing() as work:
        work.studies.set_phase(study["id"], StudyPhase.CONFIRMATION)
    answer = client.post(
        f"/api/v1/studies/{study['id']}/trials", json={"flags": {"max-num-seqs": 64}}
    )
    assert answer.status_code == 409


def test_a_dry_run_forecasts_and_stores_nothing(client: TestClient) -> None:
    answer = client.post("/api/v1/studies/validate", json=SIMULATED)
    assert answer.status_code == 200
    found = answer.json()
    assert (found["valid"], found["errors"]) == (True, [])
    plan = found["plan"]
    assert plan["prediction"] is True
    assert plan["restarts"] > 3
    assert plan["duration_s"] > 0
    baseline = plan["starts"][0]
    assert "serve" in baseline["argv"]
    assert baseline["memory"]["kv_cache_tokens"] > 0
    assert client.get("/api/v1/studies").json()["items"] == []


def test_a_dry_run_tells_all_faults(client: TestClient) -> None:
    document = {**SIMULATED, "budget": {"trials": 0}, "model": {"id": "x", "path": "/x"}}
    found = client.post("/api/v1/studies/validate", json=document).json()
    assert (found["valid"], found["plan"]) == (False, None)
    assert {e["path"] for e in found["errors"]} >= {"budget.trials", "model.path"}


def test_before_anything_is_measured_there_is_nothing_to_say(client: TestClient) -> None:
    path = f"/api/v1/studies/{create(client)['id']}"
    assert client.get(f"{path}/best").json() == {"trial": None}
    assert client.get(f"{path}/importance").json()["shares"] is None
    assert client.get(f"{path}/pareto").json()["points"] == []
    assert (
        client.post(f"{path}/rescore", json={"weights": {"throughput": 5}}).json()["trials"] == []
    )
    assert client.get(f"{path}/recommendation").json()["recommendation"] is None
    assert client.get(f"{path}/export").status_code == 409
    assert client.get(f"{path}/trials/0").status_code == 404
    assert client.get(f"{path}/trials/0/measurement").status_code == 404
    assert client.get(f"{path}/report").json()["trials"] == []


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("pareto?axes=x,y", None),
        ("pareto?axes=ttft_p95_ms", None),
        ("trials?limit=0", None),
        ("trials/x", None),
        ("trials/-1", None),
        ("trials/99999999999", None),
        ("export?image=a%0Ab", None),
        ("rescore", {"weights": {"throughput": 0, "ttft_p95": 0, "tpot_p95": 0}}),
        ("rescore", {"slo": {}}),
        ("rescore", {"odd": 1}),
        ("rescore", {"weights": {"throughput": -1}}),
    ],
)
def test_questions_that_make_no_sense_are_problems(
    client: TestClient, path: str, body: dict[str, object] | None
) -> None:
    address = f"/api/v1/studies/{create(client)['id']}/{path}"
    answer = client.get(address) if body is None else client.post(address, json=body)
    assert answer.status_code == 422, answer.text
    assert answer.headers["content-type"] == "application/problem+json"


def test_everything_that_was_done_is_in_the_audit_trail(
    client: TestClient, database_url: str
) -> None:
    study = create(client)
    client.post(f"/api/v1/studies/{study['id']}/trials", json={"flags": {"max-num-seqs": 64}})
    for action in ("pause", "resume", "cancel"):
        client.post(f"/api/v1/studies/{study['id']}/{action}")
    client.delete(f"/api/v1/studies/{study['id']}")
    with store_at(database_url) as store, store.reading() as work:
        rows = work.audit.page(None, 20)
    assert [row.action for row in reversed(rows)] == [
        "study.create",
        "trial.add",
        "study.pause",
        "study.resume",
        "study.cancel",
        "study.delete",
    ]
    assert {row.subject for row in rows} == {"chat@1"}
    assert json.dumps([row.principal for row in rows]).count("key:") == 6
