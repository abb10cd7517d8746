"""What a real vLLM on a CPU showed, as committed, and what calibration made of it."""

from __future__ import annotations

import pytest

from benchmarks.real_vllm.configurations import CONFIGURATIONS
from benchmarks.real_vllm.predicting import LIMIT, Verdict, report, verdict
from benchmarks.real_vllm.recorded import Recorded
from tuner.simulator.engine_model import warm_up

QUANTITIES = ("output_tokens_per_s", "ttft_p50_s")


@pytest.fixture(scope="module")
def recorded() -> Recorded:
    return Recorded.load()


@pytest.fixture(scope="module")
def found(recorded: Recorded) -> Verdict:
    warm_up()
    return verdict(recorded)


def test_every_configuration_was_measured_in_every_round(recorded: Recorded) -> None:
    for each in CONFIGURATIONS:
        rates = recorded.values(each.name, "mixed", "output_tokens_per_s")
        assert len(rates) == recorded.rounds > 0, each.name


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_held_out_configurations_are_predicted_after_calibration_on_three(
    found: Verdict, quantity: str
) -> None:
    assert found.worst(quantity) < LIMIT


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_without_calibration_they_are_not(found: Verdict, quantity: str) -> None:
    worst = max(abs(error) for (_, q), error in found.before.items() if q == quantity)
    assert worst > LIMIT


def test_the_table_in_the_document_is_the_reports(recorded: Recorded) -> None:
    from pathlib import Path

    page = (Path(__file__).parents[3] / "docs" / "engine-model.md").read_text(encoding="utf-8")
    assert report(recorded) in page
