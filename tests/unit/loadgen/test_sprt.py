from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.queues import Floats, waits_s
from tuner.loadgen.sprt import (
    FIRST_LOOK,
    LESS,
    MORE,
    AttainmentTest,
    Evidence,
    Verdict,
    looks,
    memory,
)

GOOD, BAD = 0.5, 2.0
TEST = AttainmentTest(0.95)


def independent(bad_share: float, count: int, rng: np.random.Generator) -> Floats:
    """Strains that say nothing of their neighbours."""
    return np.where(rng.random(count) < bad_share, BAD, rng.random(count))


def verdicts(bad_share: float, error: float = 0.05) -> Counter[Verdict]:
    rng, test = np.random.default_rng(7), AttainmentTest(0.95, error)
    return Counter(
        test.first_decision(independent(bad_share, 4000, rng)).verdict for _ in range(200)
    )


@pytest.mark.parametrize(("share", "wrong"), [(0.03, Verdict.FAILS), (0.07, Verdict.HOLDS)])
def test_of_independent_requests_the_stated_share_at_most_is_judged_wrongly(
    share: float, wrong: Verdict
) -> None:
    found = verdicts(share)
    assert found[wrong] <= 0.05 * 200 + 6  # two standard errors
    assert found[Verdict.OPEN] == 0


def test_what_is_far_off_is_never_judged_wrongly_and_soon() -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        assert TEST.first_decision(independent(0.3, 500, rng)).verdict is Verdict.FAILS
        assert TEST.first_decision(independent(0.005, 500, rng)).verdict is Verdict.HOLDS
    assert TEST.first_decision(independent(0.3, 500, rng)).requests < 60


def test_a_smaller_error_takes_more_requests() -> None:
    rng = np.random.default_rng(2)
    strains = [independent(0.03, 4000, rng) for _ in range(50)]
    counts = [
        np.mean([AttainmentTest(0.95, error).first_decision(s).requests for s in strains])
        for error in (0.1, 0.01)
    ]
    assert counts[0] < 0.7 * counts[1]


def strains_at(rate_per_s: float, count: int, seed: int) -> Floats:
    """Of a queue whose SLO is half a second of waiting: 4.9% are bad at 13.4 requests a second."""
    waits = waits_s(rate_per_s, count, np.random.default_rng(seed)) / 0.5
    return np.where(waits > 1, BAD, waits)


@pytest.mark.parametrize(
    ("rate", "wrong", "most"), [(12.2, Verdict.FAILS, 2), (15.0, Verdict.HOLDS, 3)]
)
def test_requests_that_are_bad_together_are_rarely_judged_wrongly(
    rate: float, wrong: Verdict, most: int
) -> None:
    """1% are bad at 12.2, 34% at 15.0, where every second stretch begins with 100 good ones."""
    test = AttainmentTest(0.95, 0.0125)
    found = Counter(
        test.first_decision(strains_at(rate, 1500, seed), 300).verdict for seed in range(40)
    )
    assert found[wrong] <= most
    assert found[Verdict.OPEN] < 30


def test_memory_is_seen_before_the_first_request_is_bad() -> None:
    strains = np.minimum(strains_at(12.2, 1500, 3), 1.0)
    assert memory(strains) > 5
    rng = np.random.default_rng(4)
    assert memory(rng.permutation(strains)) < 3


def test_equal_values_have_no_memory_that_could_be_seen() -> None:
    assert memory(np.full(100, 0.3)) == 1.0
    assert memory(np.full(100, 0.3) + 1e-12 * np.arange(100)) == 1.0
    assert memory(np.empty(0)) == 1.0
    assert memory(np.array([0.3])) == 1.0


@given(values=st.lists(st.floats(0, 2), max_size=60), shift=st.floats(-5, 5))
def test_memory_is_at_least_one_and_knows_no_origin(values: list[float], shift: float) -> None:
    array = np.array(values)
    assert memory(array) >= 1.0
    if array.size and np.ptp(array) > 1e-3:
        assert memory(array + shift) == pytest.approx(memory(array), rel=1e-3)


@given(target=st.floats(0.01, 1.0), error=st.floats(0.001, 0.4))
def test_what_holds_is_better_than_the_target_and_what_fails_is_worse(
    target: float, error: float
) -> None:
    test = AttainmentTest(target, error)
    assert test.bad_share_held < test.bad_share_failed < 1
    if target <= 0.99:
        assert test.bad_share_held == pytest.approx(LESS * (1 - target))
    assert MORE > 1 > LESS


def test_a_perfect_share_is_tested_against_what_a_sample_can_show() -> None:
    assert AttainmentTest(1.0).bad_share_failed == pytest.approx(0.007)


@pytest.mark.parametrize(("target", "error"), [(0.0, 0.05), (1.1, 0.05), (0.9, 0.0), (0.9, 0.5)])
def test_shares_that_are_none_are_refused(target: float, error: float) -> None:
    with pytest.raises(ValueError, match="must lie"):
        AttainmentTest(target, error)


def test_no_verdict_comes_before_the_fewest_requests() -> None:
    strains = np.full(400, BAD)
    assert TEST.first_decision(strains).requests == FIRST_LOOK
    assert TEST.first_decision(strains, 150).requests >= 150
    few = TEST.first_decision(strains[:100], 150)
    assert few.requests == 100  # what there is, for its caller to judge


def test_a_test_that_ran_out_of_requests_is_decided_by_the_share() -> None:
    assert TEST.met_by_share(Evidence(Verdict.OPEN, 100, 95, 0.0, 1.0))
    assert not TEST.met_by_share(Evidence(Verdict.OPEN, 100, 94, 0.0, 1.0))
    assert not TEST.met_by_share(Evidence(Verdict.OPEN, 0, 0, 0.0, 1.0))


@given(count=st.integers(0, 5000), more=st.integers(0, 500))
def test_looks_do_not_depend_on_how_much_is_still_to_come(count: int, more: int) -> None:
    short, long = looks(count), looks(count + more)
    assert long[: len(short)] == short
    assert list(long) == sorted(set(long))
    assert all(FIRST_LOOK <= seen <= count + more for seen in long)
