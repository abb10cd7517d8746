"""Records and the engine's own report of a window, summed up for scoring."""

from __future__ import annotations

import numpy as np

from objectives.measurement import (
    CapacitySegment,
    Distribution,
    Estimate,
    LatencySegment,
    PrefixSummary,
    PromptClass,
    RequestCounts,
    SteadyState,
)
from objectives.slo import Slo
from tuner.domain.engine_window import EngineWindow
from tuner.loadgen.attainment import attainment_of, goodput_of
from tuner.loadgen.in_flight import in_flight_by_part
from tuner.loadgen.instrument import instrument
from tuner.loadgen.load_result import SegmentResult
from tuner.loadgen.plan import ClosedLoopSegment, LatencyLoad, UserLoopSegment
from tuner.loadgen.prefix import Look, prefix_summary, rows_of_records
from tuner.loadgen.prompt_classes import FEWEST_REQUESTS, PromptEdges, class_bounds
from tuner.loadgen.records import FloatArray, Outcome, Records
from tuner.loadgen.request_metrics import (
    BoolArray,
    e2e_ms,
    itl_ms,
    tokens_within,
    tpot_ms,
    ttft_from_due_ms,
)
from tuner.loadgen.statistics import distribution, mean_estimate
from tuner.loadgen.steady_state import queue_settling, settling

__all__ = ["capacity_segment", "instrument", "latency_segment"]

FEWEST_BINS, MOST_BINS = 24, 60
"""Parts of a window whose rates give a throughput its interval."""


def latency_segment(
    result: SegmentResult,
    engine: EngineWindow,
    *,
    slo: Slo | None = None,
    seed: int = 0,
    prompt_edges: PromptEdges | None = None,
) -> LatencySegment:
    """Sum up an open loop, or users in a closed one: requests due in the window, whatever became of
    them.

    TTFT counts from the scheduled moment, of a user from the moment when his turn came. Every
    measured request was watched for at least `drain_s`, so min(latency, drain_s) is known of all of
    them: TTFT and E2E are cut there, those cut (or failed before it) are counted as censored, and
    a percentile below the cut is exact.
    TPOT of a request that the end of the drain interrupted counts with what it had, as censored.
    `prompt_edges` part the requests into short, medium and long prompts.
    """
    segment, records = result.segment, result.records
    if isinstance(segment, ClosedLoopSegment):
        raise TypeError("latency is not measured in saturation")
    start_s, end_s = segment.warmup_s, segment.window_end_s
    measured = (records.due_s >= start_s) & (records.due_s < end_s)
    sent_in_window = (records.sent_s >= start_s) & (records.sent_s < end_s)
    cap_ms = (segment.drain_s or segment.window_s) * 1000
    share = None if slo is None else attainment_of(records, measured, slo, seed)
    offered_per_s = float(np.count_nonzero(measured)) / segment.window_s
    users = segment if isinstance(segment, UserLoopSegment) else None
    return LatencySegment(
        window_s=segment.window_s,
        offered_per_s=offered_per_s,
        achieved_per_s=float(np.count_nonzero(sent_in_window)) / segment.window_s,
        requests=_counts(records, measured, measured),
        ttft_ms=_capped(ttft_from_due_ms(records)[measured], cap_ms, seed),
        tpot_ms=_tpot(records, measured, seed),
        itl_ms=distribution(itl_ms(records, measured), seed=seed),
        e2e_ms=_capped(e2e_ms(records)[measured], cap_ms, seed),
        output_tokens_per_s=_token_rate(records, start_s, end_s, seed),
        slo_attainment=share,
        goodput_per_s=None if share is None else goodput_of(share, offered_per_s),
        preemptions=engine.preemptions,
        kv_usage_peak=engine.kv_usage_peak,
        running_peak=engine.running_peak,
        waiting_peak=engine.waiting_peak,
        gpu_utilization=engine.gpu_utilization,
        gpu_memory_peak_gib=engine.gpu_memory_peak_gib,
        gpu_power_w=engine.gpu_power_w,
        by_prompt_length=_classes(records, measured, cap_ms, seed, prompt_edges),
        prefix=_prefix(segment, records, seed),
        concurrency=None if users is None else users.concurrency,
        think_s=None if users is None else users.think_s,
        planned_window_s=segment.planned_window_s,
        steady=None if users else _queue_steady(records, segment),
    )


def _prefix(segment: LatencyLoad, records: Records, seed: int) -> PrefixSummary | None:
    """None for users: which requests they send first depends on the engine, so that two beginnings
    do not compare."""
    if isinstance(segment, UserLoopSegment):
        return None
    look = Look.of(segment)
    return prefix_summary(look, rows_of_records(look, segment, records), seed=seed)


def capacity_segment(
    result: SegmentResult, engine: EngineWindow, *, seed: int = 0
) -> CapacitySegment:
    """Sum up a closed-loop segment: what arrived within the window, whenever it was sent.

    Its counts: sent in the window, ended in it, in flight when it closed. Its rates leave out the
    window's beginning where the engine had plainly not settled yet.
    """
    segment, records = result.segment, result.records
    if not isinstance(segment, ClosedLoopSegment):
        raise TypeError("capacity is measured in a closed loop")
    start_s, end_s = segment.warmup_s, segment.window_end_s
    sent = (records.sent_s >= start_s) & (records.sent_s < end_s)
    over = (records.ended_s >= start_s) & (records.ended_s < end_s)
    over |= records.outcome == Outcome.UNFINISHED
    steady = _steady(records, segment)
    from_s = start_s + steady.truncated_s
    return CapacitySegment(
        window_s=segment.window_s,
        concurrency=segment.concurrency,
        requests=_counts(records, sent, over),
        output_tokens_per_s=_token_rate(records, from_s, end_s, seed),
        requests_per_s=_completion_rate(records, from_s, end_s, seed),
        preemptions=engine.preemptions,
        kv_usage_peak=engine.kv_usage_peak,
        running_peak=engine.running_peak,
        waiting_peak=engine.waiting_peak,
        gpu_utilization=engine.gpu_utilization,
        gpu_memory_peak_gib=engine.gpu_memory_peak_gib,
        gpu_power_w=engine.gpu_power_w,
        steady=steady,
        planned_window_s=segment.planned_window_s,
    )


def _queue_steady(records: Records, segment: LatencyLoad) -> SteadyState:
    """Marked, not cut: what is left out here would be measured in another configuration."""
    start_s, end_s = segment.warmup_s, segment.window_end_s
    bins = _bins(segment.window_s)
    found = queue_settling(in_flight_by_part(records, start_s, end_s, bins))
    unsettled_s = found.skipped * segment.window_s / bins
    return SteadyState(segment.warmup_s, 0.0, found.drift, found.steady, unsettled_s)


def _steady(records: Records, segment: ClosedLoopSegment) -> SteadyState:
    start_s, end_s = segment.warmup_s, segment.window_end_s
    bins = _bins(segment.window_s)
    found = settling(tokens_within(records, start_s, end_s, bins))
    truncated_s = found.skipped * segment.window_s / bins
    return SteadyState(segment.warmup_s, truncated_s, found.drift, found.steady)


def _classes(
    records: Records, measured: BoolArray, cap_ms: float, seed: int, edges: PromptEdges | None
) -> tuple[PromptClass, ...]:
    if edges is None:
        return ()
    ttft_ms = ttft_from_due_ms(records)
    found = []
    for name, low, high in class_bounds(edges):
        tokens = records.prompt_tokens
        chosen = measured & (tokens >= low) & (tokens <= high)
        count = int(np.count_nonzero(chosen))
        enough = count >= FEWEST_REQUESTS
        ttft = _capped(ttft_ms[chosen], cap_ms, seed) if enough else None
        tpot = _tpot(records, chosen, seed) if enough else None
        found.append(PromptClass(name, low, high, count, ttft, tpot))
    return tuple(found)


def _counts(records: Records, scheduled: BoolArray, ended: BoolArray) -> RequestCounts:
    unfinished = (records.outcome == Outcome.UNFINISHED) | (records.outcome == Outcome.NOT_SENT)
    return RequestCounts(
        scheduled=int(np.count_nonzero(scheduled)),
        completed=int(np.count_nonzero(records.completed & ended)),
        failed=int(np.count_nonzero(records.failed & ended)),
        unfinished=int(np.count_nonzero(unfinished & ended)),
    )


def _capped(latencies_ms: FloatArray, cap_ms: float, seed: int) -> Distribution | None:
    """Distribution of min(latency, cap); NaN is a latency beyond the cap."""
    capped = np.fmin(latencies_ms, cap_ms)
    cut = int(np.count_nonzero(~(latencies_ms <= cap_ms)))
    return distribution(capped, seed=seed, censored=cut)


def _tpot(records: Records, measured: BoolArray, seed: int) -> Distribution | None:
    values = tpot_ms(records)
    chosen = measured & ~np.isnan(values)
    interrupted = chosen & (records.outcome == Outcome.UNFINISHED)
    censored = int(np.count_nonzero(interrupted))
    return distribution(values[chosen], seed=seed, censored=censored)


def _token_rate(records: Records, start_s: float, end_s: float, seed: int) -> Estimate | None:
    bins = _bins(end_s - start_s)
    tokens = tokens_within(records, start_s, end_s, bins)
    return _rate(tokens, (end_s - start_s) / bins, seed)


def _completion_rate(records: Records, start_s: float, end_s: float, seed: int) -> Estimate | None:
    bins = _bins(end_s - start_s)
    ended_s = records.ended_s[records.completed]
    counts, _ = np.histogram(ended_s, bins=bins, range=(start_s, end_s))
    return _rate(counts.astype(np.float64), (end_s - start_s) / bins, seed)


def _rate(counts: FloatArray, bin_s: float, seed: int) -> Estimate | None:
    """Rate over all bins; `n` is the number of things counted, the interval the bins'."""
    estimate = mean_estimate(counts / bin_s, seed=seed)
    if estimate is None:
        return None
    total = float(counts.sum())
    return Estimate(total / (bin_s * counts.size), round(total), estimate.low, estimate.high)


def _bins(window_s: float) -> int:
    return int(min(MOST_BINS, max(FEWEST_BINS, window_s)))
