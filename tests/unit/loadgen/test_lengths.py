from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.domain.study_spec import ConstantLength, LognormalLength, UniformLength
from tuner.loadgen.lengths import clip_to_context, draw_lengths


def test_constant_lengths_are_all_that_length() -> None:
    drawn = draw_lengths(ConstantLength(type="constant", value=7), 5, np.random.default_rng(0))
    assert drawn.tolist() == [7] * 5


def test_uniform_lengths_reach_both_ends_and_no_further() -> None:
    spec = UniformLength(type="uniform", low=3, high=5)
    drawn = draw_lengths(spec, 1000, np.random.default_rng(0))
    assert set(drawn.tolist()) == {3, 4, 5}


def test_lognormal_lengths_have_the_given_median_and_spread() -> None:
    spec = LognormalLength(type="lognormal", median=1000, sigma=0.5, low=1, high=100_000)
    drawn = draw_lengths(spec, 20_000, np.random.default_rng(0))
    assert np.median(drawn) == pytest.approx(1000, rel=0.02)
    assert np.log(drawn).std() == pytest.approx(0.5, rel=0.02)


def test_lognormal_lengths_are_clipped_to_their_bounds() -> None:
    spec = LognormalLength(type="lognormal", median=100, sigma=3.0, low=50, high=200)
    drawn = draw_lengths(spec, 1000, np.random.default_rng(0))
    assert (drawn.min(), drawn.max()) == (50, 200)


def test_lognormal_without_spread_is_its_median() -> None:
    spec = LognormalLength(type="lognormal", median=42.4, sigma=0.0)
    assert draw_lengths(spec, 3, np.random.default_rng(0)).tolist() == [42, 42, 42]


@pytest.mark.parametrize(
    ("prompt", "output", "clipped_prompt", "clipped_output"),
    [
        (60, 40, 60, 40),
        (61, 40, 60, 40),
        (500, 40, 60, 40),
        (500, 90, 50, 50),
        (10, 500, 10, 50),
        (100, 1, 99, 1),
    ],
)
def test_the_prompt_gives_way_before_the_output(
    prompt: int, output: int, clipped_prompt: int, clipped_output: int
) -> None:
    prompts, outputs, clipped = clip_to_context(np.array([prompt]), np.array([output]), 100)
    assert (prompts.tolist(), outputs.tolist()) == ([clipped_prompt], [clipped_output])
    assert clipped == int((prompt, output) != (clipped_prompt, clipped_output))


@given(
    lengths=st.lists(st.tuples(st.integers(1, 5000), st.integers(1, 5000)), min_size=1),
    max_model_len=st.integers(2, 4000),
)
def test_clipped_requests_fit_and_keep_at_least_one_token_each(
    lengths: list[tuple[int, int]], max_model_len: int
) -> None:
    prompts, outputs = (np.array(column) for column in zip(*lengths, strict=True))
    new_prompts, new_outputs, clipped = clip_to_context(prompts, outputs, max_model_len)
    assert (new_prompts + new_outputs <= max_model_len).all()
    assert new_prompts.min() >= 1
    assert new_outputs.min() >= 1
    assert (new_prompts <= prompts).all()
    assert (new_outputs <= outputs).all()
    assert clipped == np.count_nonzero(prompts + outputs > max_model_len)


def test_a_context_of_one_token_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 2"):
        clip_to_context(np.array([1]), np.array([1]), 1)
