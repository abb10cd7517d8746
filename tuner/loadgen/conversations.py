"""Turns of a conversation as prompts that carry what was said before."""

from __future__ import annotations

from dataclasses import dataclass, field

from tuner.loadgen.text_tokens import Pieces, block_id
from tuner.loadgen.trace import ALONE


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
