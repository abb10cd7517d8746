from __future__ import annotations

import math

import pytest

from tests.support.search_spaces import sloped_ceiling, space
from tuner.search.model_picks import CANDIDATES, LEAST_DISTANCE, PICKS, model_picks
from tuner.search.space import Coordinates
from tuner.search.space_filling import distance

SPACE = space(ceiling=sloped_ceiling())
PLENTY = 10**9


def peak(at_sequences: float, at_tokens: float, point: Coordinates) -> float:
    sequences = (point["log2_max_num_seqs"] - at_sequences) / 7
    tokens = point["token_budget"] - at_tokens
    return math.exp(-20 * (sequences**2 + tokens**2))


def one_peak(point: Coordinates) -> tuple[float | None, int]:
    return peak(6.0, 0.4, point), 1


def test_the_best_pick_lies_on_the_peak() -> None:
    best = model_picks(SPACE, one_peak, seed=1, most_work=PLENTY).chosen[0]
    assert best.score > 0.98
    assert best.coordinates["log2_max_num_seqs"] == pytest.approx(6.0, abs=0.4)


def test_picks_are_few_far_apart_and_best_first() -> None:
    chosen = model_picks(SPACE, one_peak, seed=1, most_work=PLENTY).chosen
    assert len(chosen) == PICKS
    scores = [pick.score for pick in chosen]
    assert scores == sorted(scores, reverse=True)
    for index, pick in enumerate(chosen):
        for other in chosen[:index]:
            assert distance(SPACE, pick.coordinates, other.coordinates) > LEAST_DISTANCE


def test_two_peaks_are_both_found() -> None:
    def two(point: Coordinates) -> tuple[float | None, int]:
        return max(peak(4.0, 0.2, point), 0.9 * peak(9.0, 0.8, point)), 1

    chosen = model_picks(SPACE, two, seed=3, most_work=PLENTY, count=12).chosen
    assert any(pick.coordinates["log2_max_num_seqs"] > 8 for pick in chosen)
    assert any(pick.coordinates["log2_max_num_seqs"] < 5 for pick in chosen)


def test_no_cache_is_left_unused() -> None:
    chosen = model_picks(SPACE, one_peak, seed=1, most_work=PLENTY).chosen
    assert {pick.coordinates["memory_headroom"] for pick in chosen} == {0.0}


def test_what_would_not_run_is_never_picked() -> None:
    def only_few(point: Coordinates) -> tuple[float | None, int]:
        return (None if point["log2_max_num_seqs"] > 5 else one_peak(point)[0]), 1

    chosen = model_picks(SPACE, only_few, seed=1, most_work=PLENTY).chosen
    assert chosen
    assert all(pick.coordinates["log2_max_num_seqs"] <= 5 for pick in chosen)
    nothing = model_picks(SPACE, lambda point: (None, 1), seed=1, most_work=PLENTY)
    assert nothing.chosen == ()


def test_work_is_bounded_and_what_was_done_until_then_counts() -> None:
    def costly(point: Coordinates) -> tuple[float | None, int]:
        return one_peak(point)[0], 100

    few = model_picks(SPACE, costly, seed=1, most_work=2_000)
    assert 10 < few.candidates <= 21
    assert few.chosen
    assert model_picks(SPACE, one_peak, seed=1, most_work=PLENTY).candidates > CANDIDATES


def test_equal_arguments_give_equal_picks_and_other_seeds_look_elsewhere() -> None:
    first = model_picks(SPACE, one_peak, seed=1, most_work=PLENTY)
    assert first == model_picks(SPACE, one_peak, seed=1, most_work=PLENTY)
    assert first != model_picks(SPACE, one_peak, seed=2, most_work=PLENTY)


def test_a_point_that_is_named_is_looked_at_first() -> None:
    named: Coordinates = {
        "log2_max_num_seqs": 6.0,
        "token_budget": 0.4,
        "enable_chunked_prefill": True,
        "memory_headroom": 0.0,
    }
    found = model_picks(SPACE, one_peak, seed=1, extra=(named,), most_work=0)
    assert found.candidates == 1
    assert found.chosen[0].coordinates == named


def test_a_space_of_one_configuration_has_one_pick() -> None:
    fixed = space(sequences=(64, 64), tokens=(2048, 2048), choices=[True], utilization=(0.9, 0.9))
    found = model_picks(fixed, lambda point: (0.5, 1), seed=1, most_work=PLENTY)
    assert [pick.coordinates for pick in found.chosen] == [{}]
