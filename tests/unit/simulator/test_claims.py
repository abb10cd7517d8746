"""Practitioners' claims over randomised physics, on machines that no forecast has seen."""

from __future__ import annotations

import pytest

from benchmarks.claims.__main__ import main
from benchmarks.claims.catalogue import ELSEWHERE, EXPERIMENTS, Experiment, experiment
from benchmarks.claims.table import Finding, find, render
from tuner.simulator.engine_model import warm_up
from tuner.simulator.hardware import Hardware

SEEDS = (101, 102, 103, 104, 105, 106)
"""Other machines than those of the document."""

EVERYWHERE = (
    "unchunked-gap",
    "chunked-gap",
    "lone-prompt",
    "rule-of-thumb",
    "chat-512",
    "chat-chunking",
    "documents-itl",
    "documents-itl-a100",
    "knee",
    "memory-law",
    "small-gpu-pool",
    "budget-32768-load",
    "preemptions",
    "preemption-tpot",
    "flooded-ttft",
    "flooded-tpot",
    "patterns",
    "utilization",
)
NOWHERE = ("chat-thirty", "chat-2048-l4", "documents-ttft", "documents-tpot", "budget-32768-h100")
DEPENDS = (
    "budget-8192-load",
    "chat-2048",
    "chat-2048-l40s",
    "chat-2048-a100",
    "budget-32768-l4",
    "mixed-tpot",
)


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """Hundreds of load tests: worth compiling for."""
    warm_up()


def test_every_experiment_is_judged_by_one_of_the_tests_below() -> None:
    assert sorted(e.key for e in EXPERIMENTS) == sorted(EVERYWHERE + NOWHERE + DEPENDS)


@pytest.mark.parametrize("key", EVERYWHERE)
def test_the_claim_holds_on_every_machine(key: str) -> None:
    one = experiment(key)
    finding = find(one, SEEDS)
    assert finding.verdict == "confirmed", (one.statement, finding.nominal, finding.hidden)


@pytest.mark.parametrize("key", NOWHERE)
def test_the_claim_fails_on_every_machine(key: str) -> None:
    one = experiment(key)
    finding = find(one, SEEDS)
    assert finding.verdict == "refuted", (one.statement, finding.nominal, finding.hidden)


@pytest.mark.parametrize("key", DEPENDS)
def test_a_conditional_claim_holds_on_the_nominal_machine_or_near_it(key: str) -> None:
    """Its size moves with the constants: where it is missed, it is missed narrowly."""
    one = experiment(key)
    finding = find(one, SEEDS)
    values = (finding.nominal, *finding.hidden)
    assert any(one.holds(value) for value in values), values
    if one.unit == "change" and one.at_least is not None:
        assert min(values) > one.at_least - 0.03, values


def test_what_helps_a_large_gpu_hurts_a_small_one() -> None:
    """P8 in one line: 2048 to 8192 tokens gains on an H100 and loses on an L4."""
    for seed in SEEDS:
        machine = Hardware.hidden(seed)
        assert experiment("chat-2048").effect(machine) > 0.01
        assert experiment("chat-2048-l4").effect(machine) < 0.0


def test_an_effect_is_the_same_each_time() -> None:
    one = experiment("documents-itl")
    machine = Hardware.hidden(1)
    assert one.effect(machine) == one.effect(machine)


def test_the_document_is_current() -> None:
    """`python -m benchmarks.claims` writes it."""
    assert main(["--check"]) == 0


def constant(value: float, **bounds: float) -> Experiment:
    return Experiment("k", "P0", "a claim", "a condition", lambda _: value, "change", **bounds)


@pytest.mark.parametrize(
    ("bounds", "value", "holds"),
    [
        ({"at_least": 0.1}, 0.1, True),
        ({"at_least": 0.1}, 0.09, False),
        ({"at_most": -0.4}, -0.4, True),
        ({"at_most": -0.4}, -0.39, False),
        ({"at_least": -0.01, "at_most": 0.01}, 0.0, True),
        ({"at_least": -0.01, "at_most": 0.01}, 0.02, False),
    ],
)
def test_a_claim_holds_within_its_bounds(
    bounds: dict[str, float], value: float, holds: bool
) -> None:
    assert constant(value, **bounds).holds(value) is holds


@pytest.mark.parametrize(
    ("nominal", "hidden", "verdict"),
    [
        (0.2, (0.2, 0.3), "confirmed"),
        (0.2, (0.0, 0.3), "conditional"),
        (0.0, (0.2, 0.3), "conditional"),
        (0.0, (0.0, 0.0), "refuted"),
    ],
)
def test_the_verdict_counts_the_nominal_machine_as_one(
    nominal: float, hidden: tuple[float, ...], verdict: str
) -> None:
    assert Finding(constant(0.0, at_least=0.1), nominal, hidden).verdict == verdict


def test_the_document_has_a_row_per_experiment_and_a_line_per_other_claim() -> None:
    text = render([Finding(e, 0.5, (0.25, 0.75)) for e in EXPERIMENTS])
    assert text.count("| not measured |") == len(EXPERIMENTS)
    for one in EXPERIMENTS:
        assert one.statement in text
    for other in ELSEWHERE:
        assert f"* {other.claim}, " in text


def test_every_claim_of_the_reports_has_its_place() -> None:
    covered = {e.claim for e in EXPERIMENTS} | {e.claim for e in ELSEWHERE}
    assert covered == {f"P{number}" for number in range(1, 21)}
