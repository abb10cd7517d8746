from __future__ import annotations

import pytest

from tuner.errors import InvalidInputError
from tuner.simulator.gpus import gpu_preset, known_gpus


@pytest.mark.parametrize("name", known_gpus())
def test_a_preset_is_found_by_its_own_name(name: str) -> None:
    assert gpu_preset(name).name == name


@pytest.mark.parametrize(
    "name", ["L4", "A10G", "L40S", "A100-40", "A100-80", "H100", "H200", "B200"]
)
def test_the_gpus_of_the_mission_are_known(name: str) -> None:
    assert name in known_gpus()


def test_case_and_blanks_around_a_name_do_not_matter() -> None:
    assert gpu_preset(" h100 ") == gpu_preset("H100")


def test_an_unknown_gpu_is_refused_naming_the_known_ones() -> None:
    with pytest.raises(InvalidInputError) as caught:
        gpu_preset("TPU")
    assert "'TPU'" in caught.value.message
    for name in known_gpus():
        assert name in (caught.value.hint or "")


@pytest.mark.parametrize("name", known_gpus())
def test_units_are_bytes_and_operations_per_second(name: str) -> None:
    gpu = gpu_preset(name)
    assert 16 < gpu.memory_gib < 256
    assert 5e13 < gpu.bf16_flops < 5e15
    assert 2e11 < gpu.memory_bytes_per_s < 1e13
    assert gpu.link_bytes_per_s < gpu.memory_bytes_per_s
    assert gpu.multiprocessors > 50


def test_the_ridge_point_is_rate_of_operations_over_rate_of_bytes() -> None:
    gpu = gpu_preset("H100")
    # Two operations per weight, two bytes per weight: the factor cancels.
    assert gpu.ridge_tokens == pytest.approx(989e12 / 3350e9)
