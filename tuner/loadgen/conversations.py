"""Turns of a conversation as prompts that carry what was said before."""

from __future__ import annotations

from dataclasses import dataclass, field

from tuner.loadgen.text_tokens import Pieces, block_id
from tuner.loadgen.trace import ALONE, IntArray, PromptBlocks


@dataclass(slots=True)
class Conversation:
    """What was said so far, as blocks.

    Answers are carried as stand-ins of the recorded length, equal in every later turn and for every
    configuration: the engine's own words would differ between configurations. A prefix cache
    therefore finds the previous prompt, and of the previous answer nothing.
    """

    name: str
    said: Pieces = field(default_factory=list)
    last_row: int = ALONE

    def turn(self, row: int, own: Pieces, output_tokens: int) -> Pieces:
        """The prompt of the next turn, which is request `row`: all that was said, then `own`."""
        prompt = [*self.said, *own]
        self.said = [*prompt, (block_id("answer", self.name, row), output_tokens)]
        self.last_row = row
        return prompt


def without_the_oldest(
    prompt_tokens: IntArray, output_tokens: IntArray, blocks: PromptBlocks, max_model_len: int
) -> tuple[IntArray, PromptBlocks]:
    """Prompts that forget their oldest blocks until they fit, as chat applications do.

    One that is too long without them, too, is left for `clip_to_context` to cut.
    """
    kept = prompt_tokens.copy()
    requests = [blocks.of_request(row) for row in range(prompt_tokens.size)]
    for row in (prompt_tokens + output_tokens > max_model_len).nonzero()[0].tolist():
        room = max_model_len - min(int(output_tokens[row]), max_model_len // 2)
        while requests[row] and kept[row] > room and kept[row] > requests[row][0][1]:
            kept[row] -= requests[row].pop(0)[1]
    return kept, PromptBlocks.of(requests)
