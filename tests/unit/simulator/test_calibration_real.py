"""Calibration against what a real vLLM showed on a CPU (recorded in benchmarks/real_vllm)."""

from __future__ import annotations

import pytest

from benchmarks.real_vllm.cpu_run import LOADS, MACHINE, PRIOR, Split, split
from tuner.simulator.calibration import deviations
from tuner.simulator.engine_model import warm_up


@pytest.fixture(scope="module")
def spanning() -> Split:
    """Calibrated on a base, one with few sequences and one with a small budget."""
    warm_up()
    return split((0, 1, 2))


@pytest.mark.parametrize("quantity", ["output_tokens_per_s", "ttft_mean_s"])
def test_three_configurations_that_span_the_knobs_predict_the_other_three(
    spanning: Split, quantity: str
) -> None:
    assert spanning.worst(quantity) < 0.25


def test_the_prior_alone_does_not(spanning: Split) -> None:
    others = LOADS[3:]
    before = deviations(MACHINE, [], others, PRIOR)
    for quantity in ("output_tokens_per_s", "ttft_mean_s", "tpot_mean_s"):
        error = max(abs(d.error) for d in before if d.quantity == quantity)
        assert error > 1.5 * spanning.worst(quantity), quantity


def test_the_effect_of_each_knob_has_the_sign_that_the_engine_showed(spanning: Split) -> None:
    """Few sequences: slow first token, fast next ones. A small pool: the same, by preemption."""
    found = deviations(MACHINE, [], LOADS, spanning.calibration.hardware)
    predicted: dict[tuple[int, str], float] = {}
    for deviation in found:
        observed = getattr(LOADS[deviation.index], deviation.quantity)
        predicted[deviation.index, deviation.quantity] = observed * (1.0 + deviation.error)
    for other in (1, 3, 5):
        assert predicted[other, "ttft_mean_s"] > 1.3 * predicted[0, "ttft_mean_s"]
        assert predicted[other, "tpot_mean_s"] < 0.8 * predicted[0, "tpot_mean_s"]
        assert predicted[other, "output_tokens_per_s"] < predicted[0, "output_tokens_per_s"]


def test_calibration_names_what_it_was_calibrated_on(spanning: Split) -> None:
    assert spanning.seen == (0, 1, 2)
    assert {d.index for d in spanning.calibration.after} == {0, 1, 2}
    assert {d.index for d in spanning.held_out} == {0, 1, 2}
    assert len(spanning.held_out) == 9
