"""Whatever rules and dashboard ask for is something that the code really exports."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml
from prometheus_client import CollectorRegistry

from api.event_feed import EventFeed
from api.metrics import ApiMetrics
from tuner.domain.events import Event, EventKind
from tuner.domain.states import AttemptOutcome, StudyState, TrialState
from tuner.store.fleet import BestScore, Fleet
from tuner.store.unit_of_work import Store
from tuner.worker.metrics import WorkerMetrics, worker_registry

DEPLOY = Path(__file__).parents[3] / "deploy"
RULES = DEPLOY / "prometheus" / "servetune-rules.yml"
RULE_TESTS = DEPLOY / "prometheus" / "servetune-rules-test.yml"
DASHBOARD = DEPLOY / "grafana" / "servetune.json"
OPERATIONS = DEPLOY.parent / "docs" / "operations.md"
OF_PROMETHEUS = {"up": {"job", "instance"}}
OF_EVERY_TARGET = {"job", "instance"}

SELECTOR = re.compile(r"\b(?P<name>(?:servetune|process)_\w+|up)\b(?:\{(?P<labels>[^}]*)\})?")
MATCHER = re.compile(r'(\w+)\s*(?:=~|!~|!=|=)\s*"([^"]*)"')
GROUPED = re.compile(r"\b(?:by|without|on)\s*\(([^)]*)\)")


class FakeStore:
    """A database with one of everything."""

    @contextmanager
    def reading(self) -> Iterator[SimpleNamespace]:
        fleet = Fleet(
            studies={state.value: 1 for state in StudyState},
            trials={state.value: 1 for state in TrialState},
            failures={"oom_profile": 1},
            best=(BestScore("chat@1", 0.1),),
        )
        yield SimpleNamespace(fleet=lambda: fleet)


def registries() -> tuple[CollectorRegistry, CollectorRegistry]:
    """An API's and a worker's, after one of everything happened."""
    feed = cast("EventFeed", SimpleNamespace(streams=1))
    api = ApiMetrics(cast("Store", FakeStore()), feed, "/api/v1")
    api.answered({"type": "http", "method": "GET", "path": "/nothing"}, 404, 0.1)
    worker = worker_registry()
    metrics = WorkerMetrics(worker)
    metrics.lease_lost()
    for kind, payload in (
        (EventKind.ATTEMPT_STARTED, {}),
        (EventKind.ATTEMPT_STATE, {"to": "measuring"}),
        (EventKind.ATTEMPT_ENDED, {"outcome": "measured"}),
    ):
        event = Event(1, 1, datetime(2030, 1, 1, tzinfo=UTC), kind, 0, {"attempt_id": 1, **payload})
        metrics.happened(event, gpu_count=1, time_scale=1.0, simulated=False)
    return api.registry, worker


@pytest.fixture(scope="module")
def exported() -> dict[str, set[str]]:
    """The labels of every sample that a scrape could show."""
    found: dict[str, set[str]] = {name: set(labels) for name, labels in OF_PROMETHEUS.items()}
    for registry in registries():
        for family in registry.collect():
            for sample in family.samples:
                labels = {*sample.labels, *OF_EVERY_TARGET}
                found.setdefault(sample.name, set()).update(labels)
    return found


def alerts() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    return found


def expressions() -> list[str]:
    of_panels = [t["expr"] for panel in panels() for t in panel.get("targets", ())]
    return [rule["expr"] for rule in alerts()] + of_panels


def rule_test_series() -> list[str]:
    tests = yaml.safe_load(RULE_TESTS.read_text())["tests"]
    return [series["series"] for test in tests for series in test["input_series"]]


@pytest.mark.parametrize("expression", [*expressions(), *rule_test_series()])
def test_an_expression_asks_for_metrics_and_labels_that_are_exported(
    expression: str, exported: dict[str, set[str]]
) -> None:
    known: set[str] = set()
    for selector in SELECTOR.finditer(expression):
        name = selector["name"]
        assert name in exported, f"nothing exports {name}"
        asked = {label for label, _ in MATCHER.findall(selector["labels"] or "")}
        assert asked <= exported[name], f"{name} has no labels {asked - exported[name]}"
        known |= exported[name]
    assert known, "an expression on nothing of ours"
    for group in GROUPED.findall(expression):
        names = {name.strip() for name in group.split(",")} - {""}
        assert names <= known


VALUES = {
    "state": {state.value for state in (*StudyState, *TrialState)},
    "outcome": {outcome.value for outcome in AttemptOutcome},
    "simulated": {"true", "false"},
    "status": {f"{digit}xx" for digit in range(1, 6)},
    "job": {"servetune-api", "servetune-worker"},
}


@pytest.mark.parametrize("expression", expressions())
def test_values_that_are_matched_exist(expression: str) -> None:
    for label, value in MATCHER.findall(expression):
        if label not in VALUES or not value:
            continue
        wanted = re.compile(value)
        matched = [known for known in VALUES[label] if wanted.fullmatch(known)]
        alternatives = value.split("|") if "(" not in value else matched
        assert matched
        assert len(matched) >= len(alternatives), f"{label} is never one of {value}"


def test_the_documented_metrics_are_the_exported_ones(exported: dict[str, set[str]]) -> None:
    documented = set(re.findall(r"`(servetune_\w+)`", OPERATIONS.read_text()))
    names = {n for n in exported if n.startswith("servetune_") and not n.endswith("_created")}
    assert documented == {re.sub("_(bucket|sum|count)$", "", name) for name in names}


def test_every_alert_says_what_is_wrong_and_is_tested() -> None:
    tested = {
        case["alertname"]
        for test in yaml.safe_load(RULE_TESTS.read_text())["tests"]
        for case in test["alert_rule_test"]
        if case.get("exp_alerts")
    }
    for rule in alerts():
        assert rule["annotations"]["summary"]
        assert rule["labels"]["severity"] in {"warning", "critical"}
        assert rule["alert"] in tested


def test_panels_lie_beside_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken
        assert all(x < 24 for x, _ in cells)
        taken |= cells
    identifiers = [panel["id"] for panel in panels()]
    assert len(set(identifiers)) == len(identifiers)


def test_a_dashboard_names_no_data_source_of_ours() -> None:
    sources = {p["datasource"]["uid"] for p in panels() if "datasource" in p}
    assert sources == {"${datasource}"}
