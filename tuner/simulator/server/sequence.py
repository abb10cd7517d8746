"""One engine request while it is served."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from tuner.simulator.requests import EngineRequest


class Sink(Protocol):
    """Where a sequence's tokens go: an open stream or a collected answer."""

    def deliver(self, sequence: Sequence, count: int) -> None:
        """The next `count` tokens are out; `sequence.finish_reason` is set with the last ones."""

    def fail(self, message: str) -> None:
        """The engine died; no token follows."""


@dataclass(slots=True, eq=False)
class Sequence:
    """A request in the engine: what it asked, how far it is, and when it got there.

    All times are engine seconds. `stops_naturally` marks an answer that ends before its token limit
    did, with a last token that has no text. `n` is how many answers to its prompt were asked for.
    """

    request: EngineRequest
    sink: Sink
    response_id: str
    choice: int
    n: int
    seed: int
    max_tokens: int
    stops_naturally: bool
    generated: int = 0
    delivered: int = 0
    cached_tokens: int = 0
    preemptions: int = 0
    scheduled_s: float | None = None
    first_token_s: float | None = None
    last_token_s: float | None = None
    finish_reason: str | None = None
    token_times_s: list[float] = field(default_factory=list)

    @property
    def prompt_tokens(self) -> int:
        return self.request.prompt_tokens

    @property
    def arrival_s(self) -> float:
        return self.request.arrival_s
