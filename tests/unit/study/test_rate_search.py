from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from objectives.measurement import MaxRate, RateProbe
from objectives.slo import Slo
from tests.support.queues import waits_s
from tuner.loadgen.sprt import Verdict
from tuner.study.rate_search import CONFIDENCE, STEP_DOWN, RateSearch, bracket

SLO = Slo(ttft_ms=500)


def probe(rate: float, holds: bool, rule: str = "attainment") -> RateProbe:
    return RateProbe(rate, holds, rule, 100, 95, -5.0, 1.0, 60.0, "seen")


def search_for(truth: float, search: RateSearch) -> MaxRate:
    """Probes that are always right."""
    probes: list[RateProbe] = []
    while (rate := search.next_rate(probes)) is not None:
        probes.append(probe(rate, rate <= truth))
    return search.found(probes, SLO, 60.0 * len(probes))


@given(truth=st.floats(0.3, 30.0), first=st.none() | st.floats(0.5, 20.0))
def test_probes_that_are_right_end_with_the_rate_in_a_narrow_interval(
    truth: float, first: float | None
) -> None:
    found = search_for(truth, RateSearch(2.0, 5.0, most_probes=16, first_per_s=first))
    assert found.low_per_s is not None
    assert found.high_per_s is not None
    assert found.low_per_s <= truth < found.high_per_s
    assert found.high_per_s <= 1.04 * found.low_per_s
    assert found.ended == "narrow"
    assert found.value_per_s == pytest.approx(math.sqrt(found.low_per_s * found.high_per_s))


@given(truth=st.floats(2.0, 5.0))
def test_a_rate_within_the_bracket_takes_few_probes(truth: float) -> None:
    assert len(search_for(truth, RateSearch(2.0, 5.0)).probes) <= 8


@given(answers=st.lists(st.booleans(), min_size=1, max_size=12))
def test_every_rate_tried_lies_between_what_held_and_what_failed(answers: list[bool]) -> None:
    search, probes = RateSearch(1.0, 4.0, most_probes=12), list[RateProbe]()
    for holds in answers:
        rate = search.next_rate(probes)
        if rate is None:
            break
        low, high = bracket(probes)
        assert (low or 0) < rate < (high or math.inf)
        probes.append(probe(rate, holds))
    assert len(probes) <= 12


def test_the_first_rate_is_the_middle_or_the_one_to_beat() -> None:
    assert RateSearch(1.0, 4.0).next_rate([]) == pytest.approx(2.0)
    assert RateSearch(1.0, 4.0, first_per_s=3.1).next_rate([]) == 3.1


def test_a_wrong_bracket_is_left_upwards_and_downwards() -> None:
    search = RateSearch(1.0, 4.0)
    assert search.next_rate([probe(2.0, True)]) == 4.0
    assert search.next_rate([probe(2.0, True), probe(4.0, True)]) == 8.0
    assert search.next_rate([probe(2.0, False)]) == 1.0
    assert search.next_rate([probe(2.0, False), probe(1.0, False)]) == 0.5


def test_a_guess_guides_the_search_but_bounds_nothing() -> None:
    probes = [probe(2.0, True), probe(4.0, False), probe(2.8, False, "share")]
    found = RateSearch(1.0, 4.0).found(probes, SLO, 180.0)
    assert (found.low_per_s, found.high_per_s) == (2.0, 4.0)
    assert found.value_per_s == pytest.approx(math.sqrt(2.0 * 2.8))


def test_what_never_held_or_never_failed_is_open_on_that_side() -> None:
    search = RateSearch(1.0, 4.0, most_probes=2)
    never = search.found([probe(2.0, False), probe(1.0, False)], SLO, 1.0)
    assert (never.low_per_s, never.high_per_s, never.value_per_s) == (None, 1.0, 0.5)
    always = search.found([probe(2.0, True), probe(4.0, True)], SLO, 1.0)
    assert (always.low_per_s, always.high_per_s, always.value_per_s) == (4.0, None, 4.0)
    assert always.ended == "probes"
    nothing = search.found([], SLO, 0.0)
    assert (nothing.value_per_s, nothing.estimate, nothing.ended) == (None, None, "time")


def test_a_bracket_that_is_none_is_refused() -> None:
    for low, high in ((0.0, 1.0), (2.0, 1.0)):
        with pytest.raises(ValueError, match="bracket"):
            RateSearch(low, high)
    with pytest.raises(ValueError, match="width"):
        dataclasses.replace(RateSearch(1.0, 2.0), width=0.0)


def noisy_search(seed: int) -> MaxRate:
    """Each probe is a fresh stretch of a queue: 600 requests on 16 slots of a second each."""
    search = RateSearch(8.0, 17.6)
    test, probes = search.test(0.95), list[RateProbe]()
    while (rate := search.next_rate(probes)) is not None:
        rng = np.random.default_rng([seed, len(probes)])
        waits = waits_s(rate, 600, rng, settling=150) / 0.5
        evidence = test.first_decision(np.where(waits > 1, 2.0, waits), 150)
        opened = evidence.verdict is Verdict.OPEN
        holds = test.met_by_share(evidence) if opened else evidence.verdict is Verdict.HOLDS
        probes.append(probe(rate, holds, "share" if opened else "attainment"))
    return search.found(probes, SLO, 1.0)


ZONE = (13.0, 13.7)
"""Rates at which 3% and 7% of the queue's requests wait longer than half a second."""


def test_on_a_busy_queue_the_interval_holds_the_rate_as_often_as_it_says() -> None:
    runs = [noisy_search(seed) for seed in range(40)]
    hits = sum(
        (run.low_per_s or 0) <= ZONE[1] and (run.high_per_s or math.inf) >= ZONE[0] for run in runs
    )
    assert hits / len(runs) >= CONFIDENCE - 0.05
    values = [run.value_per_s for run in runs if run.value_per_s is not None]
    assert 12.0 < np.median(values) < 14.5


CONFIRMING = RateSearch(1.0, 4.0, most_confirmations=3)
NARROW = [probe(2.0, True), probe(2.8, False), probe(2.4, True), probe(2.45, False)]


def test_the_highest_rate_that_held_is_tried_again_until_one_holds() -> None:
    assert CONFIRMING.next_confirmation(NARROW, []) == 2.4
    assert CONFIRMING.next_confirmation(NARROW, [probe(2.4, True)]) is None
    again = probe(2.4, False)
    second = CONFIRMING.next_confirmation(NARROW, [again])
    assert second == pytest.approx(2.4 / STEP_DOWN)
    third = CONFIRMING.next_confirmation(NARROW, [again, probe(second or 0, False)])
    assert third == 2.0, "held in the search, and no further down than a step"
    failed = [again, probe(2.2, False), probe(2.0, False)]
    assert CONFIRMING.next_confirmation(NARROW, failed) is None
    assert RateSearch(1.0, 4.0).next_confirmation(NARROW, []) is None


def test_where_nothing_held_there_is_nothing_to_confirm() -> None:
    failing = [probe(2.0, False), probe(1.0, False)]
    assert CONFIRMING.next_confirmation(failing, []) is None
    found = CONFIRMING.found(failing, SLO, 1.0)
    assert (found.confirmation, found.held_per_s, found.failed_per_s) == ("nothing", None, 1.0)


def test_a_confirmed_rate_is_told_with_how_often_it_held() -> None:
    found = CONFIRMING.found(NARROW, SLO, 1.0, [probe(2.4, True)])
    assert (found.confirmation, found.confirmed_per_s, found.failed_per_s) == ("held", 2.4, 2.45)
    assert found.times_held(2.4) == 2
    assert found.value_per_s == pytest.approx(math.sqrt(2.4 * 2.45))


def test_a_rate_that_is_missed_the_second_time_is_no_longer_held() -> None:
    found = CONFIRMING.found(NARROW, SLO, 1.0, [probe(2.4, False), probe(2.2, True)])
    assert (found.confirmed_per_s, found.failed_per_s, found.held_per_s) == (2.2, 2.4, 2.2)
    assert (found.low_per_s, found.high_per_s) == (2.2, 2.4)
    assert found.times_held(2.2) == 1
    assert found.ended == "narrow"
    assert found.estimate is not None
    assert found.estimate.n == 600


def test_without_time_or_luck_nothing_is_confirmed() -> None:
    assert CONFIRMING.found(NARROW, SLO, 1.0).confirmation == "time"
    missed = CONFIRMING.found(NARROW, SLO, 1.0, [probe(2.4, False)] * 3)
    assert (missed.confirmation, missed.confirmed_per_s, missed.held_per_s) == ("failed", None, 2.0)
    assert RateSearch(1.0, 4.0).found(NARROW, SLO, 1.0).confirmation is None


def test_confirmations_share_the_errors_that_a_search_may_make() -> None:
    assert CONFIRMING.test(0.95).error == pytest.approx((1 - CONFIDENCE) / 13)


@given(truth=st.floats(0.4, 8.0), luck=st.lists(st.booleans(), min_size=3, max_size=3))
def test_what_is_confirmed_was_never_seen_to_fail(truth: float, luck: list[bool]) -> None:
    search, probes = dataclasses.replace(CONFIRMING, most_probes=16), list[RateProbe]()
    while (rate := search.next_rate(probes)) is not None:
        probes.append(probe(rate, rate <= truth))
    confirmations: list[RateProbe] = []
    for holds in luck:
        rate = search.next_confirmation(probes, confirmations)
        if rate is None:
            break
        confirmations.append(probe(rate, holds))
    found = search.found(probes, SLO, 1.0, confirmations)
    if found.confirmed_per_s is not None:
        assert found.confirmed_per_s < (found.failed_per_s or math.inf)
        assert found.confirmation == "held"
