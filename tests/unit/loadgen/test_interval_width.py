from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.loadgen.interval_width import (
    FEWEST_BATCHES,
    Z_90,
    mean_half_width,
    quantile_half_width,
    share_half_width,
)
from tuner.loadgen.records import FloatArray


def draw(count: int, seed: int = 1) -> FloatArray:
    return np.random.default_rng(seed).lognormal(0.0, 0.5, count)


def sticky(count: int, seed: int = 1) -> FloatArray:
    """The same values, ten of a kind in a row."""
    return np.repeat(draw(count // 10, seed), 10)


def test_a_mean_is_as_wide_as_independent_values_make_it() -> None:
    values = draw(4000)
    expected = Z_90 * values.std(ddof=1) / math.sqrt(values.size) / values.mean()
    assert mean_half_width(values) == pytest.approx(expected, rel=0.25)


def test_of_too_few_parts_and_of_nothing_the_mean_is_unknown() -> None:
    assert mean_half_width(draw(FEWEST_BATCHES - 1)) == math.inf
    assert mean_half_width(np.zeros(30)) == math.inf


def test_a_quantile_is_as_wide_as_its_density_says() -> None:
    values = draw(20_000)
    density = math.exp(-(1.645**2) / 2) / (math.sqrt(2 * math.pi) * 0.5)  # of the logs
    expected = Z_90 * math.sqrt(0.95 * 0.05 / values.size) / density
    assert quantile_half_width(values, 0.95) == pytest.approx(expected, rel=0.3)


@pytest.mark.parametrize("share", [0.5, 0.95])
def test_neighbours_that_are_alike_count_for_less(share: float) -> None:
    apart, together = (
        quantile_half_width(draw(4000), share),
        quantile_half_width(sticky(4000), share),
    )
    assert together > 1.5 * apart
    assert mean_half_width(sticky(4000)) > 1.5 * mean_half_width(draw(4000))


def test_a_quantile_that_the_data_cannot_bound_is_unknown() -> None:
    assert quantile_half_width(draw(40), 0.95) == math.inf
    assert quantile_half_width(np.empty(0), 0.5) == math.inf


def test_a_quantile_among_requests_without_a_token_is_unknown() -> None:
    few = np.concatenate((draw(990), np.full(10, np.inf)))
    many = np.concatenate((draw(900), np.full(100, np.inf)))
    assert math.isfinite(quantile_half_width(np.random.default_rng(2).permutation(few), 0.95))
    assert quantile_half_width(many, 0.95) == math.inf


def test_a_share_is_never_known_for_certain() -> None:
    assert 0 < share_half_width(np.ones(100)) < share_half_width(np.ones(50)) < 0.05
    assert share_half_width(np.zeros(100)) == math.inf


@given(st.floats(1e-3, 1e6), st.sampled_from([0.5, 0.9, 0.95]))
def test_widths_do_not_depend_on_the_unit(factor: float, share: float) -> None:
    values = draw(400)
    assert quantile_half_width(values * factor, share) == pytest.approx(
        quantile_half_width(values, share)
    )
    assert mean_half_width(values * factor) == pytest.approx(mean_half_width(values))


@given(st.lists(st.floats(0.1, 1e4), min_size=0, max_size=300))
def test_a_width_is_a_number_that_is_not_negative(values: list[float]) -> None:
    found = np.array(values, dtype=np.float64)
    for width in (mean_half_width(found), quantile_half_width(found, 0.95)):
        assert width >= 0
