from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from objectives.measurement import LatencySegment
from tests.support.load_records import Row, open_segment, result_of
from tuner.domain.engine_window import EngineWindow
from tuner.loadgen.prompt_classes import (
    FEWEST_REQUESTS,
    PromptEdges,
    class_bounds,
    prompt_edges,
)
from tuner.loadgen.summary import latency_segment


def test_classes_are_the_workloads_terciles() -> None:
    edges = prompt_edges(np.arange(1, 31))
    assert edges == (1, 10, 20, 30)
    assert class_bounds(edges) == (("short", 1, 10), ("medium", 11, 20), ("long", 21, 30))


@pytest.mark.parametrize("tokens", [[7], [7] * 100, [7, 7, 7, 8], [5, 5, 9, 9]])
def test_prompts_too_alike_make_no_classes(tokens: list[int]) -> None:
    assert prompt_edges(np.array(tokens)) is None


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=300))
def test_every_prompt_is_in_exactly_one_class(tokens: list[int]) -> None:
    edges = prompt_edges(np.array(tokens))
    if edges is None:
        return
    bounds = class_bounds(edges)
    for count in tokens:
        assert sum(low <= count <= high for _, low, high in bounds) == 1
    for _, low, high in bounds:
        assert any(low <= count <= high for count in tokens)


def row(due_s: float, prompt: int, ttft_s: float, gap_s: float = 0.1) -> Row:
    frames = tuple(due_s + ttft_s + gap_s * number for number in range(3))
    return Row(due_s=due_s, sent_s=due_s, frames=frames, prompt_tokens=prompt)


def measured(rows: list[Row], edges: PromptEdges | None = (1, 10, 20, 30)) -> LatencySegment:
    return latency_segment(result_of(open_segment(), rows), EngineWindow(), prompt_edges=edges)


def test_each_class_has_its_own_latencies() -> None:
    due = [10.0 + 0.1 * number for number in range(FEWEST_REQUESTS)]
    rows = [row(at, 5, 0.1) for at in due]
    rows += [row(at, 15, 0.2) for at in due]
    rows += [row(at, 30, 0.4, gap_s=0.3) for at in due]
    short, medium, long = measured(rows).by_prompt_length
    assert [c.requests for c in (short, medium, long)] == [FEWEST_REQUESTS] * 3
    found = [c.ttft_ms.p95.value for c in (short, medium, long) if c.ttft_ms is not None]
    assert found == pytest.approx([100, 200, 400])
    assert long.tpot_ms is not None
    assert long.tpot_ms.p50.value == pytest.approx(300)


def test_a_class_of_too_few_requests_says_how_few_and_nothing_else() -> None:
    few = [row(10.0 + 0.1 * number, 5, 0.1) for number in range(FEWEST_REQUESTS - 1)]
    short, medium, long = measured(few).by_prompt_length
    assert short.requests == FEWEST_REQUESTS - 1
    assert short.ttft_ms is None
    assert short.tpot_ms is None
    assert (medium.requests, long.requests) == (0, 0)
    assert medium.ttft_ms is None


def test_requests_outside_the_window_belong_to_no_class() -> None:
    rows = [row(9.0, 5, 0.1), row(20.5, 5, 0.1), row(10.0, 5, 0.1)]
    assert measured(rows).by_prompt_length[0].requests == 1


def test_without_classes_there_is_no_summary_by_class() -> None:
    assert measured([row(10.0, 5, 0.1)], edges=None).by_prompt_length == ()
