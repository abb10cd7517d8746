"""Answers that are kept until a study's next event, and lists that say how studies stand."""

from __future__ import annotations

import random
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import event

from api.settings import ApiSettings
from api.study_answers import Recent
from tests.support.api_client import store_at
from tests.support.seeded_study import add_trial, objective_of_seed, seed_study
from tests.support.study_measurements import measurement

TRIALS = 8
VIEWS = ("", "/pareto", "/trajectory", "/importance", "/best", "/report")


@pytest.fixture
def study(database_url: str, settings: ApiSettings) -> int:
    """A running study with trials, one of which could not run."""
    with store_at(database_url) as store:
        return seed_study(store, settings.artifacts, trials=TRIALS, files_of=0, finished=False)


def one_more(database_url: str, study: int) -> None:
    with store_at(database_url) as store, store.writing() as work:
        add_trial(work, study, TRIALS + 1, random.Random(9), objective_of_seed(), measurement())


def shown(client: TestClient, path: str) -> Any:
    answer = client.get(f"/api/v1/studies{path}")
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("view", VIEWS)
def test_an_answer_holds_until_the_study_changes(
    view: str, client: TestClient, study: int, database_url: str
) -> None:
    before = shown(client, f"/{study}{view}")
    assert _timeless(shown(client, f"/{study}{view}")) == _timeless(before)
    one_more(database_url, study)
    after = shown(client, f"/{study}{view}")
    if view != "/best":
        assert _timeless(after) != _timeless(before)


def _timeless(document: Any) -> Any:
    """Without what the clock alone changes."""
    progress = {**document.get("progress", {}), "elapsed_s": None}
    return {**document, "progress": progress}


def test_a_list_says_how_each_study_stands(
    client: TestClient, study: int, database_url: str, settings: ApiSettings
) -> None:
    with store_at(database_url) as store:
        done = seed_study(store, settings.artifacts, name="done", trials=3, files_of=0)
    lines = {line["id"]: line for line in shown(client, "")["items"]}
    for identifier in (study, done):
        whole = shown(client, f"/{identifier}")
        line = lines[identifier]
        assert _timeless(line)["progress"] == _timeless(whole)["progress"]
        assert line["best_trial"] == whole["incumbent"]["trial"]
        assert line["best_score"] == whole["incumbent"]["score"]["value"]
    assert (lines[study]["verdict"], lines[study]["confirmed"]) == (None, None)
    assert lines[done]["verdict"] == "better"
    assert lines[done]["confirmed"]["score_low"] == pytest.approx(0.04)


def test_a_list_costs_as_many_queries_for_many_studies_as_for_few(
    client: TestClient, database_url: str, settings: ApiSettings
) -> None:
    def queries() -> int:
        engine = client.app.state.services.store.database.engine  # type: ignore[attr-defined]
        count = 0

        def executed(*_: object) -> None:
            nonlocal count
            count += 1

        event.listen(engine, "before_cursor_execute", executed)
        shown(client, "")
        event.remove(engine, "before_cursor_execute", executed)
        return count

    shown(client, "")  # what is asked once only: the key's first use
    asked = []
    for name in ("a", "b", "c"):
        with store_at(database_url) as store:
            seed_study(store, settings.artifacts, name=name, trials=2, files_of=0)
        asked.append(queries())
    assert asked[0] == asked[1] == asked[2]


def test_a_report_shows_what_is_no_text_as_text(client: TestClient, study: int) -> None:
    """The engine's log of the trial that could not run is not UTF-8 everywhere."""
    (infeasible,) = [t for t in shown(client, f"/{study}/report")["trials"] if t["failure"]]
    assert infeasible["failure"]["evidence"]


def test_only_the_latest_are_kept() -> None:
    kept: Recent[int, str] = Recent(2)
    for key, value in ((1, "a"), (2, "b")):
        kept.keep(key, value)
    assert kept.get(1) == "a"
    kept.keep(3, "c")
    assert (kept.get(1), kept.get(2), kept.get(3)) == ("a", None, "c")


def test_rescoring_reads_a_measurement_once(client: TestClient, study: int) -> None:
    engine = client.app.state.services.store.database.engine  # type: ignore[attr-defined]
    read: list[str] = []

    def executed(_c: object, _k: object, statement: str, *_: object) -> None:
        if "servetune_measurements" in statement:
            read.append(statement)

    event.listen(engine, "before_cursor_execute", executed)
    for weight in (1, 2, 3):
        wish = {"weights": {"ttft_p95": weight, "tpot_p95": 1, "throughput": 1}}
        assert client.post(f"/api/v1/studies/{study}/rescore", json=wish).status_code == 200
    event.remove(engine, "before_cursor_execute", executed)
    assert len(read) == 1
