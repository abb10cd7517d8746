"""Workloads named after the cases users have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tuner.domain.study_spec import LognormalLength
from tuner.loadgen.lengths import IntArray, draw_lengths
from tuner.loadgen.trace import PromptBlocks
from tuner.loadgen.traces import read_trace

CHAT_TRACE = "builtin:azure-conv-2023"
POOL_SIZE = 4096
"""Requests drawn from a distribution; segments take theirs from this pool."""

LONG_PROMPT = LognormalLength(type="lognormal", median=6500, sigma=0.8, low=512, high=65536)
LONG_ANSWER = LognormalLength(type="lognormal", median=200, sigma=0.7, low=8, high=2048)
"""Between Mooncake's conversation trace (prompt p50 6,909, p90 27,367; output p50 350) and arXiv
summarisation (prompt p50 2,730; output p50 167)."""

MIXED_LONG_SHARE = 0.2


@dataclass(frozen=True, slots=True, eq=False)
class LengthPool:
    """Requests to take from, before they are cut to the context; as in Trace."""

    title: str
    prompt_tokens: IntArray
    output_tokens: IntArray
    gaps_s: npt.NDArray[np.float64] | None
    blocks: PromptBlocks | None = None
    previous: IntArray | None = None
    token_ids: tuple[IntArray, ...] | None = None
    notes: tuple[str, ...] = ()


def chat(rng: np.random.Generator) -> LengthPool:
    """Conversation: the shipped Azure trace as recorded."""
    trace = read_trace(CHAT_TRACE, base_dir=Path(), rng=rng)
    title = "chat (Azure conversation trace 2023)"
    return LengthPool(title, trace.prompt_tokens, trace.output_tokens, trace.gaps_s)


def long_context_qa(rng: np.random.Generator) -> LengthPool:
    """Questions about long documents: long prompts, short answers."""
    title = "long-context-qa (lognormal lengths)"
    prompts = draw_lengths(LONG_PROMPT, POOL_SIZE, rng)
    return LengthPool(title, prompts, draw_lengths(LONG_ANSWER, POOL_SIZE, rng), None)


def mixed(rng: np.random.Generator) -> LengthPool:
    """Chat in which one request in five is a question about a long document."""
    base = chat(rng)
    count = base.prompt_tokens.size
    is_long = rng.random(count) < MIXED_LONG_SHARE
    prompts = np.where(is_long, draw_lengths(LONG_PROMPT, count, rng), base.prompt_tokens)
    outputs = np.where(is_long, draw_lengths(LONG_ANSWER, count, rng), base.output_tokens)
    title = f"mixed (chat with {MIXED_LONG_SHARE:.0%} long-context questions)"
    return LengthPool(title, prompts, outputs, base.gaps_s)


PRESETS: dict[str, Callable[[np.random.Generator], LengthPool]] = {
    "chat": chat,
    "long-context-qa": long_context_qa,
    "mixed": mixed,
}
