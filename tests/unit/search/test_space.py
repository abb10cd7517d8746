from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.search_spaces import LONG_MODEL, sloped_ceiling, space, steep_floor
from tuner.domain.engine_config import EngineConfig
from tuner.domain.rules import violations
from tuner.domain.study_spec import (
    BooleanChoices,
    IntegerRange,
    SearchSpaceSpec,
    UtilizationRange,
)
from tuner.errors import InvalidStudyError
from tuner.search.memory_forecast import UtilizationTable
from tuner.search.space import (
    ChoiceDimension,
    Coordinates,
    FloatDimension,
    OutsideSpace,
    SearchSpace,
)
from tuner.search.space_filling import from_unit
from tuner.search.space_limits import Limits

DEFAULT = space()
CEILED = space(ceiling=sloped_ceiling())

unit = st.floats(0, 1)
unit_points = st.tuples(unit, unit, unit, unit)


@st.composite
def spaces(draw: st.DrawFn) -> SearchSpace:
    """Any space that a valid document can describe."""

    def bounds(low: int, high: int) -> tuple[int, int]:
        first, second = draw(st.integers(low, high)), draw(st.integers(low, high))
        return min(first, second), max(first, second)

    seqs, tokens = bounds(1, 2048), bounds(1, 65536)
    permille = bounds(100, 1000)
    choices = draw(st.sampled_from([[True], [False], [True, False], [False, True]]))
    spec = SearchSpaceSpec(
        max_num_seqs=IntegerRange(low=min(seqs[0], tokens[1]), high=seqs[1])
        if seqs[1] >= min(seqs[0], tokens[1])
        else IntegerRange(low=1, high=1),
        max_num_batched_tokens=IntegerRange(low=tokens[0], high=tokens[1]),
        enable_chunked_prefill=BooleanChoices(choices=choices),
        gpu_memory_utilization=UtilizationRange(low=permille[0] / 1000, high=permille[1] / 1000),
    )
    limits = Limits(
        ceiling=draw(st.sampled_from([None, sloped_ceiling()])),
        chunked_prefill_ignored=draw(st.booleans()),
        floor=draw(st.sampled_from([None, steep_floor()])),
    )
    length = draw(st.none() | st.integers(1, tokens[1]))
    return SearchSpace.from_spec(spec, length, limits)


@given(spaces(), st.data())
def test_every_point_is_a_configuration_that_breaks_no_rule(
    any_space: SearchSpace, data: st.DataObject
) -> None:
    config = EngineConfig.of(any_space.to_config(_point(any_space, data)))
    assert violations(config, any_space.max_model_len) == ()
    assert config.max_num_seqs is not None
    assert config.max_num_batched_tokens is not None
    assert config.gpu_memory_utilization is not None
    low, high = any_space.sequences
    assert low <= config.max_num_seqs <= high
    low, high = any_space.tokens
    assert low <= config.max_num_batched_tokens <= high
    at_least, at_most = any_space.utilization_range(
        config.max_num_seqs, config.max_num_batched_tokens
    )
    assert at_least - 1e-9 <= config.gpu_memory_utilization <= at_most + 1e-9


@given(spaces(), st.data())
def test_a_configuration_of_the_space_has_coordinates_that_lead_back_to_it(
    any_space: SearchSpace, data: st.DataObject
) -> None:
    flags = any_space.to_config(_point(any_space, data))
    found = any_space.to_coordinates(EngineConfig.of(flags))
    assert not isinstance(found, OutsideSpace)
    assert any_space.to_config(found) == flags
    for dimension in any_space.dimensions:
        if isinstance(dimension, FloatDimension):
            assert dimension.low <= found[dimension.name] <= dimension.high
        else:
            assert found[dimension.name] in dimension.choices


@given(spaces())
def test_a_space_survives_json(any_space: SearchSpace) -> None:
    assert SearchSpace.from_dict(json.loads(json.dumps(any_space.to_dict()))) == any_space


@given(spaces(), st.integers(1, 10**6), st.integers(1, 10**6), st.booleans(), st.floats(0.01, 1))
def test_the_nearest_point_always_lies_inside(
    any_space: SearchSpace, seqs: int, tokens: int, chunked: bool, utilization: float
) -> None:
    nearest = any_space.nearest(config(seqs, tokens, chunked, utilization))
    assert set(nearest) == {dimension.name for dimension in any_space.dimensions}
    inside = EngineConfig.of(any_space.to_config(nearest))
    assert not isinstance(any_space.to_coordinates(inside), OutsideSpace)


def test_the_default_space_has_the_four_dimensions() -> None:
    assert DEFAULT.dimensions == (
        FloatDimension("log2_max_num_seqs", 3.0, 10.0),
        FloatDimension("token_budget", 0.0, 1.0),
        ChoiceDimension("enable_chunked_prefill", (True, False)),
        FloatDimension("memory_headroom", 0.0, 1.0),
    )
    assert DEFAULT.notices == ()


def test_coordinates_are_logarithms_and_shares() -> None:
    found = DEFAULT.to_coordinates(config(256, 8192, True, 0.735))
    assert found == {
        "log2_max_num_seqs": 8.0,
        "token_budget": pytest.approx(5 / 7),
        "enable_chunked_prefill": True,
        "memory_headroom": pytest.approx(0.5),
    }


def test_the_smallest_token_budget_follows_sequences_and_length() -> None:
    low: Coordinates = {
        "log2_max_num_seqs": 9.0,
        "token_budget": 0.0,
        "enable_chunked_prefill": True,
        "memory_headroom": 0.0,
    }
    assert DEFAULT.to_config(low)["max-num-batched-tokens"] == 512
    assert DEFAULT.to_config({**low, "enable_chunked_prefill": False}) == {
        "max-num-seqs": 512,
        "max-num-batched-tokens": 8192,
        "enable-chunked-prefill": False,
        "gpu-memory-utilization": 0.97,
    }


@given(unit_points)
def test_more_headroom_never_means_more_memory(point: tuple[float, ...]) -> None:
    at = from_unit(CEILED, point)
    more = {**at, "memory_headroom": min(1.0, at["memory_headroom"] + 0.2)}
    key = "gpu-memory-utilization"
    assert float(CEILED.to_config(more)[key]) <= float(CEILED.to_config(at)[key])


@given(unit_points)
def test_a_ceiling_is_never_exceeded(point: tuple[float, ...]) -> None:
    flags = EngineConfig.of(CEILED.to_config(from_unit(CEILED, point)))
    assert flags.max_num_seqs is not None
    assert flags.max_num_batched_tokens is not None
    assert flags.gpu_memory_utilization is not None
    ceiling = sloped_ceiling().at(flags.max_num_seqs, flags.max_num_batched_tokens)
    assert flags.gpu_memory_utilization <= ceiling + 1e-9


def test_below_a_ceiling_under_the_range_only_the_lowest_utilization_is_left() -> None:
    flat = UtilizationTable((0.0,), (0.0,), ((0.4,),), margin=0.01)
    low = space(ceiling=flat)
    assert low.utilization_range(64, 2048) == (0.5, 0.5)
    assert low.to_config(low.nearest(EngineConfig()))["gpu-memory-utilization"] == 0.5
    assert "nothing to be safe" in low.notices[0]


@pytest.mark.parametrize(
    ("outside", "reason"),
    [
        ((4, 2048, True, 0.9), "max-num-seqs 4 is not within 8 to 1024"),
        ((2048, 2048, True, 0.9), "max-num-seqs 2048 is not within 8 to 1024"),
        ((64, 128, True, 0.9), "max-num-batched-tokens 128 is not within 256 to 32768"),
        ((512, 256, True, 0.9), "max-num-batched-tokens 256 is not within 512 to 32768"),
        ((64, 4096, False, 0.9), "max-num-batched-tokens 4096 is not within 8192 to 32768"),
        ((64, 2048, True, 0.98), "gpu-memory-utilization 0.98 is not within 0.5 to 0.970"),
        ((64, 2048, True, 0.3), "gpu-memory-utilization 0.3 is not within 0.5 to 0.970"),
    ],
)
def test_a_configuration_outside_is_reported_and_not_moved(
    outside: tuple[int, int, bool, float], reason: str
) -> None:
    found = DEFAULT.to_coordinates(config(*outside))
    assert found == OutsideSpace((reason,))


def test_every_reason_is_given() -> None:
    found = DEFAULT.to_coordinates(config(4, 99, True, 0.1))
    assert isinstance(found, OutsideSpace)
    assert len(found.reasons) == 3


def test_a_flag_left_to_the_engine_has_no_coordinate() -> None:
    partial = config(64, 2048, True, 0.9).without("max-num-seqs", "enable-chunked-prefill")
    assert DEFAULT.to_coordinates(partial) == OutsideSpace(
        ("max-num-seqs is left to the engine", "enable-chunked-prefill is left to the engine")
    )


def test_a_choice_that_is_not_searched_lies_outside() -> None:
    only_chunked = space(choices=[True])
    found = only_chunked.to_coordinates(config(64, 16384, False, 0.9))
    assert found == OutsideSpace(("chunked prefill is searched only on",))


def test_an_off_grid_configuration_keeps_its_exact_coordinates() -> None:
    found = DEFAULT.to_coordinates(config(250, 5000, True, 0.873))
    assert not isinstance(found, OutsideSpace)
    assert 2 ** found["log2_max_num_seqs"] == pytest.approx(250)
    assert 0.97 - found["memory_headroom"] * 0.47 == pytest.approx(0.873)


def test_single_values_are_fixed_and_no_dimension() -> None:
    fixed = space(sequences=(64, 64), tokens=(2048, 2048), choices=[True], utilization=(0.9, 0.9))
    assert fixed.dimensions == ()
    assert fixed.to_config({}) == {
        "max-num-seqs": 64,
        "max-num-batched-tokens": 2048,
        "enable-chunked-prefill": True,
        "gpu-memory-utilization": 0.9,
    }
    assert fixed.to_coordinates(config(64, 2048, True, 0.9)) == {}


def test_a_budget_that_length_leaves_one_value_is_fixed() -> None:
    fixed = space(tokens=(256, 8192), choices=[False])
    assert "token_budget" not in {dimension.name for dimension in fixed.dimensions}
    flags = fixed.to_config({"log2_max_num_seqs": 5.0, "memory_headroom": 0.0})
    assert flags["max-num-batched-tokens"] == 8192


def test_unchunked_prefill_disappears_with_a_notice_when_no_budget_allows_it() -> None:
    long_model = space(max_model_len=LONG_MODEL)
    assert long_model.chunked == (True,)
    assert f"max_model_len ({LONG_MODEL})" in long_model.notices[0]
    assert "enable_chunked_prefill" not in {d.name for d in long_model.dimensions}


def test_sequences_are_capped_by_the_largest_budget_with_a_notice() -> None:
    capped = space(tokens=(256, 512), choices=[True])
    assert capped.sequences == (8, 512)
    assert "up to 512 instead of 1024" in capped.notices[0]


def test_an_ignored_flag_is_left_out_with_a_notice() -> None:
    ignored = space(ignored=True)
    assert "enable-chunked-prefill" not in ignored.to_config(ignored.nearest(EngineConfig()))
    assert "ignores it" in ignored.notices[0]
    assert ignored.flag_names == (
        "max-num-seqs",
        "max-num-batched-tokens",
        "gpu-memory-utilization",
    )
    without = config(64, 2048, True, 0.9).without("enable-chunked-prefill")
    assert not isinstance(ignored.to_coordinates(without), OutsideSpace)


def test_an_unknown_length_is_said_to_be_unknown() -> None:
    assert "max_model_len is not known" in space(max_model_len=None).notices[0]
    assert space(max_model_len=None, choices=[True]).notices == ()


def test_a_repeated_choice_counts_once() -> None:
    assert space(choices=[True, True]).chunked == (True,)


def test_every_fault_is_reported_with_its_path() -> None:
    spec = SearchSpaceSpec(
        max_num_seqs=IntegerRange(low=9, high=8),
        max_num_batched_tokens=IntegerRange(low=512, high=256),
        gpu_memory_utilization=UtilizationRange(low=0.9, high=0.8),
    )
    paths = [fault.path for fault in SearchSpace.faults(spec, 8192)]
    assert paths == [
        "search_space.max_num_seqs.low",
        "search_space.max_num_batched_tokens.low",
        "search_space.gpu_memory_utilization.low",
    ]
    with pytest.raises(InvalidStudyError) as raised:
        SearchSpace.from_spec(spec, 8192)
    assert len(raised.value.faults) == 3


def test_a_space_without_any_legal_point_is_a_fault() -> None:
    spec = SearchSpaceSpec(
        max_num_seqs=IntegerRange(low=1024, high=2048),
        max_num_batched_tokens=IntegerRange(low=256, high=512),
        enable_chunked_prefill=BooleanChoices(choices=[False]),
    )
    too_few_tokens, too_long = SearchSpace.faults(spec, 4096)
    assert too_few_tokens.path == "search_space.max_num_batched_tokens.high"
    assert "fewest sequences (1024)" in too_few_tokens.message
    assert too_long.path == "search_space.enable_chunked_prefill.choices"
    assert "max_model_len (4096)" in too_long.message


def test_only_unchunked_is_no_fault_where_the_engine_ignores_the_flag() -> None:
    spec = SearchSpaceSpec(enable_chunked_prefill=BooleanChoices(choices=[False]))
    assert SearchSpace.faults(spec, LONG_MODEL) != ()
    assert SearchSpace.faults(spec, LONG_MODEL, Limits(chunked_prefill_ignored=True)) == ()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("sequences", [1]),
        ("sequences", "8-64"),
        ("tokens", [1, 2.5]),
        ("utilization", [True, 1]),
        ("ceiling", [1]),
        ("max_model_len", "long"),
    ],
)
def test_a_foreign_document_is_refused(key: str, value: object) -> None:
    with pytest.raises(ValueError, match=r"expected|not of type"):
        SearchSpace.from_dict({**DEFAULT.to_dict(), key: value})


def test_a_space_stored_before_there_were_floors_keeps_its_maps() -> None:
    stored = CEILED.to_dict()
    for key in ("floor", "headroom_span", "headroom_power"):
        del stored[key]
    before = SearchSpace.from_dict(stored)
    middle = from_unit(before, (0.0, 0.0, 0.0, 0.5))
    assert before.to_config(middle)["gpu-memory-utilization"] == 0.73, "0.96 - (0.96 - 0.5) / 2"
    assert CEILED.to_config(middle)["gpu-memory-utilization"] == 0.94


def test_what_never_fits_in_memory_is_taken_out_with_notices() -> None:
    small = space(ceiling=sloped_ceiling(), floor=steep_floor())
    assert small.sequences[1] < 1024
    assert small.chunked == (True,)
    sequences, chunked = small.notices
    assert f"up to {small.sequences[1]} instead of 1024: the memory model" in sequences
    assert "chunked prefill stays on: the memory model" in chunked


@given(unit_points)
def test_with_floor_and_ceiling_every_point_has_room_for_its_cache(
    point: tuple[float, ...],
) -> None:
    small = space(ceiling=sloped_ceiling(), floor=steep_floor())
    share = point[: len(small.dimensions)]
    flags = EngineConfig.of(small.to_config(from_unit(small, share)))
    assert flags.max_num_seqs is not None
    assert flags.max_num_batched_tokens is not None
    assert flags.gpu_memory_utilization is not None
    limits = flags.max_num_seqs, flags.max_num_batched_tokens
    assert flags.gpu_memory_utilization >= steep_floor().at(*limits) - 1e-9
    assert flags.gpu_memory_utilization <= sloped_ceiling().at(*limits) + 1e-9


def test_an_incomplete_document_is_refused() -> None:
    document = DEFAULT.to_dict()
    del document["tokens"]
    with pytest.raises(ValueError, match="tokens"):
        SearchSpace.from_dict(document)


def config(seqs: int, tokens: int, chunked: bool, utilization: float) -> EngineConfig:
    return EngineConfig.of(
        {
            "max-num-seqs": seqs,
            "max-num-batched-tokens": tokens,
            "enable-chunked-prefill": chunked,
            "gpu-memory-utilization": utilization,
        }
    )


def _point(any_space: SearchSpace, data: st.DataObject) -> Coordinates:
    return from_unit(any_space, [data.draw(unit) for _ in any_space.dimensions])
