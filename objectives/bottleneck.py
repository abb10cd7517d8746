from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from objectives.measurement import CapacitySegment, EngineFacts, LatencySegment, Measurement
from objectives.preemption import HEALTHY_PER_REQUEST

KV_NEARLY_FULL = 0.95
SEQUENCES_NEARLY_FULL = 0.98
QUEUE_SHARE = 0.05
"""A peak of waiting requests below this share of the running ones is a burst, not a queue."""


class Bound(Enum):
    """The resource that kept an engine from serving more."""

    KV_CACHE = "kv_cache"
    SEQUENCE_CAP = "sequence_cap"
    TOKEN_BUDGET = "token_budget"  # noqa: S105 -- a budget of tokens, not a secret
    UNDER_LOADED = "under_loaded"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """A verdict, a sentence that quotes the numbers it rests on, and those numbers."""

    bound: Bound
    summary: str
    evidence: tuple[tuple[str, float], ...] = ()

    def to_dict(self) -> dict[str, object]:
        return {
            "bound": self.bound.value,
            "summary": self.summary,
            "evidence": dict(self.evidence),
        }


@dataclass(frozen=True, slots=True)
class _Observed:
    running: float
    waiting: float
    kv_usage: float
    cap: int
    preemptions_per_request: float
    tokens: int | None


def bottleneck(measurement: Measurement) -> Bottleneck:
    """What bound the saturated engine: the place to look for more throughput."""
    return segment_bottleneck(measurement.capacity, measurement.engine)


def segment_bottleneck(
    segment: LatencySegment | CapacitySegment, engine: EngineFacts
) -> Bottleneck:
    """What bound the engine in this segment; `unknown` with names where a number is missing.

    Preemption decides first (the pool was overcommitted whatever else was full), then the cap on
    sequences, then a full pool; requests that wait below both limits wait for tokens of a step.
    """
    observed = _observe(segment, engine)
    if isinstance(observed, Bottleneck):
        return observed
    bound = _bound(observed)
    evidence: list[tuple[str, float]] = [
        ("running_peak", observed.running),
        ("max_num_seqs", float(observed.cap)),
        ("waiting_peak", observed.waiting),
        ("kv_usage_peak", observed.kv_usage),
        ("preemptions_per_request", observed.preemptions_per_request),
    ]
    if observed.tokens is not None:
        evidence.append(("max_num_batched_tokens", float(observed.tokens)))
    return Bottleneck(bound, _summary(bound, observed), tuple(evidence))


def _observe(
    segment: LatencySegment | CapacitySegment, engine: EngineFacts
) -> _Observed | Bottleneck:
    preemptions = segment.preemptions_per_request
    running, waiting, kv = segment.running_peak, segment.waiting_peak, segment.kv_usage_peak
    cap = engine.max_num_seqs
    named = {
        "running_peak": running,
        "waiting_peak": waiting,
        "kv_usage_peak": kv,
        "max_num_seqs": cap,
        "preemptions": preemptions,
    }
    missing = ", ".join(name for name, value in named.items() if value is None)
    if running is None or waiting is None or kv is None or cap is None or preemptions is None:
        return Bottleneck(Bound.UNKNOWN, f"cannot tell: not measured: {missing}")
    return _Observed(running, waiting, kv, cap, preemptions, engine.max_num_batched_tokens)


def _bound(seen: _Observed) -> Bound:
    if seen.preemptions_per_request > HEALTHY_PER_REQUEST:
        return Bound.KV_CACHE
    if seen.waiting < max(1.0, QUEUE_SHARE * seen.running):
        return Bound.KV_CACHE if seen.kv_usage >= KV_NEARLY_FULL else Bound.UNDER_LOADED
    # The gauge is read once a second, often just after a sequence left: one less is full too.
    if seen.running >= max(1.0, min(SEQUENCES_NEARLY_FULL * seen.cap, seen.cap - 1)):
        return Bound.SEQUENCE_CAP
    if seen.kv_usage >= KV_NEARLY_FULL:
        return Bound.KV_CACHE
    return Bound.TOKEN_BUDGET


def _summary(bound: Bound, seen: _Observed) -> str:
    load = f"{seen.running:g} of at most {seen.cap} sequences running, {seen.waiting:g} waiting"
    pool = f"KV cache {seen.kv_usage:.0%} full"
    tokens = "the token budget" if seen.tokens is None else f"{seen.tokens} tokens per step"
    return {
        Bound.KV_CACHE: f"the KV cache: {pool}, {seen.preemptions_per_request:.2f} preemptions "
        f"per request, {load}",
        Bound.SEQUENCE_CAP: f"the cap on sequences: {load}, {pool}",
        Bound.TOKEN_BUDGET: f"the token budget: {load} although the {pool} leaves room, so "
        f"admission waits for {tokens}",
        Bound.UNDER_LOADED: f"nothing: {load}, {pool}; the engine could have taken more",
        Bound.UNKNOWN: "cannot tell",
    }[bound]
