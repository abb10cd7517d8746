from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.engine_model import H100, L4, LLAMA_7B, LLAMA_8B, MISTRAL_7B, config
from tuner.simulator.gpus import Gpu
from tuner.simulator.hardware import Hardware
from tuner.simulator.memory import max_safe_utilization, memory_account
from tuner.simulator.models import ModelGeometry
from tuner.simulator.utilization_bounds import UtilizationBounds, utilization_bounds

LENGTH = 8192
gpus = st.sampled_from([L4, H100])
models = st.sampled_from([LLAMA_8B, LLAMA_7B, MISTRAL_7B])
hardware = st.none() | st.integers(0, 50)
BLOCK = 0.0005
"""A block of KV cache, as a share of the smallest of these devices, and rounding to 0.001."""


def bounds(
    gpu: Gpu, model: ModelGeometry, seqs: int, tokens: int, seed: int | None = None
) -> UtilizationBounds:
    machine = Hardware.of_seed(seed)
    return utilization_bounds(gpu, 1, model, config(seqs, tokens), LENGTH, machine)


@given(gpus, models, st.integers(1, 2048), st.integers(64, 65536), hardware)
def test_the_highest_is_the_largest_that_starts_and_survives(
    gpu: Gpu, model: ModelGeometry, seqs: int, tokens: int, seed: int | None
) -> None:
    machine = Hardware.of_seed(seed)
    searched = max_safe_utilization(gpu, 1, model, config(seqs, tokens), LENGTH, machine)
    found = bounds(gpu, model, seqs, tokens, seed)
    if searched is None:
        assert found.highest - found.lowest < 0.001 + BLOCK
    else:
        assert searched - BLOCK <= found.highest <= searched + 0.001 + BLOCK


@given(gpus, models, st.integers(1, 2048), st.integers(64, 65536), st.floats(0.01, 0.99))
def test_an_engine_has_its_cache_exactly_from_the_lowest_on(
    gpu: Gpu, model: ModelGeometry, seqs: int, tokens: int, utilization: float
) -> None:
    found = bounds(gpu, model, seqs, tokens)
    engine = config(seqs, tokens, gpu_memory_utilization=utilization)
    failure = memory_account(gpu, 1, model, engine, LENGTH).failure
    starved = failure is not None and failure.failure_class in ("kv_none", "kv_too_small")
    if utilization > found.lowest + BLOCK:
        assert not starved
    if utilization < found.lowest - BLOCK:
        assert failure is not None


@given(models, st.integers(1, 1024), st.integers(64, 16384), st.floats(0.05, 1.0))
def test_what_the_configuration_asks_for_itself_does_not_matter(
    model: ModelGeometry, seqs: int, tokens: int, utilization: float
) -> None:
    asking = config(seqs, tokens, gpu_memory_utilization=utilization)
    found = utilization_bounds(H100, 1, model, asking, LENGTH)
    other = bounds(H100, model, seqs, tokens)
    assert found.lowest == pytest.approx(other.lowest, abs=BLOCK)
    assert found.highest == pytest.approx(other.highest, abs=BLOCK)


def test_a_cache_of_fixed_size_is_left_out_of_the_question() -> None:
    fixed = config(64, 2048, kv_cache_memory_bytes=2**30, num_gpu_blocks_override=10)
    found = utilization_bounds(H100, 1, LLAMA_8B, fixed, LENGTH)
    assert found == bounds(H100, LLAMA_8B, 64, 2048)


def test_where_nothing_runs_the_lowest_lies_above_the_highest() -> None:
    found = bounds(L4, LLAMA_8B, 1024, 32768)
    assert found.lowest > found.highest
