"""Mooncake's traces: lengths, stamps, and which 512-token blocks of the prompts are equal."""

from __future__ import annotations

import numpy as np

from tuner.loadgen.quantised_stamps import quantisation_step_s, spread
from tuner.loadgen.text_tokens import only_shared
from tuner.loadgen.trace import PromptBlocks, Trace, gaps_between
from tuner.loadgen.trace_lines import (
    fault,
    json_lines,
    length_of_json,
    require_order,
    require_requests,
    seconds,
)

BLOCK_TOKENS = 512
LARGEST_HASH = 2**53


def parse_mooncake(text: str, *, source: str, rng: np.random.Generator) -> Trace:
    """JSONL with timestamp (ms), input_length, output_length and hash_ids.

    An id stands for a block of 512 tokens, the last one for what is left of the prompt. Blocks that
    no other request has are not listed.
    """
    stamps: list[float] = []
    prompts: list[int] = []
    outputs: list[int] = []
    blocks: list[list[tuple[int, int]]] = []
    for line, values in json_lines(text, source):
        stamps.append(seconds(values.get("timestamp"), "timestamp", source, line) / 1000)
        prompts.append(length_of_json(values, "input_length", source, line))
        outputs.append(length_of_json(values, "output_length", source, line))
        require_order(stamps, values["timestamp"], source, line)
        blocks.append(_blocks(values.get("hash_ids"), prompts[-1], source, line))
    require_requests(len(stamps), source)
    moments, notes = np.asarray(stamps), []
    step_s = quantisation_step_s(moments)
    if step_s is not None:
        moments = spread(moments, step_s, rng)
        notes.append(f"stamps in steps of {step_s:g} s are spread within their step")
    return Trace(
        source=source,
        format="mooncake",
        prompt_tokens=np.asarray(prompts, dtype=np.int64),
        output_tokens=np.asarray(outputs, dtype=np.int64),
        gaps_s=gaps_between(moments),
        blocks=PromptBlocks.of(only_shared(blocks)),
        notes=tuple(notes),
    )


def _blocks(ids: object, prompt_tokens: int, source: str, line: int) -> list[tuple[int, int]]:
    if not isinstance(ids, list) or not all(
        type(each) is int and 0 <= each < LARGEST_HASH for each in ids
    ):
        raise fault(source, line, "hash_ids must be a list of whole numbers of at least 0")
    wanted = -(-prompt_tokens // BLOCK_TOKENS)
    if len(ids) != wanted:
        message = f"{len(ids)} hash_ids, but {prompt_tokens} tokens are {wanted} blocks of 512"
        raise fault(source, line, message)
    last = prompt_tokens - (wanted - 1) * BLOCK_TOKENS
    return [*((each, BLOCK_TOKENS) for each in ids[:-1]), (ids[-1], last)]
