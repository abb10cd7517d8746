from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from objectives.measurement import Estimate, MaxRate, SloLimits
from objectives.pooling import pooled
from objectives.serialise import measurement_from_dict, measurement_to_dict
from objectives.slo import GoodputObjective
from objectives.weighted import WeightedObjective
from tests.support.study_measurements import measurement

EQUAL = WeightedObjective.named({"ttft_p95": 1, "tpot_p95": 1, "throughput": 1})
factors = st.lists(st.floats(0.2, 5), min_size=1, max_size=5)


def test_one_measurement_pools_to_itself() -> None:
    assert pooled([measurement()]) == measurement()


def test_nothing_cannot_be_pooled() -> None:
    with pytest.raises(ValueError, match="nothing to pool"):
        pooled([])


@given(factors, st.floats(0.2, 5))
def test_a_score_against_the_pool_is_the_mean_of_the_scores_against_each(
    baselines: list[float], own: float
) -> None:
    candidate = measurement(ttft_ms=400 * own, tokens_per_s=1000 * own)
    each = [measurement(ttft_ms=400 * b, tpot_ms=40 * b) for b in baselines]
    scores = [EQUAL.score(candidate, b).value for b in each]
    known = [score for score in scores if score is not None]
    assert len(known) == len(scores)
    together = EQUAL.score(candidate, pooled(each)).value
    assert together == pytest.approx(sum(known) / len(known))


def test_counts_and_facts_are_the_first_ones() -> None:
    one, two = measurement(preemptions=3, seed=1), measurement(preemptions=9, seed=2)
    both = pooled([one, two])
    assert both.latency.preemptions == 3
    assert both.workload_seed == 1
    assert both.engine == one.engine


def test_observations_and_cuts_are_counted_over_all() -> None:
    one = measurement()
    assert one.latency.ttft_ms is not None
    cut = dataclasses.replace(one.latency.ttft_ms, censored=7)
    other = dataclasses.replace(one, latency=dataclasses.replace(one.latency, ttft_ms=cut))
    both = pooled([one, other]).latency.ttft_ms
    assert both is not None
    assert (both.p95.n, both.censored) == (600, 7)


def test_what_one_of_them_lacks_the_pool_lacks() -> None:
    one = measurement()
    other = dataclasses.replace(
        one,
        latency=dataclasses.replace(one.latency, ttft_ms=None),
        capacity=dataclasses.replace(one.capacity, output_tokens_per_s=None),
    )
    both = pooled([one, other])
    assert both.latency.ttft_ms is None
    assert both.capacity.output_tokens_per_s is None
    assert both.latency.tpot_ms is not None


def test_a_goodput_of_zero_is_averaged_and_not_lost() -> None:
    one = measurement()
    zero, some = (
        dataclasses.replace(
            one, latency=dataclasses.replace(one.latency, goodput_per_s=Estimate(value, 10))
        )
        for value in (0.0, 3.0)
    )
    both = pooled([zero, some])
    assert both.latency.goodput_per_s == Estimate(1.5, 20)
    assert GoodputObjective().score(some, both).value is not None


def test_a_pool_can_be_stored() -> None:
    both = pooled([measurement(ttft_ms=100), measurement(ttft_ms=300)])
    assert measurement_from_dict(measurement_to_dict(both)) == both


def test_highest_rates_are_averaged_where_all_are_known() -> None:
    slo = SloLimits(500, None, None, 0.95)
    low, high = (
        dataclasses.replace(
            measurement(), max_rate=MaxRate(rate, 1.0, 20.0, slo, 0.9, (), 60.0, "narrow")
        )
        for rate in (4.0, 9.0)
    )
    both = pooled([low, high]).max_rate
    assert both is not None
    assert both.value_per_s == pytest.approx(6.0)
    assert (both.low_per_s, both.high_per_s) == (None, None)
    assert pooled([low, measurement()]).max_rate is None
