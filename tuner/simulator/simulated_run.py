"""What one simulated load test shows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuner.simulator.cost import CostModel
from tuner.simulator.memory import MemoryAccount, StartupFailure
from tuner.simulator.scheduler import BOTTLENECKS

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Steps:
    """One row per engine step; seconds, tokens, counts. `bottleneck` indexes `BOTTLENECKS`."""

    start_s: Floats
    duration_s: Floats
    prefill_tokens: Integers
    decode_tokens: Integers
    sequences: Integers
    kv_read_tokens: Integers
    attention_pairs: Integers
    emitted: Integers
    preempted: Integers
    running: Integers
    waiting: Integers
    used_blocks: Integers
    bottleneck: Integers

    def __len__(self) -> int:
        return len(self.start_s)


@dataclass(frozen=True, slots=True)
class SimulatedRun:
    """What one load test would show: per request (in the order given), per step, in total.

    Times are virtual seconds; NaN where a request never got that far. `failure` is set when the
    engine does not start (then nothing else holds anything); `out_of_memory` when it died under
    load; `stalled` when requests were left that could never be scheduled.
    """

    request_ids: tuple[int, ...]
    entered_s: Floats
    first_token_s: Floats
    last_token_s: Floats
    max_gap_s: Floats
    output_tokens: Integers
    finished: NDArray[np.bool_]
    preemptions: Integers
    steps: Steps
    memory: MemoryAccount
    cost_model: CostModel
    counters: dict[str, int]
    out_of_memory: bool
    stalled: bool

    @property
    def failure(self) -> StartupFailure | None:
        return self.memory.failure

    @property
    def ttft_s(self) -> Floats:
        """Seconds from entering the engine to the first token."""
        result: Floats = self.first_token_s - self.entered_s
        return result

    @property
    def e2e_s(self) -> Floats:
        """Seconds from entering to the last token; NaN for unfinished requests."""
        result: Floats = np.where(self.finished, self.last_token_s - self.entered_s, np.nan)
        return result

    @property
    def tpot_s(self) -> Floats:
        """Mean seconds per token after the first; NaN with fewer than two tokens."""
        many = self.finished & (self.output_tokens > 1)
        span = self.last_token_s - self.first_token_s
        result: Floats = np.where(many, span / np.maximum(1, self.output_tokens - 1), np.nan)
        return result

    @property
    def end_s(self) -> float:
        """When the last step ended; 0 without steps."""
        if len(self.steps) == 0:
            return 0.0
        return float(self.steps.start_s[-1] + self.steps.duration_s[-1])

    @property
    def span_s(self) -> float:
        """From the first request's entry to the end of the last step."""
        if len(self.steps) == 0:
            return 0.0
        return self.end_s - float(np.nanmin(self.entered_s))

    @property
    def output_tokens_per_s(self) -> float | None:
        """Generated tokens over the whole span; None without any step."""
        return int(self.output_tokens.sum()) / self.span_s if self.span_s > 0 else None

    @property
    def busy_share(self) -> float | None:
        """Share of the span in which a step was running."""
        return float(self.steps.duration_s.sum()) / self.span_s if self.span_s > 0 else None

    @property
    def kv_usage_peak(self) -> float | None:
        """Largest share of the KV blocks in use."""
        if len(self.steps) == 0:
            return None
        return float(self.steps.used_blocks.max()) / self.memory.num_blocks

    @property
    def achieved_compute(self) -> float | None:
        """Model operations over what the devices could do at their peak, while busy."""
        busy = float(self.steps.duration_s.sum())
        if busy == 0.0:
            return None
        costs, steps = self.cost_model, self.steps
        tokens = int(steps.prefill_tokens.sum() + steps.decode_tokens.sum())
        flops = costs.flops_per_token * tokens + costs.head_flops * int(steps.sequences.sum())
        flops += costs.pair_flops * float(steps.attention_pairs.sum())
        return flops / (busy * costs.peak_flops)

    @property
    def achieved_bandwidth(self) -> float | None:
        """Weight and KV bytes read over what the memory could deliver, while busy."""
        busy = float(self.steps.duration_s.sum())
        if busy == 0.0:
            return None
        costs, steps = self.cost_model, self.steps
        tokens = (steps.prefill_tokens + steps.decode_tokens).astype(np.float64)
        read = float(costs.weight_bytes(tokens).sum())
        read += costs.kv_bytes_per_token * float(steps.kv_read_tokens.sum())
        return read / (busy * costs.gpu.memory_bytes_per_s)

    def bottleneck_shares(self) -> dict[str, float]:
        """Share of the busy time that each resource bounded; empty without steps."""
        busy = float(self.steps.duration_s.sum())
        if busy == 0.0:
            return {}
        time_of = np.bincount(
            self.steps.bottleneck, weights=self.steps.duration_s, minlength=len(BOTTLENECKS)
        )
        return {name: float(time_of[index]) / busy for index, name in enumerate(BOTTLENECKS)}
