"""What ails a living engine, from two readings of its `/metrics`: silent in its log, told here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from objectives.preemption import HEALTHY_PER_REQUEST
from tuner.domain.diagnosis import Consequence, Diagnosis, FactValue, Phase, Remedy
from tuner.telemetry.exposition import EngineMetric, EngineSnapshot

KV_NEARLY_FULL = 0.95
QUEUE_SHARE = 0.05
"""Fewer waiting than this share of the running requests is a burst, not a queue."""
_UP_UTIL = Remedy("gpu_memory_utilization", "up")
_FP8_CACHE = Remedy("kv_cache_dtype", "set", "fp8")
_UP_TP = Remedy("tensor_parallel_size", "up")


@dataclass(frozen=True, slots=True)
class Readings:
    """The first and the last reading of a window of `window_s` seconds, and those between.

    Without a first one (`window_s` None) counters count from the engine's start.
    """

    snapshots: tuple[EngineSnapshot, ...]
    window_s: float | None

    @property
    def last(self) -> EngineSnapshot:
        return self.snapshots[-1]

    def delta(self, counter: EngineMetric) -> float | None:
        """Growth within the window; None when it was not reported or fell (a restart)."""
        end = self.last.get(counter)
        begin = 0.0 if self.window_s is None else self.snapshots[0].get(counter)
        if begin is None or end is None or end < begin:
            return None
        return end - begin

    def peak(self, gauge: EngineMetric) -> float | None:
        """The largest of the readings."""
        values = [s.get(gauge) for s in self.snapshots]
        return max((value for value in values if value is not None), default=None)

    def always(self, gauge: EngineMetric, value: float) -> bool:
        """Whether every reading says `value`."""
        return all(snapshot.get(gauge) == value for snapshot in self.snapshots)

    def mean(self, total: EngineMetric, count: EngineMetric) -> float | None:
        """The mean of a histogram's new observations, by its sum and count."""
        of_total, of_count = self.delta(total), self.delta(count)
        return of_total / of_count if of_total is not None and of_count else None


def condition(readings: Readings) -> Diagnosis:
    """The one thing to act on first: a stall, a hang, preemption, a full KV cache, a queue, or ok.

    What the engine does not report is a fact of None and decides nothing.
    """
    facts = _facts(readings)
    return (
        _stalled(readings, facts)
        or _hanging(readings, facts)
        or _preempting(readings, facts)
        or _waiting(readings, facts)
        or _answer("ok", "nothing is wrong in this window", facts)
    )


def _facts(readings: Readings) -> dict[str, FactValue]:
    per_request = preemptions_per_request(readings)
    hits, queries = (readings.delta(m) for m in (EngineMetric.PREFIX_HITS, _QUERIES))
    rate = readings.delta(EngineMetric.GENERATION_TOKENS)
    window_s = readings.window_s
    facts: dict[str, FactValue] = {
        "window_s": window_s,
        "running": readings.peak(EngineMetric.RUNNING),
        "waiting": readings.peak(EngineMetric.WAITING),
        "kv_cache_usage": readings.peak(EngineMetric.KV_USAGE),
        "preemptions": readings.delta(EngineMetric.PREEMPTIONS),
        "finished_requests": readings.delta(EngineMetric.FINISHED_REQUESTS),
        "preemptions_per_request": per_request,
        "generation_tokens_per_s": rate / window_s if rate is not None and window_s else None,
        "prefix_hit_rate": hits / queries if hits is not None and queries else None,
        "ttft_mean_s": readings.mean(EngineMetric.TTFT_SUM_S, EngineMetric.TTFT_COUNT),
        "itl_mean_s": readings.mean(EngineMetric.ITL_SUM_S, EngineMetric.ITL_COUNT),
        "queue_mean_s": readings.mean(EngineMetric.QUEUE_SUM_S, EngineMetric.QUEUE_COUNT),
        "rejected_requests": readings.delta(EngineMetric.REJECTED_REQUESTS),
    }
    config = readings.last.cache_config
    tokens = config.get("kv_cache_size_tokens")
    facts["kv_cache_tokens"] = int(tokens) if tokens and tokens.isdecimal() else None
    return facts


_QUERIES = EngineMetric.PREFIX_QUERIES


def preemptions_per_request(readings: Readings) -> float | None:
    """Preemptions over finished requests, or over the running ones where none has finished yet.

    Up to 0.1 is normal operation: 1,538 in 19,801 requests was a healthy server.
    """
    count = readings.delta(EngineMetric.PREEMPTIONS)
    if count is None:
        return None
    finished = readings.delta(EngineMetric.FINISHED_REQUESTS)
    requests = finished or readings.peak(EngineMetric.RUNNING)
    if not requests:
        return 0.0 if count == 0 else None
    return count / requests


def _stalled(readings: Readings, facts: dict[str, FactValue]) -> Diagnosis | None:
    """Nothing runs, requests wait, the cache is empty: one needs more than the cache holds."""
    idle = readings.always(EngineMetric.RUNNING, 0) and readings.always(EngineMetric.KV_USAGE, 0)
    waiting = all((s.get(EngineMetric.WAITING) or 0) > 0 for s in readings.snapshots)
    if not (idle and waiting) or readings.window_s is None:
        return None
    if readings.delta(EngineMetric.GENERATION_TOKENS) != 0:
        return None
    tokens = facts["kv_cache_tokens"]
    remedies = (
        Remedy("max_model_len", "down", tokens if isinstance(tokens, int) else None),
        Remedy("scheduler_reserve_full_isl", "set", False),
        _UP_UTIL,
    )
    summary = "requests wait, nothing runs and the KV cache is empty: one needs more than the cache"
    return _answer("stalled", summary, facts, remedies, Consequence.INFEASIBLE)


def _hanging(readings: Readings, facts: dict[str, FactValue]) -> Diagnosis | None:
    running = all((s.get(EngineMetric.RUNNING) or 0) > 0 for s in readings.snapshots)
    still = readings.delta(EngineMetric.STEP_COUNT) == 0
    if not (running and still) or readings.window_s is None:
        return None
    summary = f"requests run and the engine made no step in {readings.window_s:.0f} s"
    return _answer("hang", summary, facts, consequence=Consequence.RETRY)


def _preempting(readings: Readings, facts: dict[str, FactValue]) -> Diagnosis | None:
    per_request = preemptions_per_request(readings)
    if per_request is None or per_request <= HEALTHY_PER_REQUEST:
        return None
    running = readings.peak(EngineMetric.RUNNING)
    most = math.floor(running) if running else None
    remedies = (Remedy("max_num_seqs", "down", most), _UP_UTIL, _FP8_CACHE)
    summary = f"{per_request:.2f} preemptions per request: the KV cache is too small for what runs"
    return _answer("preemption", summary, facts, remedies)


def _waiting(readings: Readings, facts: dict[str, FactValue]) -> Diagnosis | None:
    running, waiting = readings.peak(EngineMetric.RUNNING), readings.last.get(EngineMetric.WAITING)
    if running is None or waiting is None or waiting < max(1.0, QUEUE_SHARE * running):
        return None
    usage = readings.peak(EngineMetric.KV_USAGE)
    if usage is not None and usage >= KV_NEARLY_FULL:
        summary = f"{waiting:g} requests wait for room in the KV cache ({usage:.0%} full)"
        return _answer("kv_bound", summary, facts, (_UP_UTIL, _FP8_CACHE, _UP_TP))
    remedies = (Remedy("max_num_seqs", "up"), Remedy("max_num_batched_tokens", "up"))
    room = "" if usage is None else f" although the KV cache is only {usage:.0%} full"
    summary = f"{waiting:g} requests wait{room}: the caps on sequences or tokens hold them"
    return _answer("queueing", summary, facts, remedies)


def _answer(
    failure_class: str,
    summary: str,
    facts: dict[str, FactValue],
    remedies: Sequence[Remedy] = (),
    consequence: Consequence = Consequence.NONE,
) -> Diagnosis:
    quoted = ("running", "waiting", "kv_cache_usage", "preemptions", "generation_tokens_per_s")
    said = ", ".join(f"{name} {_said(facts[name])}" for name in quoted)
    return Diagnosis(
        failure_class,
        Phase.SERVING,
        consequence,
        summary,
        evidence=(said,),
        remedies=tuple(remedies),
        tunable=bool(remedies),
        facts=facts,
    )


def _said(value: FactValue) -> str:
    return "unknown" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
