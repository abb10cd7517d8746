"""What charts are drawn from: a study's trajectory, a trial's curves, what happens right now."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient

from api.settings import ApiSettings
from tests.support.api_client import SIMULATED, store_at
from tests.support.load_records import Row
from tests.support.stored_loads import store_latency_load
from tests.support.study_measurements import measurement
from tuner.domain.engine_config import EngineConfig
from tuner.domain.states import AttemptOutcome, AttemptPurpose, TrialOrigin, TrialState, WorkerState
from tuner.store.attempts import NewAttempt
from tuner.store.records import AttemptEnd
from tuner.store.trials import NewTrial, TrialEnd
from tuner.store.unit_of_work import Work
from tuner.store.workers import WorkerIdentity
from tuner.study.load_progress import MEASUREMENT, SERIES_FILE
from tuner.study.report import trial_summary
from tuner.telemetry.exposition import EngineMetric
from tuner.telemetry.series import MetricSeries, Scrape

LIVE = {
    "phase": "search",
    "trial_number": 0,
    "trial_state": "measuring",
    "time_left_s": 60.0,
    "load": {"segment": "latency", "elapsed_s": 3.0},
    "series": [{"at_s": 0.0, "kv_usage": 0.5}],
}


@pytest.fixture
def study(client: TestClient) -> int:
    answer = client.post("/api/v1/studies", json=SIMULATED)
    found: int = answer.json()["id"]
    return found


@pytest.fixture
def measured(study: int, database_url: str) -> Callable[[float], str]:
    """Runs one more trial with this score; the directory of its attempt."""

    def run(score: float) -> str:
        with store_at(database_url) as store, store.writing() as work:
            return _trial(work, study, score)

    return run


def _trial(work: Work, study: int, score: float) -> str:
    origin = TrialOrigin.BASELINE if not work.trials.all(study) else TrialOrigin.SAMPLER
    config = EngineConfig.of({"max-num-seqs": 8 + len(work.trials.all(study))})
    number = work.trials.propose(study, NewTrial(origin=origin, config=config)).number
    attempt = work.attempts.start(
        study, number, NewAttempt(purpose=AttemptPurpose.SEARCH, workload_seed=0)
    )
    found = measurement()
    end = TrialEnd(TrialState.COMPLETE, score={"value": score}, summary=trial_summary(found))
    measured = AttemptEnd(AttemptOutcome.MEASURED, measurement=found)
    work.finish_trial(study, number, end, attempt.id, measured)
    return attempt.directory


def shown(client: TestClient, path: str) -> dict[str, Any]:
    answer = client.get(f"/api/v1/studies/{path}")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_a_new_study_has_no_trajectory(client: TestClient, study: int) -> None:
    assert shown(client, f"{study}/trajectory") == {"points": []}


def test_the_trajectory_tells_the_best_so_far(
    client: TestClient, study: int, measured: Callable[[float], str]
) -> None:
    for score in (0.0, 0.2, 0.1):
        measured(score)
    points = shown(client, f"{study}/trajectory")["points"]
    assert [point["trial"] for point in points] == [0, 1, 2]
    assert [point["best_score"] for point in points] == [0.0, 0.2, 0.2]
    assert points[-1]["gpu_minutes"] >= points[0]["gpu_minutes"] >= 0


def test_a_trials_curves_come_from_its_files(
    client: TestClient,
    study: int,
    settings: ApiSettings,
    measured: Callable[[float], str],
) -> None:
    directory = settings.artifacts / measured(0.0) / MEASUREMENT
    assert shown(client, f"{study}/trials/0/series") == {"points": []}
    directory.mkdir(parents=True)
    scrapes = (Scrape(5.0, 0.0, {EngineMetric.KV_USAGE: 0.25}),)
    MetricSeries(scrapes).save(directory / SERIES_FILE)
    (point,) = shown(client, f"{study}/trials/0/series")["points"]
    assert (point["at_s"], point["kv_usage"], point["waiting"]) == (0.0, 0.25, None)


def test_how_requests_were_spread_comes_from_their_records(
    client: TestClient, study: int, settings: ApiSettings, measured: Callable[[float], str]
) -> None:
    directory = settings.artifacts / measured(0.0)
    path = f"{study}/trials/0/distribution"
    assert shown(client, path) == {"attempt": 1, "ttft_ms": None, "tpot_ms": None}
    store_latency_load(directory, [Row(due_s=11.0, sent_s=11.0, frames=(11.2, 11.25))])
    found = shown(client, path)
    assert (found["attempt"], found["ttft_ms"]["counts"]) == (1, [1])
    assert shown(client, f"{path}?attempt=2")["attempt"] is None


def test_records_and_series_of_a_trial_can_be_downloaded(
    client: TestClient, study: int, settings: ApiSettings, measured: Callable[[float], str]
) -> None:
    folder = store_latency_load(settings.artifacts / measured(0.0), [Row(due_s=11.0)])
    trial = shown(client, f"{study}/trials/0")
    assert "measurement/segment-0.npz" in trial["artifacts"]
    assert trial["attempts"][0]["artifacts"] == trial["artifacts"]
    path = f"/api/v1/studies/{study}/trials/0/artifacts"
    answer = client.get(f"{path}/measurement/segment-0.npz")
    assert answer.content == (folder / "segment-0.npz").read_bytes()
    assert 'filename="segment-0.npz"' in answer.headers["content-disposition"]
    assert client.get(f"{path}/measurement%2Fsegment-0.npz").status_code == 200
    assert client.get(f"{path}/measurement").status_code == 404


@pytest.mark.parametrize("view", ["series", "distribution"])
def test_a_trial_that_is_not_there_has_no_curves(client: TestClient, study: int, view: str) -> None:
    assert client.get(f"/api/v1/studies/{study}/trials/7/{view}").status_code == 404


def driven(work: Work, study: int) -> None:
    work.workers.register(WorkerIdentity("w1", "here", None, 1, 1, "0"))
    work.leases.claim_study(study, "w1")
    work.workers.beat("w1", WorkerState.DRIVING, study)


def test_nobody_drives_so_nothing_is_live(client: TestClient, study: int) -> None:
    found = shown(client, f"{study}/live")
    assert (found["phase"], found["trial_number"], found["load"]) == (None, None, None)
    assert found["series"] == []


def test_what_the_driver_tells_is_shown_with_the_running_configuration(
    client: TestClient, study: int, database_url: str, measured: Callable[[float], str]
) -> None:
    measured(0.0)
    with store_at(database_url) as store, store.writing() as work:
        driven(work, study)
        work.workers.show("w1", LIVE)
    found = shown(client, f"{study}/live")
    assert found == {**LIVE, "flags": {"max-num-seqs": 8}}


def test_a_driver_that_tells_nothing_shows_nothing(
    client: TestClient, study: int, database_url: str
) -> None:
    with store_at(database_url) as store, store.writing() as work:
        driven(work, study)
        work.workers.show("w1", LIVE)
        work.workers.show("w1", None)
    assert shown(client, f"{study}/live")["trial_state"] is None


def test_a_worker_of_another_study_is_not_this_ones(
    client: TestClient, study: int, database_url: str
) -> None:
    other = client.post("/api/v1/studies", json={**SIMULATED, "name": "other"}).json()["id"]
    with store_at(database_url) as store, store.writing() as work:
        driven(work, other)
        work.workers.show("w1", LIVE)
    assert shown(client, f"{study}/live")["phase"] is None


def test_an_unknown_worker_tells_nothing(database_url: str) -> None:
    with store_at(database_url) as store, store.writing() as work:
        work.workers.show("nobody", LIVE)
        assert work.workers.find("nobody") is None
