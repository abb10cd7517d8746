from __future__ import annotations

import pytest

from tests.support.search_spaces import LONG_MODEL, sloped_ceiling, space
from tuner.domain.engine_config import EngineConfig, FlagValue
from tuner.domain.states import TrialOrigin
from tuner.search.first_points import FirstPoint, Wanted, first_points
from tuner.search.model_picks import Pick
from tuner.search.space import SearchSpace
from tuner.search.space_filling import distance, from_unit, sobol_points, to_unit

SPACE = space()


def flags(point: FirstPoint, of: SearchSpace = SPACE) -> dict[str, FlagValue]:
    return of.to_config(point.coordinates)


@pytest.mark.parametrize(
    ("workload", "seqs", "tokens"),
    [
        ("chat", 128, 512),
        ("mixed", 256, 2048),
        ("long-context-qa", 64, 2048),
        (None, 256, 2048),
    ],
)
def test_the_workload_decides_the_first_preset(
    workload: str | None, seqs: int, tokens: int
) -> None:
    preset, filling = first_points(SPACE, workload_preset=workload, seed=1)
    assert flags(preset) == {
        "max-num-seqs": seqs,
        "max-num-batched-tokens": tokens,
        "enable-chunked-prefill": True,
        "gpu-memory-utilization": 0.92,
    }
    assert (preset.origin, filling.origin) == (TrialOrigin.PRESET, TrialOrigin.SPACE_FILLING)


def test_throughput_alone_starts_from_the_batch_preset() -> None:
    preset, _ = first_points(SPACE, workload_preset="chat", seed=1, throughput_only=True)
    assert preset.reason == "preset batch"
    assert flags(preset)["enable-chunked-prefill"] is False
    assert flags(preset)["max-num-batched-tokens"] == 8192, "raised to max_model_len"


def test_a_preset_outside_the_space_is_moved_to_its_edge() -> None:
    small = space(
        sequences=(8, 32), tokens=(64, 256), utilization=(0.5, 0.8), max_model_len=LONG_MODEL
    )
    preset, _ = first_points(small, workload_preset="mixed", seed=1)
    assert flags(preset, small) == {
        "max-num-seqs": 32,
        "max-num-batched-tokens": 256,
        "enable-chunked-prefill": True,
        "gpu-memory-utilization": 0.8,
    }


def test_with_a_memory_model_a_preset_uses_all_that_is_safe() -> None:
    ceiled = space(ceiling=sloped_ceiling())
    preset, _ = first_points(ceiled, workload_preset="chat", seed=1)
    assert preset.coordinates["memory_headroom"] == 0.0


def test_equal_seeds_give_equal_points_and_others_do_not() -> None:
    def filling(seed: int) -> FirstPoint:
        return first_points(SPACE, workload_preset="chat", seed=seed)[1]

    assert filling(3) == filling(3)
    assert filling(3) != filling(4)


def test_the_space_filling_point_is_far_from_everything_known() -> None:
    baseline = EngineConfig.of(
        {
            "max-num-seqs": 256,
            "max-num-batched-tokens": 8192,
            "enable-chunked-prefill": False,
            "gpu-memory-utilization": 0.6,
        }
    )
    preset, filling = first_points(SPACE, workload_preset="chat", seed=2, known=[baseline])
    at_baseline = SPACE.to_coordinates(baseline)
    assert isinstance(at_baseline, dict)
    assert distance(SPACE, filling.coordinates, preset.coordinates) > 0.8
    assert distance(SPACE, filling.coordinates, at_baseline) > 0.8


def test_a_preset_that_is_the_baseline_is_not_measured_twice() -> None:
    chat = EngineConfig.of(flags(first_points(SPACE, workload_preset="chat", seed=1)[0]))
    (only,) = first_points(SPACE, workload_preset="chat", seed=1, known=[chat])
    assert only.origin is TrialOrigin.SPACE_FILLING


def test_a_space_of_one_configuration_has_one_first_point() -> None:
    fixed = space(sequences=(64, 64), tokens=(2048, 2048), choices=[True], utilization=(0.9, 0.9))
    (only,) = first_points(fixed, workload_preset="chat", seed=1)
    assert only.coordinates == {}
    known = [EngineConfig.of(fixed.to_config({}))]
    assert first_points(fixed, workload_preset="chat", seed=1, known=known) == ()


def picks(*units: tuple[float, float, float, float]) -> list[Pick]:
    return [Pick(from_unit(SPACE, unit), 1.0) for unit in units]


FAVOURITES = picks((0.2, 0.2, 0.0, 0.0), (0.5, 0.5, 0.0, 0.0), (0.8, 0.8, 0.0, 0.0))


def test_the_models_favourites_alternate_with_the_others_and_its_last_comes_at_the_end() -> None:
    points = first_points(SPACE, workload_preset="chat", seed=1, model_picks=FAVOURITES)
    assert [point.origin for point in points] == [
        TrialOrigin.ENGINE_MODEL,
        TrialOrigin.PRESET,
        TrialOrigin.ENGINE_MODEL,
        TrialOrigin.SPACE_FILLING,
        TrialOrigin.ENGINE_MODEL,
    ]
    assert points[0].coordinates == FAVOURITES[0].coordinates


def test_the_space_filling_point_keeps_away_from_the_favourites_as_well() -> None:
    points = first_points(SPACE, workload_preset="chat", seed=1, model_picks=FAVOURITES)
    filling = next(p for p in points if p.origin is TrialOrigin.SPACE_FILLING)
    assert all(distance(SPACE, filling.coordinates, p.coordinates) > 0.5 for p in FAVOURITES)


def test_a_favourite_that_is_the_preset_is_measured_once() -> None:
    (preset, _) = first_points(SPACE, workload_preset="chat", seed=1)
    same = Pick(preset.coordinates, 1.0)
    points = first_points(SPACE, workload_preset="chat", seed=1, model_picks=[same])
    assert [p.origin for p in points] == [TrialOrigin.ENGINE_MODEL, TrialOrigin.SPACE_FILLING]


def test_every_kind_can_be_left_out() -> None:
    def origins(preset: bool, space_filling: bool) -> list[TrialOrigin]:
        wanted = Wanted(preset, space_filling)
        points = first_points(SPACE, workload_preset="chat", seed=1, wanted=wanted)
        return [point.origin for point in points]

    assert origins(True, False) == [TrialOrigin.PRESET]
    assert origins(False, True) == [TrialOrigin.SPACE_FILLING]
    assert origins(False, False) == []


def test_unit_points_lead_to_coordinates_and_back() -> None:
    for point in sobol_points(SPACE, seed=4, count=16):
        assert from_unit(SPACE, to_unit(SPACE, point)) == pytest.approx(point)
    assert to_unit(SPACE, from_unit(SPACE, [1.0] * 4)) == [1.0] * 4


def test_sobol_points_repeat_for_equal_seeds_and_fill_every_half() -> None:
    points = list(sobol_points(SPACE, seed=5, count=16))
    assert points == list(sobol_points(SPACE, seed=5, count=16))
    assert points != list(sobol_points(SPACE, seed=6, count=16))
    assert sum(point["token_budget"] < 0.5 for point in points) == 8
    assert sum(point["enable_chunked_prefill"] is True for point in points) == 8


def test_the_ends_of_the_unit_cube_stay_inside() -> None:
    assert from_unit(SPACE, [1.0] * 4) == {
        "log2_max_num_seqs": 10.0,
        "token_budget": 1.0,
        "enable_chunked_prefill": False,
        "memory_headroom": 1.0,
    }


def test_different_choices_are_one_apart() -> None:
    left = from_unit(SPACE, [0.5, 0.5, 0.0, 0.5])
    right = from_unit(SPACE, [0.5, 0.5, 0.9, 0.5])
    assert distance(SPACE, left, right) == 1.0
    assert distance(SPACE, left, left) == 0.0
