from __future__ import annotations

from typing import Any

import pytest

from benchmarks.claims.catalogue import EXPERIMENTS, experiment
from benchmarks.claims.real import COUNTERPARTS, FACTS, counterpart, section
from benchmarks.claims.table import Finding, render
from benchmarks.real_vllm.configurations import CONFIGURATIONS
from benchmarks.real_vllm.recorded import Recorded

MIXED = {
    "output_tokens_per_s": 600.0,
    "ttft_p50_ms": 900.0,
    "tpot_p50_ms": 30.0,
    "tpot_p95_ms": 40.0,
    "itl_p99_ms": 300.0,
    "preemptions_per_request": 0.0,
    "running_peak": 4.0,
}
LONG = {"alone_ttft_ms": 400.0, "smallest_largest_gap_ms": 420.0, "largest_gap_ms": 440.0}
CHANGED: dict[str, dict[str, dict[str, float]]] = {
    "budget 256": {
        "mixed": {"itl_p99_ms": 90.0},
        "long_prompt": {"alone_ttft_ms": 500.0, "largest_gap_ms": 80.0},
    },
    "small pool": {"mixed": {"preemptions_per_request": 0.5, "tpot_p95_ms": 80.0}},
    "8 sequences": {"mixed": {"ttft_p50_ms": 2700.0, "tpot_p50_ms": 15.0}},
}


def run(name: str, tokens: int) -> dict[str, Any]:
    changed = CHANGED.get(name, {})
    return {
        "configuration": name,
        "round": 0,
        "facts": {"version": "0.32.0", "kv_cache_tokens": tokens},
        "mixed": {**MIXED, **changed.get("mixed", {})},
        "long_prompt": {**LONG, **changed.get("long_prompt", {})},
    }


RECORDED = Recorded(
    {"cpus": 2}, tuple(run(each.name, each.kv_mib * 256) for each in CONFIGURATIONS)
)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("unchunked-gap", 1.05),
        ("chunked-gap", 0.2),
        ("lone-prompt", 0.25),
        ("documents-itl", -0.7),
        ("preemptions", 0.5),
        ("preemption-tpot", 2.0),
    ],
)
def test_a_counterpart_is_the_claims_own_effect(key: str, value: float) -> None:
    found = counterpart(experiment(key), RECORDED)
    assert found == pytest.approx(value)
    assert experiment(key).holds(value)


def test_what_the_machine_cannot_show_stays_unmeasured() -> None:
    assert counterpart(experiment("utilization"), RECORDED) is None
    assert set(COUNTERPARTS) <= {each.key for each in EXPERIMENTS}


def test_the_column_says_value_and_whether_the_claim_holds() -> None:
    one = experiment("chunked-gap")
    text = render([Finding(one, 0.25, (0.25,))], RECORDED)
    assert "| x 0.20: holds |" in text
    assert "medians of" not in text
    assert "not measured" in render([Finding(one, 0.25, (0.25,))])


def test_facts_without_an_experiment_are_judged_on_what_was_recorded() -> None:
    assert all(fact.holds(RECORDED) for fact in FACTS)
    shown = section(RECORDED)
    assert "65,536 of 65,536; 6,144 of 6,144" in shown
    assert "TTFT p50 x 3.00, TPOT p50 x 0.50" in shown
    over = tuple(
        {**each, "mixed": {**each["mixed"], "running_peak": 99.0}} for each in RECORDED.runs
    )
    assert "| P1 " in section(Recorded(RECORDED.machine, over))
    assert not FACTS[0].holds(Recorded(RECORDED.machine, over))
