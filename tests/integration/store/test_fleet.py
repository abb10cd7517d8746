from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry

from tests.support.ledger import new_study, new_trial, out_of_memory
from tuner.domain.states import StudyState, TrialState
from tuner.errors import DatabaseError
from tuner.store import fleet as fleet_module
from tuner.store.trials import TrialEnd
from tuner.store.unit_of_work import Store, Work
from tuner.study.fleet_metrics import FleetCollector


def finished(work: Work, study_id: int, end: TrialEnd) -> None:
    trial = work.trials.propose(study_id, new_trial())
    work.trials.finish(study_id, trial.number, end)


def scored(value: float | None) -> TrialEnd:
    return TrialEnd(TrialState.COMPLETE, score={"value": value})


@pytest.fixture
def study(store: Store) -> int:
    """One running study with a trial of every kind, and one that waits."""
    with store.writing() as work:
        study_id = new_study(work)
        new_study(work, "waiting")
        work.studies.set_state(study_id, StudyState.RUNNING)
        finished(work, study_id, scored(0.1))
        finished(work, study_id, scored(0.3))
        finished(work, study_id, scored(None))
        finished(
            work,
            study_id,
            TrialEnd(
                TrialState.INFEASIBLE,
                diagnosis=out_of_memory(),
                infeasibility={"constraint": "memory", "grade": 1.0},
            ),
        )
        work.trials.propose(study_id, new_trial())
    return study_id


def test_an_empty_database_has_zero_of_everything(store: Store) -> None:
    with store.reading() as work:
        found = work.fleet()
    assert set(found.studies) == {state.value for state in StudyState}
    assert set(found.trials) == {state.value for state in TrialState}
    assert sum(found.studies.values()) == sum(found.trials.values()) == 0
    assert (found.failures, found.best) == ({}, ())


def test_studies_and_trials_are_counted_by_state(store: Store, study: int) -> None:
    with store.reading() as work:
        found = work.fleet()
    assert found.studies["running"] == found.studies["queued"] == 1
    assert found.trials["complete"] == 3
    assert found.trials["infeasible"] == found.trials["queued"] == 1
    assert found.failures == {"oom_profile": 1}


def test_the_best_score_is_the_highest_of_a_running_study(store: Store, study: int) -> None:
    with store.reading() as work:
        (best,) = work.fleet().best
    assert best.reference == "chat@1"
    assert best.score == pytest.approx(0.3)


def test_a_study_that_ended_has_no_best_score_any_more(store: Store, study: int) -> None:
    with store.writing() as work:
        work.studies.set_state(study, StudyState.CANCELLED)
    with store.reading() as work:
        assert work.fleet().best == ()


def test_best_scores_are_those_of_the_latest_studies_only(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_module, "BEST_OF", 2)
    with store.writing() as work:
        for name in ("one", "two", "three"):
            study_id = new_study(work, name)
            work.studies.set_state(study_id, StudyState.RUNNING)
            finished(work, study_id, scored(0.2))
    with store.reading() as work:
        assert [entry.reference for entry in work.fleet().best] == ["two@1", "three@1"]


def test_a_scrape_tells_what_the_database_holds(store: Store, study: int) -> None:
    registry = CollectorRegistry()
    registry.register(FleetCollector(store))

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, labels)

    assert value("servetune_database_up") == 1
    assert value("servetune_studies", state="running") == 1
    assert value("servetune_studies", state="failed") == 0
    assert value("servetune_trials", state="complete") == 3
    assert value("servetune_failed_trials", failure_class="oom_profile") == 1
    assert value("servetune_study_best_score", study="chat@1") == pytest.approx(0.3)


def test_while_the_database_is_away_the_scrape_says_so_and_invents_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(self: Store) -> None:
        raise DatabaseError("the database does not answer")

    monkeypatch.setattr(Store, "reading", gone)
    registry = CollectorRegistry()
    registry.register(FleetCollector(store))
    assert registry.get_sample_value("servetune_database_up") == 0
    assert registry.get_sample_value("servetune_studies", {"state": "running"}) is None
