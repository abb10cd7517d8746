from __future__ import annotations

import dataclasses

import pytest

from objectives.measurement import Distribution, Estimate, Measurement
from objectives.metric import Direction
from tests.support.study_measurements import distribution, measurement
from tuner.study.quantities import BY_NAME, QUANTITIES, Reading, readings


def with_latency(base: Measurement, **changes: object) -> Measurement:
    latency = dataclasses.replace(base.latency, **changes)  # type: ignore[arg-type]
    return dataclasses.replace(base, latency=latency)


def test_every_quantity_is_read_or_null() -> None:
    found = readings(measurement(), gpu_count=1)
    assert set(found) == set(BY_NAME)
    assert found["goodput"] is None
    assert found["slo_attainment"] is None


def test_values_are_those_of_the_measurement() -> None:
    found = readings(measurement(ttft_ms=400, tpot_ms=40, tokens_per_s=1000), gpu_count=1)
    assert found["ttft_p95"] == Reading(400.0, None, None)
    assert found["ttft_p50"] == Reading(200.0, None, None)
    assert found["tpot_p95"] == Reading(40.0, None, None)
    assert found["throughput"] == Reading(1000.0, None, None)


def test_what_was_not_measured_is_null() -> None:
    found = readings(with_latency(measurement(), ttft_ms=None), gpu_count=1)
    assert found["ttft_p50"] is None
    assert found["ttft_p95"] is None
    assert found["tpot_p95"] is not None


def test_cost_is_gpu_hours_for_a_million_tokens() -> None:
    found = readings(measurement(tokens_per_s=1000), gpu_count=2)
    assert found["cost"] is not None
    assert found["cost"].value == pytest.approx(2 * 1e6 / 1000 / 3600)


def test_the_cost_of_the_fastest_end_is_the_lowest() -> None:
    base = measurement()
    capacity = dataclasses.replace(
        base.capacity, output_tokens_per_s=Estimate(1000, 100, low=900, high=1100)
    )
    cost = readings(dataclasses.replace(base, capacity=capacity), gpu_count=1)["cost"]
    assert cost is not None
    assert cost.low is not None
    assert cost.high is not None
    assert cost.low < cost.value < cost.high


@pytest.mark.parametrize("rate", [None, Estimate(0.0, 0)])
def test_no_tokens_have_no_cost(rate: Estimate | None) -> None:
    base = measurement()
    capacity = dataclasses.replace(base.capacity, output_tokens_per_s=rate)
    assert readings(dataclasses.replace(base, capacity=capacity), gpu_count=1)["cost"] is None


def test_a_percentile_at_the_cap_is_a_lower_bound() -> None:
    capped: Distribution = dataclasses.replace(
        distribution(400), p99=Estimate(800.0, 300), max=Estimate(800.0, 300), censored=9
    )
    found = readings(with_latency(measurement(), ttft_ms=capped), gpu_count=1)
    assert found["ttft_p99"] is not None
    assert found["ttft_p99"].censored
    assert found["ttft_p95"] is not None
    assert not found["ttft_p95"].censored


def test_names_are_told_apart_and_better_is_known() -> None:
    assert len(BY_NAME) == len(QUANTITIES)
    higher = {q.name for q in QUANTITIES if q.direction is Direction.HIGHER_IS_BETTER}
    assert higher == {"throughput", "goodput", "slo_attainment"}


def test_a_reading_goes_to_json() -> None:
    assert Reading(1.0, 0.5, 2.0, censored=True).to_dict() == {
        "value": 1.0,
        "low": 0.5,
        "high": 2.0,
        "censored": True,
    }
