from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.domain.study_spec import PoissonArrivalSpec, WorkloadSpec
from tuner.loadgen.lengths import IntArray
from tuner.loadgen.plan import OpenLoopSegment
from tuner.loadgen.prompt_classes import class_bounds, prompt_edges
from tuner.loadgen.request_order import Order
from tuner.loadgen.schedule import open_loop_segment
from tuner.loadgen.shape_warmup import with_every_class
from tuner.loadgen.trace import ALONE
from tuner.loadgen.workload import build_workload

POOL = np.arange(100, 400)
"""Short are 100 to 199, medium 200 to 299, long 300 to 399 tokens."""


def order(*entries: int) -> Order:
    return Order(np.array(entries, dtype=np.int64), np.full(len(entries), ALONE, dtype=np.int64))


def classes(tokens: IntArray) -> set[str]:
    edges = prompt_edges(POOL)
    assert edges is not None
    return {
        name
        for name, low, high in class_bounds(edges)
        if ((tokens >= low) & (tokens <= high)).any()
    }


def test_a_warm_up_that_has_every_class_is_left_alone() -> None:
    given_order = order(10, 150, 250, 20, 30)
    assert with_every_class(POOL, given_order, 3).pool_index.tolist() == [10, 150, 250, 20, 30]


def test_a_missing_class_takes_an_early_place_of_one_that_has_several() -> None:
    found = with_every_class(POOL, order(150, 10, 20, 30, 40), 4)
    assert found.pool_index.tolist() == [150, 250, 20, 30, 40]


def test_long_prompts_come_first_where_there_are_too_few_requests() -> None:
    assert with_every_class(POOL, order(150, 10), 1).pool_index.tolist() == [250, 10]
    assert with_every_class(POOL, order(150, 160, 10), 2).pool_index.tolist() == [250, 50, 10]


def test_prompts_that_are_all_alike_have_no_classes() -> None:
    alike = np.full(30, 100)
    given_order = order(1, 2, 3)
    assert with_every_class(alike, given_order, 3) is given_order
    assert with_every_class(POOL, given_order, 0) is given_order


@given(st.lists(st.integers(0, POOL.size - 1), min_size=3, max_size=40), st.data())
def test_every_class_is_met_in_the_warm_up_and_nothing_after_it_changes(
    entries: list[int], data: st.DataObject
) -> None:
    warmup = data.draw(st.integers(3, len(entries)))
    found = with_every_class(POOL, order(*entries), warmup).pool_index
    assert classes(POOL[found[:warmup]]) == {"short", "medium", "long"}
    assert found[warmup:].tolist() == entries[warmup:]
    assert (found[:warmup] != np.array(entries[:warmup])).sum() <= 2


@pytest.mark.parametrize("seed", range(6))
def test_a_slow_load_meets_long_and_short_prompts_before_its_window(seed: int) -> None:
    """At one request in three seconds chance would leave a class out of most warm-ups."""
    workload = build_workload(WorkloadSpec(), max_model_len=4096, seed=0, base_dir=Path())

    def segment(warmup_s: float) -> OpenLoopSegment:
        return open_loop_segment(workload, PoissonArrivalSpec(), 0.33, warmup_s, 60.0, 20.0, seed)

    requests = segment(10.0).requests
    warm = [request for request in requests if (request.due_s or 0.0) < 10.0]
    edges = prompt_edges(workload.prompt_tokens)
    assert edges is not None
    assert warm
    assert any(request.prompt_tokens > edges[2] for request in warm)
    assert len(warm) < 2 or any(request.prompt_tokens <= edges[1] for request in warm)
    assert segment(10.0) == segment(10.0)
