from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from objectives.measurement import Measurement
from tests.support.study_measurements import measurement
from tuner.study.picks import (
    HIGHEST_THROUGHPUT,
    KNEE,
    LOWEST_TPOT,
    LOWEST_TTFT,
    NAMES,
    named_picks,
)

BASELINE = measurement()
TRIALS = {
    0: BASELINE,
    1: measurement(ttft_ms=100, tpot_ms=60, tokens_per_s=700),
    2: measurement(ttft_ms=900, tpot_ms=20, tokens_per_s=600),
    3: measurement(ttft_ms=800, tpot_ms=70, tokens_per_s=3000),
    4: measurement(ttft_ms=200, tpot_ms=25, tokens_per_s=2000),
    5: measurement(ttft_ms=5000, tpot_ms=99, tokens_per_s=10),
}
SCORES = {number: float(number) for number in TRIALS}


def picks(trials: dict[int, Measurement]) -> dict[str, int]:
    return {p.name: p.trial_number for p in named_picks(trials, BASELINE, SCORES)}


def test_each_wish_has_its_trial_and_the_knee_gives_up_least_of_all() -> None:
    assert picks(TRIALS) == {LOWEST_TTFT: 1, LOWEST_TPOT: 2, HIGHEST_THROUGHPUT: 3, KNEE: 4}


def test_a_pick_carries_what_was_measured_and_its_score() -> None:
    first = named_picks(TRIALS, BASELINE, SCORES)[0]
    assert (first.ttft_ms, first.tpot_ms, first.output_tokens_per_s) == (100, 60, 700)
    assert first.score == 1.0


def test_a_trial_that_is_best_in_everything_is_every_extreme_and_no_knee() -> None:
    best = measurement(ttft_ms=10, tpot_ms=1, tokens_per_s=9000)
    found = picks({0: BASELINE, 7: best})
    assert found == {LOWEST_TTFT: 7, LOWEST_TPOT: 7, HIGHEST_THROUGHPUT: 7}


def test_equal_extremes_go_to_the_better_score() -> None:
    twin = measurement(ttft_ms=100, tpot_ms=70, tokens_per_s=800)
    assert picks({1: TRIALS[1], 9: twin, 2: TRIALS[2]})[LOWEST_TTFT] == 1
    scored = named_picks({1: TRIALS[1], 9: twin, 2: TRIALS[2]}, BASELINE, {1: 0.1, 9: 0.2})
    assert scored[0].trial_number == 9


def test_incomplete_measurements_take_no_part() -> None:
    blind = dataclasses.replace(
        TRIALS[1], latency=dataclasses.replace(TRIALS[1].latency, tpot_ms=None)
    )
    assert picks({1: blind, 2: TRIALS[2]})[LOWEST_TTFT] == 2
    assert named_picks({1: blind}, BASELINE, SCORES) == ()
    assert named_picks({}, BASELINE, SCORES) == ()


values = st.tuples(st.floats(10, 1e4), st.floats(1, 200), st.floats(10, 1e4))


@given(st.dictionaries(st.integers(0, 30), values, min_size=1, max_size=12))
def test_no_pick_is_beaten_in_what_it_was_picked_for(
    trials: dict[int, tuple[float, float, float]],
) -> None:
    measured = {
        n: measurement(ttft_ms=a, tpot_ms=b, tokens_per_s=c) for n, (a, b, c) in trials.items()
    }
    found = {p.name: p for p in named_picks(measured, BASELINE, {})}
    assert set(found) <= set(NAMES)
    assert found[LOWEST_TTFT].ttft_ms == min(a for a, _, _ in trials.values())
    assert found[LOWEST_TPOT].tpot_ms == min(b for _, b, _ in trials.values())
    assert found[HIGHEST_THROUGHPUT].output_tokens_per_s == max(c for _, _, c in trials.values())
    assert all(p.trial_number in trials for p in found.values())
    assert found[LOWEST_TTFT].score is None or pytest.fail("no scores were given")
