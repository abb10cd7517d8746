"""What is asked of the engine: request lengths and, where recorded, their arrival gaps."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tuner.domain.study_spec import (
    ClosedLoopArrivalSpec,
    LengthsSpec,
    TraceArrivalSpec,
    TraceSpec,
    WorkloadSpec,
)
from tuner.loadgen.conversations import without_the_oldest
from tuner.loadgen.lengths import IntArray, clip_to_context, draw_lengths
from tuner.loadgen.prefix_share import prefix_share
from tuner.loadgen.presets import POOL_SIZE, PRESETS, LengthPool
from tuner.loadgen.trace import PromptBlocks
from tuner.loadgen.trace_thinning import scaled, thinned
from tuner.loadgen.traces import read_trace

DEFAULT_PRESET = "chat"


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """A pool of requests that fit the engine's context.

    `gaps_s[i]` are the seconds before request i as recorded (None for drawn lengths), already
    divided by the trace's `scale`. `blocks`, `previous` and `token_ids` as in Trace. `clipped`
    requests were cut to the context.
    """

    title: str
    prompt_tokens: IntArray
    output_tokens: IntArray
    gaps_s: npt.NDArray[np.float64] | None
    max_model_len: int
    clipped: int
    digest: str
    blocks: PromptBlocks | None = None
    previous: IntArray | None = None
    token_ids: tuple[IntArray, ...] | None = None
    notes: tuple[str, ...] = ()
    turn_pause_s: float = 0.0

    @property
    def size(self) -> int:
        return int(self.prompt_tokens.size)

    @property
    def native_rate_per_s(self) -> float | None:
        """Mean arrival rate as recorded; None where nothing was recorded."""
        return None if self.gaps_s is None else float(1.0 / self.gaps_s.mean())

    @property
    def mean_tokens(self) -> float:
        """Mean of prompt plus output tokens per request."""
        return float((self.prompt_tokens + self.output_tokens).mean())

    @property
    def description(self) -> str:
        """One sentence for people; says how many requests were cut."""
        parts = [
            f"{self.title}: pool of {self.size:,} requests",
            _quantiles("prompt", self.prompt_tokens),
            _quantiles("output", self.output_tokens),
        ]
        if self.gaps_s is not None:
            variation = float(self.gaps_s.std() / self.gaps_s.mean())
            rate = self.native_rate_per_s
            parts.append(f"recorded at {rate:.2f} requests/s (gap variation {variation:.2f})")
        if self.blocks is not None:
            shared = prefix_share(self.prompt_tokens, self.blocks)
            parts.append(f"{shared:.1%} of the prompt tokens are shared prefixes")
        if self.clipped:
            share = f"{self.clipped:,} of them ({self.clipped / self.size:.1%})"
            parts.append(f"{share} cut to the context of {self.max_model_len:,} tokens")
        parts.extend(self.notes)
        return "; ".join(parts)


def build_workload(
    spec: WorkloadSpec, *, max_model_len: int, seed: int, base_dir: Path
) -> Workload:
    """The workload of a study. Equal arguments give equal workloads.

    Raises InvalidTraceError, naming the line, when a trace cannot be used.
    """
    pool = _pool(spec, np.random.default_rng(seed), base_dir)
    too_long = pool.prompt_tokens + pool.output_tokens > max_model_len
    if pool.previous is not None and pool.blocks is not None and pool.token_ids is None:
        kept, blocks = without_the_oldest(
            pool.prompt_tokens, pool.output_tokens, pool.blocks, max_model_len
        )
        pool = replace(pool, prompt_tokens=kept, blocks=blocks)
    prompts, outputs, _ = clip_to_context(pool.prompt_tokens, pool.output_tokens, max_model_len)
    return Workload(
        title=pool.title,
        prompt_tokens=prompts,
        output_tokens=outputs,
        gaps_s=pool.gaps_s,
        max_model_len=max_model_len,
        clipped=int(np.count_nonzero(too_long)),
        digest=_digest(prompts, outputs, pool),
        blocks=pool.blocks,
        previous=pool.previous,
        token_ids=pool.token_ids,
        notes=pool.notes,
        turn_pause_s=0.0 if spec.trace is None else spec.trace.turn_pause_s,
    )


def given_rate_per_s(spec: WorkloadSpec, workload: Workload) -> float | None:
    """The rate that the document asks for, in numbers or as recorded; None: to be calibrated, or
    users in a closed loop, who have none."""
    if isinstance(spec.arrival, ClosedLoopArrivalSpec):
        return None
    if spec.arrival.rate is not None:
        return spec.arrival.rate
    replayed = isinstance(spec.arrival, TraceArrivalSpec)
    scale = None if spec.trace is None else spec.trace.scale
    return workload.native_rate_per_s if replayed and scale is not None else None


def users_of(spec: WorkloadSpec) -> int | None:
    """How many users the document's closed loop has; None: requests come at a rate."""
    arrival = spec.arrival
    return arrival.concurrency if isinstance(arrival, ClosedLoopArrivalSpec) else None


def _pool(spec: WorkloadSpec, rng: np.random.Generator, base_dir: Path) -> LengthPool:
    if spec.trace is not None:
        return _from_trace(spec.trace, base_dir, rng)
    if spec.lengths is not None:
        return _from_lengths(spec.lengths, rng)
    return PRESETS[spec.preset or DEFAULT_PRESET](rng)


def _from_trace(spec: TraceSpec, base_dir: Path, rng: np.random.Generator) -> LengthPool:
    trace = read_trace(spec.file, base_dir=base_dir, format=spec.format, rng=rng)
    trace = scaled(thinned(trace, spec.keep, rng), spec.scale)
    return LengthPool(
        f"trace {spec.file}",
        trace.prompt_tokens,
        trace.output_tokens,
        trace.gaps_s,
        trace.blocks,
        trace.previous,
        trace.token_ids,
        trace.notes,
    )


def _from_lengths(spec: LengthsSpec, rng: np.random.Generator) -> LengthPool:
    prompts = draw_lengths(spec.prompt_tokens, POOL_SIZE, rng)
    outputs = draw_lengths(spec.output_tokens, POOL_SIZE, rng)
    return LengthPool("drawn lengths", prompts, outputs, None)


def _quantiles(name: str, tokens: IntArray) -> str:
    p50, p90, p99 = np.percentile(tokens, [50, 90, 99], method="inverted_cdf")
    return f"{name} tokens p50/p90/p99 {p50:.0f}/{p90:.0f}/{p99:.0f}"


def _digest(prompts: IntArray, outputs: IntArray, pool: LengthPool) -> str:
    """16 hex digits over the numbers themselves, so that equal digests mean equal requests."""
    digest = hashlib.sha256()
    for column in (prompts, outputs):
        digest.update(column.astype("<i8").tobytes())
    if pool.gaps_s is not None:
        digest.update(pool.gaps_s.astype("<f8").tobytes())
    if pool.blocks is not None:
        for column in (pool.blocks.start, pool.blocks.ids, pool.blocks.tokens):
            digest.update(column.astype("<i8").tobytes())
    if pool.previous is not None:
        digest.update(pool.previous.astype("<i8").tobytes())
    for ids in pool.token_ids or ():
        digest.update(ids.astype("<i8").tobytes())
    return digest.hexdigest()[:16]
