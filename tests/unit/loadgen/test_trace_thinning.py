from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.errors import InvalidTraceError
from tuner.loadgen.trace import ALONE, PromptBlocks, Trace
from tuner.loadgen.trace_thinning import scaled, thinned


def trace_of(size: int, *, turns: int = 1, seed: int = 1) -> Trace:
    rng = np.random.default_rng(seed)
    rows = np.arange(size)
    return Trace(
        "t",
        "jsonl",
        prompt_tokens=rows + 1,
        output_tokens=rows + 2,
        gaps_s=rng.exponential(0.5, size),
        blocks=PromptBlocks.of([[(row, row + 1)] for row in range(size)]),
        previous=np.where(rows % turns == 0, ALONE, rows - 1),
        token_ids=tuple(np.array([row]) for row in range(size)),
    )


def rate_of(trace: Trace) -> float:
    assert trace.gaps_s is not None
    return float(1 / trace.gaps_s[1:].mean())


@given(keep=st.floats(0.2, 1.0), seed=st.integers(0, 2**32))
def test_thinning_leaves_that_share_of_the_rate(keep: float, seed: int) -> None:
    trace = trace_of(4000)
    fewer = thinned(trace, keep, np.random.default_rng(seed))
    # 4,000 coin tosses: five standard deviations.
    slack = 5 * np.sqrt(4000 * keep * (1 - keep)) / (4000 * keep) + 0.01
    assert rate_of(fewer) == pytest.approx(keep * rate_of(trace), rel=slack)


@given(seed=st.integers(0, 2**32))
def test_equal_seeds_keep_equal_requests(seed: int) -> None:
    one, again = (thinned(trace_of(50), 0.5, np.random.default_rng(seed)) for _ in "ab")
    assert one.prompt_tokens.tolist() == again.prompt_tokens.tolist()


@given(scale=st.floats(0.01, 100))
def test_scaling_multiplies_the_rate_and_keeps_the_variation(scale: float) -> None:
    trace = trace_of(200)
    faster = scaled(trace, scale)
    assert rate_of(faster) == pytest.approx(scale * rate_of(trace))
    assert faster.gaps_s is not None
    assert trace.gaps_s is not None
    assert faster.gaps_s.std() / faster.gaps_s.mean() == pytest.approx(
        trace.gaps_s.std() / trace.gaps_s.mean()
    )


def test_everything_of_a_kept_request_is_its_own() -> None:
    fewer = thinned(trace_of(200), 0.3, np.random.default_rng(0))
    assert fewer.blocks is not None
    assert fewer.token_ids is not None
    for row in range(fewer.size):
        was = int(fewer.prompt_tokens[row]) - 1
        assert fewer.output_tokens[row] == was + 2
        assert fewer.blocks.of_request(row) == [(was, was + 1)]
        assert fewer.token_ids[row].tolist() == [was]


def test_conversations_are_kept_whole_and_their_turns_still_find_each_other() -> None:
    fewer = thinned(trace_of(300, turns=3), 0.5, np.random.default_rng(0))
    assert fewer.previous is not None
    assert fewer.size % 3 == 0
    assert fewer.previous.tolist() == [
        ALONE if row % 3 == 0 else row - 1 for row in range(fewer.size)
    ]


def test_a_share_that_leaves_nothing_is_refused() -> None:
    with pytest.raises(InvalidTraceError, match="keep 1e-09 leaves 0 of 5 requests"):
        thinned(trace_of(5), 1e-9, np.random.default_rng(0))
