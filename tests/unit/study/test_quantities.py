from __future__ import annotations

import dataclasses
import json

import pytest

from objectives.measurement import (
    Distribution,
    Estimate,
    MaxRate,
    Measurement,
    RateProbe,
    SloLimits,
)
from objectives.metric import Direction
from tests.support.study_measurements import distribution, measurement
from tuner.study.quantities import (
    BY_NAME,
    COST,
    QUANTITIES,
    Reading,
    cost,
    readings,
    stored_readings,
)
from tuner.study.report import headline, trial_summary


def with_latency(base: Measurement, **changes: object) -> Measurement:
    latency = dataclasses.replace(base.latency, **changes)  # type: ignore[arg-type]
    return dataclasses.replace(base, latency=latency)


def test_every_quantity_is_read_or_null() -> None:
    found = readings(measurement())
    assert set(found) == set(BY_NAME) - {COST}
    assert found["goodput_per_s"] is None
    assert found["slo_attainment"] is None


def test_values_are_those_of_the_measurement() -> None:
    found = readings(measurement(ttft_ms=400, tpot_ms=40, tokens_per_s=1000))
    assert found["ttft_p95_ms"] == Reading(400.0, None, None)
    assert found["ttft_p50_ms"] == Reading(200.0, None, None)
    assert found["tpot_p95_ms"] == Reading(40.0, None, None)
    assert found["output_tokens_per_s"] == Reading(1000.0, None, None)


def test_what_was_not_measured_is_null() -> None:
    found = readings(with_latency(measurement(), ttft_ms=None))
    assert found["ttft_p50_ms"] is None
    assert found["ttft_p95_ms"] is None
    assert found["tpot_p95_ms"] is not None


def test_cost_is_gpu_hours_for_a_million_tokens() -> None:
    found = cost(readings(measurement(tokens_per_s=1000))["output_tokens_per_s"], gpu_count=2)
    assert found is not None
    assert found.value == pytest.approx(2 * 1e6 / 1000 / 3600)
    assert (found.low, found.high) == (None, None)


def test_the_cost_of_the_fastest_end_is_the_lowest() -> None:
    found = cost(Reading(1000, 900, 1100), gpu_count=1)
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.value < found.high


@pytest.mark.parametrize("rate", [None, Reading(0.0, None, None)])
def test_no_tokens_have_no_cost(rate: Reading | None) -> None:
    assert cost(rate, gpu_count=1) is None


def test_what_a_trial_was_stored_with_reads_as_measured() -> None:
    measured = measurement()
    assert stored_readings(json.loads(json.dumps(trial_summary(measured)))) == readings(measured)


@pytest.mark.parametrize("summary", [None, {}, {"quantities": None}])
def test_a_trial_without_a_summary_has_no_readings(summary: dict[str, object] | None) -> None:
    assert stored_readings(summary) == {}


def test_a_percentile_at_the_cap_is_a_lower_bound() -> None:
    capped: Distribution = dataclasses.replace(
        distribution(400), p99=Estimate(800.0, 300), max=Estimate(800.0, 300), censored=9
    )
    found = readings(with_latency(measurement(), ttft_ms=capped))
    assert found["ttft_p99_ms"] is not None
    assert found["ttft_p99_ms"].censored
    assert found["ttft_p95_ms"] is not None
    assert not found["ttft_p95_ms"].censored


def test_names_are_told_apart_and_better_is_known() -> None:
    assert len(BY_NAME) == len(QUANTITIES)
    higher = {q.name for q in QUANTITIES if q.direction is Direction.HIGHER_IS_BETTER}
    assert higher == {"output_tokens_per_s", "goodput_per_s", "max_rate_per_s", "slo_attainment"}


def test_a_reading_goes_to_json() -> None:
    assert Reading(1.0, 0.5, 2.0, censored=True).to_dict() == {
        "value": 1.0,
        "low": 0.5,
        "high": 2.0,
        "censored": True,
    }


def rate_reading(*probes: tuple[float, bool]) -> Reading | None:
    tried = tuple(
        RateProbe(rate, holds, "attainment", 50, 49, -4.0, 1.0, 30.0, "seen")
        for rate, holds in probes
    )
    limits = SloLimits(500, None, None, 0.95)
    found = MaxRate(4.1, 4.0, 4.2, limits, 0.9, tried, 60.0, "narrow")
    return readings(dataclasses.replace(measurement(), max_rate=found))["max_rate_per_s"]


def test_a_rate_is_only_read_with_its_limits() -> None:
    assert rate_reading((4.0, True), (4.2, False)) == Reading(4.1, 4.0, 4.2)
    assert rate_reading((4.0, True)) == Reading(4.1, 4.0, 4.2, censored=True)
    assert rate_reading((4.0, False)) is None
    assert readings(measurement())["max_rate_per_s"] is None


def test_the_headline_gives_what_held_what_failed_and_what_was_confirmed() -> None:
    tried = tuple(
        RateProbe(rate, holds, "share", 50, 49, -4.0, 1.0, 30.0, "seen")
        for rate, holds in ((4.0, True), (4.2, False), (4.1, True))
    )
    limits = SloLimits(500, None, None, 0.95)
    found = MaxRate(4.1, None, None, limits, 0.9, tried, 60.0, "narrow", tried[:1], "held")
    told = headline(dataclasses.replace(measurement(), max_rate=found))
    assert told["max_rate_held_per_s"] == 4.1
    assert told["max_rate_failed_per_s"] == 4.2
    assert told["max_rate_confirmed_per_s"] == 4.0
    assert headline(measurement())["max_rate_held_per_s"] is None
