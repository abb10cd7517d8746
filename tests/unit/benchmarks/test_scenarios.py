from __future__ import annotations

from pathlib import Path

from benchmarks.scenarios import DEPLOYMENTS, NEAR_OPTIMAL, scenario_spec, scenarios
from tuner.domain.study_spec import ConfirmationSpec, SimulatedEngineSpec, WorkloadSpec


def test_every_study_has_hardware_and_requests_of_its_own() -> None:
    specs = [scenario.spec({}) for scenario in scenarios(40, 10)]
    hardware = set()
    for spec in specs:
        assert isinstance(spec.engine, SimulatedEngineSpec)
        hardware.add(spec.engine.hardware_seed)
    assert len(hardware) == 50
    assert len({spec.workload.seed for spec in specs}) == 50
    assert len({spec.sampler.seed for spec in specs}) == 50


def test_the_documents_defaults_decide_what_is_measured() -> None:
    spec = scenarios(1, 0)[0].spec({})
    assert spec.workload.latency_window_s == WorkloadSpec().latency_window_s
    assert spec.confirmation == ConfirmationSpec()


def test_a_variation_changes_its_sections_only() -> None:
    changed = {"workload": {"latency_window_s": 90}, "confirmation": {"rounds": 4}}
    spec = scenarios(1, 0, changed)[0].spec({"max-num-seqs": 16})
    assert spec.workload.latency_window_s == 90
    assert spec.workload.preset == "chat"
    assert spec.confirmation.rounds == 4
    assert spec.baseline.flags == {"max-num-seqs": 16}


def test_every_deployment_meets_every_baseline() -> None:
    found = scenarios(40, 10)
    assert len({(s.deployment.name, s.baseline_name) for s in found[:40]}) == 40
    assert [s.deployment for s in found[40:]] == list(DEPLOYMENTS)
    assert {s.baseline_name for s in found[40:]} == {NEAR_OPTIMAL}


def test_an_ordinary_baseline_is_taken_as_it_is() -> None:
    scenario = scenarios(40, 0)[10]
    assert scenario_spec(scenario, Path()).baseline.flags == dict(scenario.baseline or {})
    assert scenario.baseline
