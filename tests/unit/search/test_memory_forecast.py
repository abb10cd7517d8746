from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.domain.engine_config import EngineConfig
from tuner.search.memory_forecast import MemoryForecast, UtilizationTable

BASE = EngineConfig.of({"max-model-len": 8192})
sequences = st.integers(8, 1024)
tokens = st.integers(256, 32768)


def max_safe(seqs: int, budget: int) -> float:
    """Activations grow with tokens, sampling buffers with sequences."""
    return 0.98 - 0.08 * budget / 32768 - 0.04 * seqs / 1024


def forecaster(config: EngineConfig) -> MemoryForecast:
    assert config.max_model_len == 8192
    assert config.max_num_seqs is not None
    assert config.max_num_batched_tokens is not None
    assert config.max_num_batched_tokens >= config.max_num_seqs
    return MemoryForecast(max_safe(config.max_num_seqs, config.max_num_batched_tokens))


def table(margin: float = 0.0) -> UtilizationTable:
    ceiling = UtilizationTable.ceiling(
        forecaster, BASE, sequences=(8, 1024), tokens=(256, 32768), margin=margin
    )
    assert ceiling is not None
    return ceiling


CEILING = table()


@given(sequences, tokens)
def test_the_table_follows_the_model(seqs: int, budget: int) -> None:
    assert CEILING.at(seqs, budget) == pytest.approx(max_safe(seqs, budget), abs=0.015)


@given(sequences, tokens, tokens)
def test_more_tokens_never_allow_more_memory(seqs: int, one: int, other: int) -> None:
    few, many = sorted((one, other))
    assert CEILING.at(seqs, many) <= CEILING.at(seqs, few) + 1e-12


def test_the_table_is_exact_at_its_corners() -> None:
    assert CEILING.at(8, 256) == pytest.approx(max_safe(8, 256))
    assert CEILING.at(1024, 32768) == pytest.approx(max_safe(1024, 32768))


def test_beyond_the_table_its_edge_holds() -> None:
    assert CEILING.at(1, 1) == CEILING.at(8, 256)
    assert CEILING.at(4096, 10**6) == CEILING.at(1024, 32768)


@given(sequences, tokens)
def test_the_margin_is_taken_off_everywhere(seqs: int, budget: int) -> None:
    assert table(0.02).at(seqs, budget) == pytest.approx(CEILING.at(seqs, budget) - 0.02)


def test_the_highest_ceiling_is_at_the_smallest_limits() -> None:
    assert table(0.01).highest == pytest.approx(max_safe(8, 256) - 0.01)


def test_a_degenerate_range_is_a_table_of_one_row() -> None:
    ceiling = UtilizationTable.ceiling(
        forecaster, BASE, sequences=(64, 64), tokens=(2048, 2048), margin=0.0
    )
    assert ceiling is not None
    assert ceiling.utilization == ((max_safe(64, 2048),),)
    assert ceiling.at(64, 2048) == max_safe(64, 2048)


def test_a_model_that_cannot_tell_gives_no_ceiling() -> None:
    def unsure(config: EngineConfig) -> MemoryForecast:
        known = (config.max_num_seqs or 0) < 500
        return MemoryForecast(0.9 if known else None)

    assert UtilizationTable.ceiling(unsure, BASE, sequences=(8, 1024), tokens=(256, 1024)) is None


def test_a_floor_lies_above_its_model_by_the_margin() -> None:
    def starts(config: EngineConfig) -> MemoryForecast:
        return MemoryForecast(0.95, min_utilization=(config.max_num_seqs or 0) / 2048)

    floor = UtilizationTable.floor(
        starts, BASE, sequences=(8, 1024), tokens=(256, 32768), margin=0.02
    )
    assert floor is not None
    assert floor.at(1024, 2048) == pytest.approx(0.52)
    assert floor.at(8, 2048) == pytest.approx(8 / 2048 + 0.02)


def test_a_model_that_does_not_tell_what_starts_gives_no_floor() -> None:
    assert UtilizationTable.floor(forecaster, BASE, sequences=(8, 1024), tokens=(256, 1024)) is None


def test_a_ceiling_survives_json() -> None:
    assert UtilizationTable.from_dict(json.loads(json.dumps(CEILING.to_dict()))) == CEILING


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("utilization", None),
        ("margin", "0.1"),
        ("log2_tokens", []),
        ("log2_sequences", [True]),
        ("utilization", [["x"]]),
    ],
)
def test_a_foreign_document_is_refused(key: str, value: object) -> None:
    with pytest.raises(ValueError, match=r"table|number"):
        UtilizationTable.from_dict({**CEILING.to_dict(), key: value})
