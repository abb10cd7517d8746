from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import rankdata

from tests.support.study_records import study_record, trial_record
from tuner.domain.states import TrialState
from tuner.store.records import TrialRecord
from tuner.study.ledger import History
from tuner.study.prior_trust import (
    DROPPED,
    FEWEST_SCORED,
    Agreement,
    agreement,
    rank_correlation,
    trust_report,
    was_dropped,
)

numbers = st.lists(st.integers(-100, 100).map(float), min_size=2, max_size=12)


def test_equal_orders_agree_and_opposite_ones_do_not() -> None:
    assert rank_correlation([1.0, 2.0, 3.0], [10.0, 200.0, 3000.0]) == pytest.approx(1.0)
    assert rank_correlation([1.0, 2.0, 3.0], [3.0, 2.0, 1.0]) == pytest.approx(-1.0)


def test_equal_values_share_their_rank() -> None:
    # Spearman's own example with ties: ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4.
    assert rank_correlation([1.0, 2.0, 2.0, 3.0], [1.0, 2.0, 3.0, 4.0]) == pytest.approx(
        4.5 / (4.5 * 5.0) ** 0.5
    )


def test_a_single_value_has_no_order() -> None:
    assert rank_correlation([1.0, 1.0, 1.0], [1.0, 2.0, 3.0]) is None


@given(numbers)
def test_it_is_pearsons_correlation_of_scipys_ranks(left: list[float]) -> None:
    right = sorted(left, key=lambda value: (value * 7919) % 101)
    found = rank_correlation(left, right)
    if len(set(left)) == 1:
        assert found is None
        return
    a, b = rankdata(left), rankdata(right)
    a, b = a - a.mean(), b - b.mean()
    assert found == pytest.approx(float((a * b).sum() / ((a**2).sum() * (b**2).sum()) ** 0.5))


@given(numbers)
def test_only_the_order_counts(values: list[float]) -> None:
    others = list(reversed(values))
    cubes = [value**3 for value in values]
    assert rank_correlation(values, others) == rank_correlation(cubes, others)


def test_half_agreement_is_the_least_that_is_followed() -> None:
    assert Agreement(0.49, 6).misleads
    assert not Agreement(0.5, 6).misleads


def predicted(number: int, expected: float | None, measured: float | None) -> TrialRecord:
    trial = trial_record(number, score=measured)
    return replace(trial, prediction=None if expected is None else {"score": expected})


def study(*pairs: tuple[float | None, float | None], baseline: float | None = 0.0) -> History:
    """The baseline, then trials by predicted and measured score."""
    trials = [predicted(number + 1, *pair) for number, pair in enumerate(pairs)]
    return History(study_record(), (predicted(0, None, baseline), *trials), (), ())


def test_the_reference_takes_part_with_its_own_predicted_score() -> None:
    four = study((0.1, 0.2), (0.2, 0.3), (0.3, 0.5), (0.4, 0.9))
    found = agreement(four, reference_score=0.0)
    assert found is not None
    assert found.trials == FEWEST_SCORED
    assert found.correlation == pytest.approx(1.0)
    assert agreement(four, reference_score=None) is None, "four are too few"


def test_what_was_not_predicted_or_not_scored_says_nothing() -> None:
    scored = [(0.1, 0.2), (0.2, 0.3), (0.3, 0.5), (0.4, 0.9), (0.5, 0.1)]
    silent = [(None, 0.7), (0.9, None)]
    found, same = agreement(study(*scored), 0.0), agreement(study(*scored, *silent), 0.0)
    assert found is not None
    assert found == same


def test_a_trial_that_did_not_complete_has_no_score_to_compare() -> None:
    pairs = [(0.1, 0.2), (0.2, 0.3), (0.3, 0.5), (0.4, 0.9)]
    with_pruned = study(*pairs)
    last = replace(with_pruned.trials[-1], state=TrialState.PRUNED)
    assert agreement(replace(with_pruned, trials=(*with_pruned.trials[:-1], last)), 0.0) is None


def test_a_model_that_ranks_the_other_way_misleads() -> None:
    found = agreement(study((0.4, 0.1), (0.3, 0.2), (0.2, 0.3), (0.1, 0.4)), 0.5)
    assert found is not None
    assert found.misleads


def test_a_prior_stays_dropped_by_its_notice() -> None:
    assert not was_dropped(study())
    noticed = replace(study_record(), notices=({"kind": DROPPED, "message": "…"},))
    assert was_dropped(replace(study(), study=noticed))


def test_the_standing_is_told_early_and_without_the_unpredicted_reference() -> None:
    told = trust_report(study((0.4, 0.1), (0.3, 0.2), (0.2, 0.3)))
    assert told == {
        "rank_correlation": pytest.approx(-1.0),
        "trials": 3,
        "threshold": 0.5,
        "dropped": False,
    }
    assert trust_report(study()) is None
