"""What enters and leaves the engine model, per request and per step. Times in virtual seconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EngineRequest:
    """One request as the scheduler sees it."""

    request_id: int
    arrival_s: float
    prompt_tokens: int
    output_tokens: int
    priority: int = 0
    prefix_blocks: tuple[int, ...] = ()
    """Hashes of the prompt's leading full blocks; equal hashes share cache."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """One engine step: how long it takes and who gets a token at its end."""

    start_s: float
    duration_s: float
    scheduled_tokens: int
    prefill_tokens: int
    decode_tokens: int
    emitted: tuple[int, ...]
    finished: tuple[int, ...]
    preempted: tuple[int, ...]
    running: int
    waiting: int
    used_blocks: int
    bottleneck: str
    """`compute`, `weights_bandwidth`, `kv_bandwidth` or `overhead`."""
    admitted: tuple[tuple[int, int], ...] = ()
    """Requests that ran for the first time, each with the prompt tokens it found cached."""

    @property
    def end_s(self) -> float:
        return self.start_s + self.duration_s
