from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.search.memory_forecast import UtilizationTable
from tuner.search.utilization_window import HEADROOM_POWER, HEADROOM_SPAN, UtilizationWindow

sequences = st.integers(8, 1024)
tokens = st.integers(256, 32768)
unit = st.floats(0, 1)


def table(few: float, many: float, margin: float = 0.0) -> UtilizationTable:
    """`few` with the smallest token budget, `many` with the largest, whatever the sequences."""
    rows = ((few, many), (few, many))
    return UtilizationTable((3.0, 10.0), (8.0, 15.0), rows, margin)


def window(
    *,
    low: float = 0.5,
    high: float = 0.97,
    ceiling: UtilizationTable | None = None,
    floor: UtilizationTable | None = None,
    span: float | None = HEADROOM_SPAN,
) -> UtilizationWindow:
    return UtilizationWindow(low, high, ceiling, floor, span, HEADROOM_POWER)


ROOMY = window(ceiling=table(0.97, 0.90), floor=table(0.3, 0.5))
TIGHT = window(ceiling=table(0.96, 0.80), floor=table(0.85, 0.95))
"""Of an L4 with a model that fills most of it: large steps leave no room for the cache."""


def test_only_what_lies_just_below_the_ceiling_is_tried() -> None:
    assert ROOMY.bounds(64, 256) == pytest.approx((0.89, 0.97))
    assert ROOMY.bounds(64, 32768) == pytest.approx((0.82, 0.90))


def test_half_of_all_points_lie_in_the_upper_quarter_of_the_span() -> None:
    assert ROOMY.at(0.0, 64, 256) == 0.97
    assert ROOMY.at(0.5, 64, 256) == 0.95
    assert ROOMY.at(1.0, 64, 256) == 0.89


def test_a_cache_too_small_to_start_is_not_tried() -> None:
    assert TIGHT.bounds(64, 256) == pytest.approx((0.88, 0.96))
    few_tokens, many_tokens = TIGHT.bounds(64, 512), TIGHT.bounds(64, 1024)
    assert few_tokens[0] < many_tokens[0] <= many_tokens[1] < few_tokens[1]
    assert many_tokens[0] == pytest.approx(0.85 + 2 / 7 * 0.1)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0.5, 0.8, (0.72, 0.8)), (0.93, 0.95, (0.93, 0.95)), (0.6, 0.6, (0.6, 0.6))],
)
def test_a_range_of_the_users_is_never_left(
    low: float, high: float, expected: tuple[float, float]
) -> None:
    narrow = window(low=low, high=high, ceiling=table(0.97, 0.97), floor=table(0.3, 0.3))
    assert narrow.bounds(64, 2048) == pytest.approx(expected)


def test_without_a_memory_model_the_whole_range_is_tried() -> None:
    blind = UtilizationWindow(0.5, 0.97)
    assert blind.bounds(64, 2048) == (0.5, 0.97)
    assert blind.at(0.5, 64, 2048) == 0.735
    assert blind.fits(1024, 32768)
    assert blind.most_tokens(64, (256, 32768)) == 32768


def test_a_ceiling_without_a_floor_keeps_the_maps_of_earlier_versions() -> None:
    before = UtilizationWindow(0.5, 0.97, table(0.96, 0.82))
    assert before.bounds(64, 256) == pytest.approx((0.5, 0.96))
    assert before.at(0.5, 64, 256) == 0.73
    assert before.most_tokens(64, (256, 32768)) == 32768
    assert UtilizationWindow(0.9, 0.97, table(0.8, 0.8)).bounds(64, 256) == (0.9, 0.9)


def test_the_largest_token_budget_is_the_last_that_fits() -> None:
    most = TIGHT.most_tokens(64, (256, 32768))
    assert TIGHT.fits(64, most)
    assert not TIGHT.fits(64, most + most // 32)
    assert ROOMY.most_tokens(64, (256, 32768)) == 32768


def test_the_most_sequences_are_the_last_that_fit_with_as_many_tokens() -> None:
    most = TIGHT.most_sequences((8, 8192), 256)
    assert TIGHT.fits(most, most)
    assert not TIGHT.fits(most + most // 32, most + most // 32)
    assert ROOMY.most_sequences((8, 1024), 256) == 1024


def test_where_nothing_fits_nothing_is_taken_away() -> None:
    hopeless = window(ceiling=table(0.6, 0.5), floor=table(0.9, 0.95))
    assert hopeless.most_tokens(64, (256, 32768)) == 32768
    assert hopeless.most_sequences((8, 1024), 256) == 1024


@given(unit, sequences, tokens)
def test_a_coordinate_leads_to_a_utilisation_within_the_bounds_and_back(
    headroom: float, seqs: int, budget: int
) -> None:
    for each in (ROOMY, TIGHT, UtilizationWindow(0.5, 0.97)):
        found = each.at(headroom, seqs, budget)
        assert each.outside(found, seqs, budget) is None
        assert each.at(each.headroom(found, seqs, budget), seqs, budget) == found


@given(sequences, tokens, unit, unit)
def test_more_headroom_never_means_more_memory(
    seqs: int, budget: int, one: float, other: float
) -> None:
    less, more = sorted((one, other))
    assert TIGHT.at(more, seqs, budget) <= TIGHT.at(less, seqs, budget)


def test_a_utilisation_outside_is_named_with_its_bounds() -> None:
    assert ROOMY.outside(0.8, 64, 256) == "gpu-memory-utilization 0.8 is not within 0.89 to 0.970"
    assert ROOMY.outside(0.98, 64, 256) is not None
    assert ROOMY.outside(0.9, 64, 256) is None
