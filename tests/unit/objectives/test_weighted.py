from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from objectives.measurement import CapacitySegment, Estimate, LatencySegment, Measurement
from objectives.metric import Metric
from objectives.weighted import WeightedMetric, WeightedObjective
from tests.support.measurement_strategies import (
    capacity_segment,
    latency_segment,
    measurement,
    scaled,
    with_metrics,
)

TTFT = WeightedMetric.parse("ttft_p95")
TPOT = WeightedMetric.parse("tpot_p95")
ITL = WeightedMetric.parse("itl_p99")
THROUGHPUT = WeightedMetric.parse("throughput")
EQUAL = WeightedObjective({TTFT: 1.0, TPOT: 1.0, THROUGHPUT: 1.0})

values = st.floats(min_value=1.0, max_value=900.0)
ratios = st.floats(min_value=1.0, max_value=10.0)
weights = st.floats(min_value=0.0, max_value=100.0)
healthy = st.builds(with_metrics, values, values, values)


def value_of(objective: WeightedObjective, own: Measurement, baseline: Measurement) -> float:
    value = objective.score(own, baseline).value
    assert value is not None
    return value


@given(healthy)
def test_the_baseline_scores_zero_against_itself(own: Measurement) -> None:
    assert value_of(EQUAL, own, own) == 0.0


def test_the_baseline_is_charged_for_its_own_preemptions() -> None:
    baseline = measurement(capacity=capacity_segment(preemptions=1000))
    assert value_of(EQUAL, baseline, baseline) == -0.5


@given(healthy, healthy, ratios, ratios, ratios, weights, weights, weights)
def test_better_in_every_metric_never_scores_lower(
    own: Measurement,
    baseline: Measurement,
    ttft: float,
    tpot: float,
    throughput: float,
    w_ttft: float,
    w_tpot: float,
    w_throughput: float,
) -> None:
    assume(w_ttft + w_tpot + w_throughput > 0)
    objective = WeightedObjective({TTFT: w_ttft, TPOT: w_tpot, THROUGHPUT: w_throughput})
    better = with_metrics(_ttft(own) / ttft, _tpot(own) / tpot, _throughput(own) * throughput)
    assert value_of(objective, better, baseline) >= value_of(objective, own, baseline)


@pytest.mark.parametrize(
    ("better", "metric"),
    [
        (with_metrics(200, 40, 1000), TTFT),
        (with_metrics(400, 20, 1000), TPOT),
        (with_metrics(400, 40, 2000), THROUGHPUT),
        (measurement(latency_segment(itl_ms=30)), ITL),
    ],
)
def test_twice_as_good_in_one_metric_scores_ln_2_when_only_it_counts(
    better: Measurement, metric: WeightedMetric
) -> None:
    objective = WeightedObjective({metric: 3.0})
    assert value_of(objective, better, measurement()) == pytest.approx(math.log(2))
    assert value_of(objective, measurement(), better) == pytest.approx(-math.log(2))


@given(healthy, healthy, st.floats(0.01, 100), st.floats(0.01, 100))
def test_units_do_not_matter(
    own: Measurement, baseline: Measurement, latency: float, rate: float
) -> None:
    in_other_units = value_of(EQUAL, scaled(own, latency, rate), scaled(baseline, latency, rate))
    assert in_other_units == pytest.approx(value_of(EQUAL, own, baseline), abs=1e-9)


@given(healthy, healthy, weights, weights, st.floats(1e-3, 1e3))
def test_the_scale_of_the_weights_does_not_matter(
    own: Measurement, baseline: Measurement, w_ttft: float, w_throughput: float, factor: float
) -> None:
    assume(w_ttft + w_throughput > 1e-6)
    once = WeightedObjective({TTFT: w_ttft, THROUGHPUT: w_throughput})
    scaled_up = WeightedObjective({TTFT: w_ttft * factor, THROUGHPUT: w_throughput * factor})
    assert value_of(once, own, baseline) == pytest.approx(
        value_of(scaled_up, own, baseline), abs=1e-9
    )


def test_weights_are_normalised_and_explain_the_score() -> None:
    objective = WeightedObjective({TTFT: 3.0, THROUGHPUT: 1.0})
    score = objective.score(with_metrics(200, 40, 500), measurement())
    ttft, throughput = score.terms
    assert (ttft.metric, ttft.weight, ttft.baseline, ttft.value) == ("ttft_p95", 0.75, 400, 200)
    assert ttft.improvement == 2.0
    assert throughput.improvement == 0.5
    assert score.value == pytest.approx(ttft.contribution + throughput.contribution)
    assert score.value == pytest.approx(0.5 * math.log(2))


def test_a_score_can_be_stored_as_json() -> None:
    document = json.loads(json.dumps(EQUAL.score(measurement(), measurement()).to_dict()))
    assert document["value"] == 0.0
    assert [term["metric"] for term in document["terms"]] == ["ttft_p95", "tpot_p95", "throughput"]
    assert document["missing"] == []


@pytest.mark.parametrize(
    ("incomplete", "name"),
    [
        (measurement(latency_segment(ttft_ms=None)), "ttft_p95"),
        (measurement(latency_segment(tpot_ms=None)), "tpot_p95"),
        (measurement(capacity=capacity_segment(tokens_per_s=None)), "throughput"),
    ],
)
def test_a_missing_metric_gives_no_score_and_its_name(incomplete: Measurement, name: str) -> None:
    own = EQUAL.score(incomplete, measurement())
    assert (own.value, own.missing) == (None, (name,))
    assert len(own.terms) == 2
    reference = EQUAL.score(measurement(), incomplete)
    assert (reference.value, reference.missing) == (None, (f"baseline.{name}",))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0, 0.0])
def test_an_impossible_latency_is_missing_not_excellent(value: float) -> None:
    score = EQUAL.score(with_metrics(value, 40, 1000), measurement())
    assert (score.value, score.missing) == (None, ("ttft_p95",))


def test_a_metric_without_weight_may_be_missing() -> None:
    objective = WeightedObjective({TTFT: 1.0, ITL: 0.0})
    assert objective.score(measurement(latency_segment(itl_ms=None)), measurement()).value == 0.0
    assert list(objective.weights) == [TTFT]


def test_a_measured_throughput_of_zero_is_finite_and_bad() -> None:
    score = EQUAL.score(with_metrics(400, 40, 0), measurement())
    assert score.value == pytest.approx(math.log(1e-3) / 3)
    assert score.terms[2].value == 0.0


def test_a_baseline_without_throughput_is_no_reference() -> None:
    score = EQUAL.score(measurement(), with_metrics(400, 40, 0))
    assert (score.value, score.missing) == (None, ("baseline.throughput",))


def test_unknown_preemptions_are_missing_only_when_they_count() -> None:
    unknown = measurement(capacity=capacity_segment(preemptions=None))
    score = EQUAL.score(unknown, measurement())
    assert (score.value, score.penalty, score.missing) == (None, None, ("preemptions",))
    indifferent = WeightedObjective({TTFT: 1.0}, preemption_penalty=0.0)
    assert indifferent.score(unknown, measurement()).value == 0.0


@given(st.integers(0, 5000), st.integers(0, 5000))
def test_more_preemptions_never_score_higher(fewer: int, more: int) -> None:
    fewer, more = sorted((fewer, more))
    few = measurement(latency_segment(preemptions=fewer))
    many = measurement(latency_segment(preemptions=more))
    low = value_of(EQUAL, many, measurement())
    assert low <= value_of(EQUAL, few, measurement())
    assert low >= -0.5


def test_the_worse_segment_decides_the_penalty() -> None:
    own = measurement(latency_segment(preemptions=0), capacity_segment(preemptions=550))
    assert EQUAL.score(own, measurement()).penalty == pytest.approx(0.25)


def test_the_latency_percentile_can_be_chosen_for_ttft_and_tpot_only() -> None:
    names = {"ttft_p95": 1.0, "tpot_p95": 1.0, "throughput": 1.0, "itl_p99": 1.0}
    objective = WeightedObjective.named(names, latency_percentile="p50")
    assert [m.name for m in objective.weights] == ["ttft_p50", "tpot_p50", "throughput", "itl_p99"]
    original = measurement()
    assert original.latency.ttft_ms is not None
    slow_tail = replace(
        original,
        latency=replace(
            original.latency,
            ttft_ms=replace(original.latency.ttft_ms, p95=Estimate(9000.0, 10)),
        ),
    )
    assert value_of(objective, slow_tail, original) == 0.0
    assert value_of(WeightedObjective.named(names), slow_tail, original) < -0.5


@pytest.mark.parametrize(
    ("given_weights", "penalty", "message"),
    [
        ({TTFT: 0.0, TPOT: 0.0}, 0.5, "at least one weight"),
        ({}, 0.5, "at least one weight"),
        ({TTFT: -1.0}, 0.5, "ttft_p95 must be finite"),
        ({TTFT: float("nan")}, 0.5, "ttft_p95 must be finite"),
        ({TTFT: float("inf")}, 0.5, "ttft_p95 must be finite"),
        ({TTFT: 1.0}, -0.1, "preemption penalty"),
    ],
)
def test_weights_that_mean_nothing_are_refused(
    given_weights: dict[WeightedMetric, float], penalty: float, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        WeightedObjective(given_weights, preemption_penalty=penalty)


def test_enormous_weights_do_not_overflow() -> None:
    objective = WeightedObjective({TTFT: 1e308, TPOT: 1e308, THROUGHPUT: 1e308})
    assert sum(objective.weights.values()) == pytest.approx(1.0)


@pytest.mark.parametrize(
    "name",
    ["ttft_p50", "ttft_p95", "tpot_p90", "itl_p99", "e2e_p95", "throughput", "goodput"],
)
def test_metric_names_are_read_back(name: str) -> None:
    assert WeightedMetric.parse(name).name == name


@pytest.mark.parametrize("name", ["ttft", "ttft_p42", "throughput_p95", "latency_p95", ""])
def test_unknown_metric_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"no metric|percentile"):
        WeightedMetric.parse(name)


def test_a_latency_needs_a_percentile_and_a_rate_has_none() -> None:
    with pytest.raises(ValueError, match="percentile"):
        WeightedMetric(Metric.TTFT_MS)
    with pytest.raises(ValueError, match="percentile"):
        WeightedMetric(Metric.OUTPUT_TOKENS_PER_S, "p95")


def test_throughput_is_read_from_the_saturated_segment() -> None:
    own = measurement(capacity=capacity_segment(tokens_per_s=1234.0))
    assert THROUGHPUT.read(own) == 1234.0
    assert own.latency.output_tokens_per_s == Estimate(500.0, 1000)


def _ttft(own: Measurement) -> float:
    return _read(TTFT, own)


def _tpot(own: Measurement) -> float:
    return _read(TPOT, own)


def _throughput(own: Measurement) -> float:
    return _read(THROUGHPUT, own)


def _read(metric: WeightedMetric, own: Measurement) -> float:
    value = metric.read(own)
    assert value is not None
    return value


def test_segments_without_requests_have_no_preemption_rate() -> None:
    empty = replace(measurement().latency.requests, scheduled=0, completed=0)
    latency: LatencySegment = replace(latency_segment(), requests=empty)
    capacity: CapacitySegment = replace(capacity_segment(), requests=empty)
    score = EQUAL.score(measurement(latency, capacity), measurement())
    assert score.missing == ("preemptions",)
