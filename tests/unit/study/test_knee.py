from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.study.knee import RatePoint, find_knee, latency_at, rate_of


def points(latencies: list[float], rates: tuple[float, ...] = (5, 7.5, 9, 10.5)) -> list[RatePoint]:
    return [RatePoint(rate, value) for rate, value in zip(rates, latencies, strict=True)]


def test_the_knee_lies_where_latency_begins_to_explode() -> None:
    assert find_knee(points([200, 210, 220, 5000])) == pytest.approx(9.0, abs=0.5)
    assert find_knee(points([200, 210, 2000, 9000])) == pytest.approx(7.5, abs=0.6)


def test_the_knee_of_a_line_in_two_pieces_is_found() -> None:
    rates = (4.0, 5.0, 6.0, 7.0, 8.0, 9.0)
    broken = [math.exp(5 + 0.05 * rate + 1.2 * max(0.0, rate - 6.5)) for rate in rates]
    assert find_knee(points(broken, rates)) == pytest.approx(6.5, abs=0.1)


@pytest.mark.parametrize(
    "latencies",
    [
        [200, 205, 210, 220],
        [300, 300, 300, 300],
        [200, 300, 360, 440],
        [200, 2000, 2100, 2200],
        [5000, 300, 200, 200],
    ],
    ids=["hardly rises", "flat", "one straight line", "flattens", "falls"],
)
def test_no_knee_in_this_range_is_an_answer(latencies: list[float]) -> None:
    assert find_knee(points(latencies)) is None


def test_too_few_points_show_no_knee() -> None:
    assert find_knee(points([200, 210, 9000], (1, 2, 3))) is None
    assert find_knee([]) is None


logs = st.lists(st.floats(1, 1e5), min_size=4, max_size=4)


@given(logs)
def test_a_knee_lies_within_the_range(latencies: list[float]) -> None:
    knee = find_knee(points(latencies))
    assert knee is None or 7.5 <= knee <= 9


@given(st.floats(0.2, 5), st.floats(0.1, 10))
def test_units_do_not_move_the_knee(rate_factor: float, latency_factor: float) -> None:
    plain = find_knee(points([200, 210, 500, 5000]))
    scaled = [
        RatePoint(p.rate_per_s * rate_factor, p.latency_ms * latency_factor)
        for p in points([200, 210, 500, 5000])
    ]
    assert plain is not None
    assert find_knee(scaled) == pytest.approx(plain * rate_factor, rel=0.05)


def test_latency_between_two_rates_is_on_the_line_of_the_logs() -> None:
    known = points([100, 400, 500, 900])
    assert latency_at(known, 6.25) == pytest.approx(200)
    assert latency_at(known, 7.5) == pytest.approx(400)
    assert latency_at(known, 1) == 100
    assert latency_at(known, 99) == 900
    assert latency_at([], 1) is None


@given(logs, st.floats(1, 20))
def test_latency_at_a_rate_is_within_what_was_seen(latencies: list[float], rate: float) -> None:
    found = latency_at(points(latencies), rate)
    assert found is not None
    assert min(latencies) * (1 - 1e-9) <= found <= max(latencies) * (1 + 1e-9)


def test_the_rate_of_a_latency_is_where_the_line_first_reaches_it() -> None:
    known = points([100, 400, 300, 900])
    assert rate_of(known, 200) == pytest.approx(6.25)
    assert rate_of(known, 350) == pytest.approx(7.26, abs=0.01)
    assert rate_of(known, 50) == 5
    assert rate_of(known, 901) is None


@given(logs, st.floats(1, 1e5))
def test_rate_and_latency_belong_together(latencies: list[float], wanted: float) -> None:
    rate = rate_of(points(latencies), wanted)
    if rate is None:
        assert max(latencies) < wanted
    else:
        found = latency_at(points(latencies), rate)
        assert found is not None
        assert found == pytest.approx(wanted, rel=1e-6) or rate == 5
