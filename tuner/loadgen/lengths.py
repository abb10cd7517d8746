"""Prompt and output lengths drawn from a distribution."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tuner.domain.study_spec import ConstantLength, LengthSpec, UniformLength

IntArray = npt.NDArray[np.int64]


def draw_lengths(spec: LengthSpec, count: int, rng: np.random.Generator) -> IntArray:
    """`count` lengths in tokens, each at least 1."""
    if isinstance(spec, ConstantLength):
        return np.full(count, spec.value, dtype=np.int64)
    if isinstance(spec, UniformLength):
        return rng.integers(spec.low, spec.high, size=count, endpoint=True, dtype=np.int64)
    drawn = spec.median * np.exp(spec.sigma * rng.standard_normal(count))
    return np.clip(np.rint(drawn), spec.low, spec.high).astype(np.int64)


def clip_to_context(
    prompt_tokens: IntArray, output_tokens: IntArray, max_model_len: int
) -> tuple[IntArray, IntArray, int]:
    """Lengths that fit `max_model_len` together, and how many requests had to be cut.

    The prompt gives way first, because the output is what decoding costs; an output longer than
    half the context is cut to that half. vLLM itself would cut the output silently, or refuse a
    prompt that fills the context: both would make the load differ from what is reported.
    """
    if max_model_len < 2:
        raise ValueError(f"max_model_len must be at least 2, not {max_model_len}")
    too_long = prompt_tokens + output_tokens > max_model_len
    output = np.where(too_long, np.minimum(output_tokens, max_model_len // 2), output_tokens)
    prompt = np.where(too_long, np.minimum(prompt_tokens, max_model_len - output), prompt_tokens)
    return prompt, output, int(np.count_nonzero(too_long))
