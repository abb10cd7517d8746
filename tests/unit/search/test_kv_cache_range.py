"""A KV cache sized in bytes as a dimension of the search."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.domain.engine_config import EngineConfig
from tuner.domain.study_spec import ByteRange, SearchSpaceSpec, UtilizationRange
from tuner.errors import InvalidStudyError
from tuner.search.kv_cache_range import MIB, KvCacheRange
from tuner.search.space import Coordinates, FloatDimension, OutsideSpace, SearchSpace

SIZES = KvCacheRange(4 * MIB, 64 * MIB)
sizes = st.tuples(st.integers(MIB, 1 << 45), st.integers(MIB, 1 << 45)).map(sorted)


def sized_space(
    low: int = 4 * MIB, high: int = 64 * MIB, utilization: UtilizationRange | None = None
) -> SearchSpace:
    spec = SearchSpaceSpec(
        kv_cache_memory_bytes=ByteRange(low=low, high=high),
        gpu_memory_utilization=utilization or UtilizationRange(low=0.5, high=0.97),
    )
    return SearchSpace.from_spec(spec, 4096)


def middle_of(space: SearchSpace) -> Coordinates:
    return {
        d.name: (d.low + d.high) / 2 if isinstance(d, FloatDimension) else d.choices[0]
        for d in space.dimensions
    }


@given(sizes, st.floats(0, 1))
def test_every_coordinate_is_a_size_of_the_range_that_leads_back(
    ends: list[int], share: float
) -> None:
    searched = KvCacheRange(*ends)
    lowest, highest = searched.positions
    size = searched.at(lowest + share * (highest - lowest))
    assert searched.outside(size) is None
    assert searched.at(searched.position(size)) == size


def test_sizes_are_whole_mebibytes_with_six_leading_bits() -> None:
    assert SIZES.at(3.0) == 8 * MIB
    assert SIZES.at(3.01) == 8 * MIB
    assert KvCacheRange(MIB, 1 << 40).at(10.001) == 1024 * MIB


def test_a_size_beyond_the_range_says_which() -> None:
    assert SIZES.outside(65 * MIB) == (
        "kv-cache-memory-bytes 68157440 is not within 4194304 to 67108864"
    )


def test_the_size_takes_the_place_of_the_utilisation() -> None:
    space = sized_space()
    names = [dimension.name for dimension in space.dimensions]
    assert "log2_kv_cache_mib" in names
    assert "memory_headroom" not in names
    flags = space.to_config(middle_of(space))
    assert flags["kv-cache-memory-bytes"] == 16 * MIB
    assert "gpu-memory-utilization" not in flags
    assert set(space.flag_names) == set(flags)


def test_a_fixed_utilisation_stays_a_flag_beside_the_size() -> None:
    space = sized_space(utilization=UtilizationRange(low=0.3, high=0.3))
    assert space.to_config(middle_of(space))["gpu-memory-utilization"] == 0.3


def test_one_size_is_a_flag_and_no_dimension() -> None:
    space = sized_space(low=8 * MIB, high=8 * MIB)
    assert "log2_kv_cache_mib" not in {dimension.name for dimension in space.dimensions}
    assert space.to_config(middle_of(space))["kv-cache-memory-bytes"] == 8 * MIB


def test_a_configuration_leads_back_to_its_coordinates() -> None:
    space = sized_space()
    flags = space.to_config(middle_of(space))
    found = space.to_coordinates(EngineConfig.of(flags))
    assert not isinstance(found, OutsideSpace)
    assert space.to_config(found) == flags


def test_a_size_left_to_the_engine_lies_outside() -> None:
    space = sized_space()
    config = EngineConfig.of(space.to_config(middle_of(space))).without("kv-cache-memory-bytes")
    assert space.to_coordinates(config) == OutsideSpace(
        ("kv-cache-memory-bytes is left to the engine",)
    )


def test_a_size_beyond_the_range_lies_outside() -> None:
    space = sized_space()
    config = EngineConfig.of(
        {**space.to_config(middle_of(space)), "kv-cache-memory-bytes": 1 << 30}
    )
    found = space.to_coordinates(config)
    assert isinstance(found, OutsideSpace)
    assert "is not within" in found.reasons[0]


def test_the_nearest_point_keeps_a_size_and_clips_one_beyond() -> None:
    space = sized_space()
    for asked, kept in ((8 * MIB, 8 * MIB), (1 << 30, 64 * MIB), (None, 16 * MIB)):
        config = EngineConfig.of({} if asked is None else {"kv-cache-memory-bytes": asked})
        assert space.to_config(space.nearest(config))["kv-cache-memory-bytes"] == kept


def test_a_sized_space_survives_json() -> None:
    space = sized_space()
    assert SearchSpace.from_dict(json.loads(json.dumps(space.to_dict()))) == space


def test_a_space_stored_before_there_were_sizes_has_none() -> None:
    stored = SearchSpace.from_spec(SearchSpaceSpec(), 4096).to_dict()
    del stored["kv_cache"]
    assert SearchSpace.from_dict(stored).kv_cache is None


def test_swapped_ends_are_a_fault_of_the_document() -> None:
    with pytest.raises(InvalidStudyError) as caught:
        sized_space(low=64 * MIB, high=4 * MIB)
    assert [fault.path for fault in caught.value.faults] == [
        "search_space.kv_cache_memory_bytes.low"
    ]
