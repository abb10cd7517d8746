from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings

from objectives.measurement import Estimate, Measurement
from objectives.serialise import measurement_from_dict, measurement_to_dict
from tests.support.measurement_strategies import (
    latency_segment,
    measurement,
    measurements,
)


@given(measurements)
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_a_measurement_survives_json_exactly(original: Measurement) -> None:
    text = json.dumps(measurement_to_dict(original), allow_nan=False)
    assert measurement_from_dict(json.loads(text)) == original


def test_missing_stays_none_and_zero_stays_zero() -> None:
    original = measurement(latency_segment(ttft_ms=None, preemptions=0))
    document = measurement_to_dict(original)
    latency = document["latency"]
    assert isinstance(latency, dict)
    assert latency["ttft_ms"] is None
    assert latency["preemptions"] == 0
    restored = measurement_from_dict(document)
    assert restored.latency.ttft_ms is None
    assert restored.latency.preemptions == 0


def test_integers_in_json_come_back_as_floats_where_the_field_is_one() -> None:
    document = json.loads(json.dumps(measurement_to_dict(measurement())))
    document["latency"]["window_s"] = 60
    window_s = measurement_from_dict(document).latency.window_s
    assert isinstance(window_s, float)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_value_that_json_cannot_hold_is_refused_with_its_place(value: float) -> None:
    original = measurement()
    broken = replace(original, capacity=replace(original.capacity, kv_usage_peak=value))
    with pytest.raises(ValueError, match=r"capacity\.kv_usage_peak"):
        measurement_to_dict(broken)


def test_a_field_unknown_to_an_older_version_takes_its_default() -> None:
    document = json.loads(json.dumps(measurement_to_dict(measurement())))
    del document["latency"]["gpu_utilization"]
    del document["notes"]
    assert measurement_from_dict(document) == measurement()


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("format",), 99, "format 1"),
        (("latency", "extra"), 1, "unknown extra"),
        (("latency", "requests"), 7, "an object is expected"),
        (("workload_seed",), "one", "not of type int"),
        (("workload_seed",), True, "not of type int"),
        (("simulated",), 1, "not of type bool"),
        (("notes",), "text", "a list is expected"),
        (("engine", "version"), 3, "not of type str"),
    ],
)
def test_a_foreign_document_is_refused(path: tuple[str, ...], value: object, message: str) -> None:
    document = json.loads(json.dumps(measurement_to_dict(measurement())))
    inner = document
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    with pytest.raises(ValueError, match=message):
        measurement_from_dict(document)


def test_a_required_field_cannot_be_left_out() -> None:
    document = json.loads(json.dumps(measurement_to_dict(measurement())))
    del document["capacity"]["concurrency"]
    with pytest.raises(ValueError, match="concurrency"):
        measurement_from_dict(document)


def test_an_object_that_is_no_dataclass_cannot_be_stored() -> None:
    broken = replace(measurement(), workload_digest=Ellipsis)  # type: ignore[arg-type] # the fault
    with pytest.raises(ValueError, match="workload_digest"):
        measurement_to_dict(broken)


def test_intervals_are_kept() -> None:
    original = measurement()
    kept = measurement_from_dict(measurement_to_dict(original)).latency.slo_attainment
    assert kept == Estimate(0.9, 1000, 0.88, 0.92)
