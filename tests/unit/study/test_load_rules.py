from __future__ import annotations

import numpy as np
import pytest

from tuner.study.load_rules import FEWEST_ARRIVALS, Backlog, dispersion, too_many_failures


def test_a_backlog_rises_when_it_grew_beyond_chance() -> None:
    assert Backlog(before=5, now=60, arrivals=100).rises
    assert not Backlog(before=5, now=40, arrivals=100).rises
    assert not Backlog(before=60, now=60, arrivals=100).rises


def test_a_few_arrivals_are_a_burst() -> None:
    assert not Backlog(0, FEWEST_ARRIVALS - 1, FEWEST_ARRIVALS - 1).rises


def test_bursty_arrivals_may_pile_up_more() -> None:
    assert Backlog(0, 50, 100).rises
    assert not Backlog(0, 50, 100, dispersion=4.0).rises


def test_a_load_that_is_just_met_is_rarely_taken_for_a_rising_one() -> None:
    """The hardest case: a queue at exactly its capacity, looked at after every ten arrivals."""
    rng, risen = np.random.default_rng(3), 0
    for _ in range(200):
        steps = rng.poisson(10, 100) - rng.poisson(10, 100)
        queue = np.maximum.accumulate(-np.cumsum(steps).clip(max=0)) + np.cumsum(steps)
        risen += any(Backlog(0, int(n), 10 * (i + 1)).rises for i, n in enumerate(queue))
    assert risen <= 0.06 * 200


def test_an_engine_that_cannot_keep_up_is_found_out() -> None:
    rng = np.random.default_rng(4)
    queue = np.cumsum(rng.poisson(10, 100) - rng.poisson(7, 100))
    rising = [Backlog(0, int(n), 10 * (i + 1)).rises for i, n in enumerate(queue)]
    assert rising.index(True) < 40


def test_dispersion_tells_bursts_from_even_arrivals() -> None:
    rng = np.random.default_rng(5)
    even = np.arange(200.0)
    random = np.cumsum(rng.exponential(1.0, 1000))
    bursts = np.repeat(np.cumsum(rng.exponential(10.0, 50)), 10)
    assert dispersion(even) == 1.0
    assert dispersion(random) == pytest.approx(1.0, abs=0.3)
    assert dispersion(bursts) > 3
    assert dispersion(np.empty(0)) == 1.0


@pytest.mark.parametrize(
    ("ended", "failed", "expected"),
    [
        (0, 0, False),
        (3, 3, False),
        (4, 4, True),
        (100, 1, False),
        (1000, 5, False),
        (300, 12, True),
    ],
)
def test_failures_are_too_many_by_their_share(ended: int, failed: int, expected: bool) -> None:
    assert too_many_failures(ended, failed) is expected


def test_a_healthy_engine_is_hardly_ever_taken_for_a_failing_one() -> None:
    rng, taken = np.random.default_rng(6), 0
    for _ in range(300):
        failed = np.cumsum(rng.random(500) < 0.005)
        taken += any(too_many_failures(i + 1, int(f)) for i, f in enumerate(failed))
    assert taken <= 0.01 * 300 + 3
