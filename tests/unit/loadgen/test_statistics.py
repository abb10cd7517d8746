from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from objectives.measurement import PERCENTILES, Estimate
from tuner.loadgen.statistics import (
    LARGEST_N_RESAMPLED_WHOLE,
    block_length,
    distribution,
    mean_estimate,
    quantile,
    share_estimate,
    smallest_n,
)

finite = st.floats(-1e9, 1e9)
samples = st.lists(finite, min_size=1, max_size=200).map(np.array)


def covers(estimate: Estimate, truth: float) -> bool:
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.low <= truth <= estimate.high


def autoregressive(count: int, phi: float, rng: np.random.Generator) -> np.ndarray:
    """Standard normal marginally, with correlation phi between neighbours."""
    noise = rng.standard_normal(count + 100)
    values = np.empty(count + 100)
    values[0] = noise[0]
    for index in range(1, values.size):
        values[index] = phi * values[index - 1] + np.sqrt(1 - phi**2) * noise[index]
    return values[100:]


@given(values=samples, share=st.floats(0.01, 1.0))
def test_a_quantile_is_the_smallest_observation_that_reaches_the_share(
    values: np.ndarray, share: float
) -> None:
    found = quantile(values, share)
    assert found in values
    assert np.count_nonzero(values <= found) >= share * values.size - 1e-6
    assert np.count_nonzero(values < found) < share * values.size


@pytest.mark.parametrize(
    ("share", "expected"), [(0.5, 50), (0.9, 90), (0.95, 95), (0.99, 99), (1.0, 100), (0.001, 1)]
)
def test_quantiles_are_exact_order_statistics(share: float, expected: int) -> None:
    values = np.random.default_rng(0).permutation(np.arange(1.0, 101.0))
    assert quantile(values, share) == expected


def test_no_observations_have_no_quantile_and_no_distribution() -> None:
    empty = np.empty(0)
    with pytest.raises(ValueError, match="no observations"):
        quantile(empty, 0.5)
    assert distribution(empty, seed=0) is None
    assert mean_estimate(empty, seed=0) is None
    assert share_estimate(np.empty(0, dtype=bool), seed=0) is None


@given(values=samples)
def test_percentiles_are_ordered_and_within_the_data(values: np.ndarray) -> None:
    found = distribution(values, seed=1)
    assert found is not None
    chain = [getattr(found, name).value for name in PERCENTILES] + [found.max.value]
    assert chain == sorted(chain)
    assert chain[-1] == values.max()
    assert values.min() <= chain[0]


@given(values=samples, factor=st.sampled_from([0.25, 2.0, 1024.0]))
def test_a_change_of_unit_changes_values_and_intervals_alike(
    values: np.ndarray, factor: float
) -> None:
    one, other = distribution(values, seed=1), distribution(values * factor, seed=1)
    assert one is not None
    assert other is not None
    for name in PERCENTILES:
        a, b = getattr(one, name), getattr(other, name)
        assert b.value == a.value * factor
        assert (a.low is None) == (b.low is None)
        if a.low is not None:
            assert b.low == a.low * factor
            assert b.high == a.high * factor


def test_equal_seeds_give_equal_intervals() -> None:
    values = np.random.default_rng(5).exponential(size=300)
    assert distribution(values, seed=3) == distribution(values, seed=3)
    assert distribution(values, seed=3) != distribution(values, seed=4)


@pytest.mark.parametrize(("share", "needed"), [(0.5, 5), (0.9, 29), (0.95, 59), (0.99, 299)])
def test_intervals_exist_from_the_number_that_can_bound_a_quantile(
    share: float, needed: int
) -> None:
    assert smallest_n(share) == needed
    assert share**needed <= 0.05 < share ** (needed - 1)


@pytest.mark.parametrize(("name", "needed"), [("p50", 5), ("p90", 29), ("p95", 59), ("p99", 299)])
def test_too_few_observations_give_a_value_without_an_interval(name: str, needed: int) -> None:
    values = np.random.default_rng(5).exponential(size=needed)
    few, enough = distribution(values[:-1], seed=0), distribution(values, seed=0)
    assert few is not None
    assert enough is not None
    assert getattr(few, name).low is None
    assert getattr(few, name).high is None
    assert getattr(few, name).n == needed - 1
    assert getattr(enough, name).low is not None


def test_the_maximum_never_has_an_interval() -> None:
    found = distribution(np.random.default_rng(5).exponential(size=3000), seed=0)
    assert found is not None
    assert (found.max.low, found.max.high) == (None, None)


@pytest.mark.parametrize("count", [300, LARGEST_N_RESAMPLED_WHOLE + 1])
def test_intervals_of_independent_data_cover_the_truth_nine_times_in_ten(count: int) -> None:
    rng = np.random.default_rng(11)
    truths = {"mean": 1.0, "p50": np.log(2), "p95": -np.log(0.05), "p99": -np.log(0.01)}
    hits = dict.fromkeys(truths, 0)
    rounds = 80
    for seed in range(rounds):
        found = distribution(rng.exponential(size=count), seed=seed)
        for name, truth in truths.items():
            hits[name] += covers(getattr(found, name), truth)
    for name, hit in hits.items():
        assert hit / rounds >= (0.72 if name == "p99" and count == 300 else 0.80), name
        assert hit / rounds <= 0.99, name


def test_intervals_of_dependent_data_are_wide_enough() -> None:
    rng = np.random.default_rng(12)
    rounds, hits = 80, {"mean": 0, "p95": 0}
    for seed in range(rounds):
        found = distribution(autoregressive(1500, 0.9, rng), seed=seed)
        assert found is not None
        hits["mean"] += covers(found.mean, 0.0)
        hits["p95"] += covers(found.p95, float(norm.ppf(0.95)))
    assert hits["mean"] / rounds >= 0.70
    assert hits["p95"] / rounds >= 0.70


def test_dependence_widens_the_interval() -> None:
    values = autoregressive(1500, 0.9, np.random.default_rng(13))
    shuffled = np.random.default_rng(14).permutation(values)
    kept, lost = mean_estimate(values, seed=0), mean_estimate(shuffled, seed=0)
    assert kept is not None
    assert lost is not None
    assert kept.low is not None
    assert kept.high is not None
    assert lost.low is not None
    assert lost.high is not None
    assert kept.high - kept.low > 2 * (lost.high - lost.low)


def test_blocks_grow_with_dependence() -> None:
    rng = np.random.default_rng(15)
    lengths = [
        np.mean([block_length(autoregressive(1000, phi, rng)) for _ in range(10)])
        for phi in (0.0, 0.5, 0.9)
    ]
    assert lengths[0] < 6 < lengths[1] < 20 < lengths[2]


@given(values=samples)
def test_blocks_leave_something_to_choose_from(values: np.ndarray) -> None:
    assert 1 <= block_length(values) <= max(1, values.size // 4)


@pytest.mark.parametrize("count", [1, 50, 5000])
def test_constant_data_have_an_interval_of_no_width(count: int) -> None:
    found = distribution(np.full(count, 7.5), seed=0)
    assert found is not None
    assert found.mean.value == 7.5
    if count > 20:
        assert (found.p50.low, found.p50.high) == (7.5, 7.5)


@pytest.mark.parametrize("count", [1000, 50_000])
def test_the_value_lies_in_its_interval(count: int) -> None:
    for seed in range(10):
        found = distribution(np.random.default_rng(seed).lognormal(size=count), seed=seed)
        for name in ("mean", "p50", "p95", "p99"):
            assert covers(getattr(found, name), getattr(found, name).value)


def test_both_ways_to_resample_agree() -> None:
    values = np.random.default_rng(3).exponential(size=LARGEST_N_RESAMPLED_WHOLE + 400)
    whole = distribution(values[:LARGEST_N_RESAMPLED_WHOLE], seed=0)
    histograms = distribution(values, seed=0)
    assert whole is not None
    assert histograms is not None
    for name in ("mean", "p50", "p95"):
        a, b = getattr(whole, name), getattr(histograms, name)
        assert b.high - b.low == pytest.approx(a.high - a.low, rel=0.4)


def test_a_share_counts_the_good_ones() -> None:
    good = np.arange(400) % 4 != 0
    estimate = share_estimate(good, seed=0)
    assert estimate is not None
    assert (estimate.value, estimate.n) == (0.75, 400)
    assert covers(estimate, 0.75)


@pytest.mark.parametrize(("verdict", "low", "high"), [(True, 0.974, 1.0), (False, 0.0, 0.026)])
def test_an_unbroken_share_is_not_certain(verdict: bool, low: float, high: float) -> None:
    estimate = share_estimate(np.full(100, verdict), seed=0)
    assert estimate is not None
    assert (estimate.low, estimate.high) == pytest.approx((low, high), abs=5e-4)


def test_a_share_of_few_has_no_interval() -> None:
    estimate = share_estimate(np.array([True, True]), seed=0)
    assert estimate == Estimate(1.0, 2)
