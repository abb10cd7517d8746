"""Whether a measurement's instrument was good enough for what it measured."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from objectives.measurement import Instrument
from tuner.domain.engine_window import EngineWindow
from tuner.loadgen import instrument_rules as rules
from tuner.loadgen.engine_truth import TruthCheck
from tuner.loadgen.implied_hits import implied_hit_rate
from tuner.loadgen.in_flight import mean_in_flight
from tuner.loadgen.instrument_limits import LIMITS, InstrumentLimits
from tuner.loadgen.instrument_rules import InstrumentFacts
from tuner.loadgen.load_result import SegmentResult
from tuner.loadgen.plan import ClosedLoopSegment, OpenLoopSegment
from tuner.loadgen.records import FloatArray
from tuner.loadgen.request_metrics import (
    first_token_edge_ms,
    first_token_mean_ms,
    token_gap_mean_ms,
    tokens_within,
)
from tuner.loadgen.stamp_quality import coalesced_share
from tuner.loadgen.statistics import quantile

__all__ = ["LIMITS", "InstrumentLimits", "instrument"]

FEWEST_TO_FORGIVE = 20
"""Requests of which a single late one moves no 95th percentile."""


def instrument(
    segments: Sequence[SegmentResult],
    engine_windows: Sequence[EngineWindow],
    *,
    time_scale: float,
    ttft_p95_ms: float | None,
    slo_ttft_ms: float | None = None,
    truth: TruthCheck | None = None,
    cache_reset: bool | None = None,
    limits: InstrumentLimits = LIMITS,
    beyond: Sequence[str] = (),
) -> Instrument:
    """Judge the instrument over all segments of a measurement, each with the engine's report.

    `ttft_p95_ms` is what was measured, `slo_ttft_ms` what the user asked for, if anything, `truth`
    what an embedded engine knows of the latency segment. `beyond` says where the load was one at
    which this host's instrument was found wrong.
    """
    facts = _facts(segments, engine_windows, time_scale)
    reasons = (
        *rules.truth_reasons(truth, time_scale, limits),
        *rules.timing_reasons(facts, time_scale, ttft_p95_ms, slo_ttft_ms, limits),
        *rules.count_reasons(facts, limits),
        *rules.clock_reasons(segments, engine_windows, time_scale, ttft_p95_ms, limits),
        *rules.early_reasons(facts, time_scale, ttft_p95_ms, limits),
        *rules.foreign_reasons(segments, engine_windows, limits),
        *rules.segment_reasons(segments, engine_windows),
        *rules.step_reasons(facts, time_scale, limits),
        *rules.coalescing_reasons(facts, time_scale, limits),
        *rules.in_flight_reasons(facts, limits),
        *beyond,
    )
    return Instrument(
        valid=not reasons,
        reasons=reasons,
        send_lag_p50_ms=facts.lag_p50_ms,
        send_lag_p99_ms=facts.lag_p99_ms,
        client_cpu_share=facts.cpu_share,
        loop_stall_max_ms=facts.stall_ms,
        clock=segments[0].report.clock,
        client_output_tokens=_whole(facts.client_tokens),
        server_output_tokens=_whole(facts.server_tokens),
        prefix_hit_rate=facts.prefix_hit_rate,
        engine_ttft_p95_ms=truth.engine_p95_ms if truth is not None and truth.requests else None,
        ttft_p95_error=truth.error if truth is not None and truth.requests else None,
        client_ttft_mean_ms=facts.client_ttft_ms,
        server_ttft_mean_ms=facts.server_ttft_ms,
        send_lag_p95_ms=facts.lag_p95_ms,
        sent_over_offered=facts.sent_over_offered,
        coalesced_share=facts.coalesced,
        client_in_flight=facts.client_in_flight,
        server_in_flight=facts.server_in_flight,
        clock_step_ms=facts.step_ms,
        cache_salt=all(result.report.cache_salt for result in segments),
        cache_reset=cache_reset,
        load_processes=max((result.report.processes for result in segments), default=None),
    )


def _facts(
    segments: Sequence[SegmentResult], engine_windows: Sequence[EngineWindow], time_scale: float
) -> InstrumentFacts:
    lag_s = np.concatenate([_send_lags_s(result) for result in segments])
    health = [result.report.health for result in segments if result.report.health is not None]
    client_tokens, server_tokens = _token_counts(segments, engine_windows)
    client_ttft_ms, server_ttft_ms, edge_ms = _first_token_means(segments, engine_windows)
    client_in_flight, server_in_flight = _in_flight(segments, engine_windows)
    gaps_ms = [gap for result in segments if (gap := _gap_ms(result)) is not None]
    return InstrumentFacts(
        lag_p50_ms=_wall_ms(lag_s, 0.50, time_scale),
        lag_p95_ms=_wall_ms(lag_s, 0.95, time_scale),
        lag_p99_ms=_wall_ms(lag_s, 0.99, time_scale),
        judged_p99_ms=_wall_ms(_without_the_latest(lag_s), 0.99, time_scale),
        cpu_share=max((item.cpu_share for item in health), default=None),
        stall_ms=max((item.loop_stall_max_ms for item in health), default=None),
        sent_over_offered=_sent_over_offered(segments),
        client_tokens=client_tokens,
        server_tokens=server_tokens,
        prefix_hit_rate=_unexplained_hits(segments, engine_windows),
        client_ttft_ms=client_ttft_ms,
        client_ttft_edge_ms=edge_ms,
        server_ttft_ms=server_ttft_ms,
        gap_ms=min(gaps_ms, default=None),
        coalesced=coalesced_share(segments),
        client_in_flight=client_in_flight,
        server_in_flight=server_in_flight,
        step_ms=max((result.report.clock_step_ms for result in segments), default=None),
    )


def _whole(count: float | None) -> int | None:
    return None if count is None else round(count)


def _in_flight(
    segments: Sequence[SegmentResult], engine_windows: Sequence[EngineWindow]
) -> tuple[float | None, float | None]:
    """Of the saturated window, where the number is held: ours and the engine's."""
    for result, window in zip(segments, engine_windows, strict=True):
        if isinstance(result.segment, ClosedLoopSegment):
            return mean_in_flight(result), window.in_flight_mean
    return None, None


def _gap_ms(result: SegmentResult) -> float | None:
    start_s = result.segment.warmup_s
    return token_gap_mean_ms(result.records, start_s, start_s + result.segment.window_s)


def _send_lags_s(result: SegmentResult) -> FloatArray:
    """Engine seconds from due to sent, of the requests measured in an open loop."""
    segment, records = result.segment, result.records
    if not isinstance(segment, OpenLoopSegment):
        return np.empty(0, dtype=np.float64)
    end_s = segment.window_end_s
    chosen = records.sent & (records.due_s >= segment.warmup_s) & (records.due_s < end_s)
    return np.asarray((records.sent_s - records.due_s)[chosen], dtype=np.float64)


def _wall_ms(engine_s: FloatArray, share: float, time_scale: float) -> float | None:
    return quantile(engine_s, share) / time_scale * 1000 if engine_s.size else None


def _without_the_latest(lag_s: FloatArray) -> FloatArray:
    """All but one of fewer than a hundred, of twenty at least: that one is the one in a hundred.

    Of so few the 99th percentile is the largest, which a single stall decides.
    """
    few = FEWEST_TO_FORGIVE <= lag_s.size < 100
    return np.sort(lag_s)[:-1] if few else lag_s


def _sent_over_offered(segments: Sequence[SegmentResult]) -> float | None:
    """Smallest share of the window's requests that was sent within a hundredth of the window.

    One that was sent later than that is forgiven where they are twenty or more.
    """
    shares = []
    for result in segments:
        segment, records = result.segment, result.records
        if isinstance(segment, OpenLoopSegment):
            end_s = segment.window_end_s
            due = (records.due_s >= segment.warmup_s) & (records.due_s < end_s)
            in_time = due & (records.sent_s - records.due_s < segment.window_s / 100)
            late, count = due & records.sent & ~in_time, np.count_nonzero(due)
            forgiven = 1 if count >= FEWEST_TO_FORGIVE and late.any() else 0
            if due.any():
                shares.append(float((np.count_nonzero(in_time) + forgiven) / count))
    return min(shares, default=None)


def _token_counts(
    segments: Sequence[SegmentResult], engine_windows: Sequence[EngineWindow]
) -> tuple[float | None, float | None]:
    """Tokens in the windows as the client saw them and as the engine counted them."""
    client = 0.0
    server: float | None = 0.0
    for result, window in zip(segments, engine_windows, strict=True):
        start_s = result.segment.warmup_s
        end_s = start_s + result.segment.window_s
        client += float(tokens_within(result.records, start_s, end_s, 1)[0])
        counted = window.generation_tokens
        server = None if server is None or counted is None else server + counted
    return (client, server) if segments else (None, None)


def _first_token_means(
    segments: Sequence[SegmentResult], engine_windows: Sequence[EngineWindow]
) -> tuple[float | None, float | None, float]:
    """Mean TTFT (from send) of the window in which latencies are measured, ours and the engine's.

    Last, by how much requests at the window's ends may part the two.

    In saturation it would only measure the queue.
    """
    for result, window in zip(segments, engine_windows, strict=True):
        if not isinstance(result.segment, ClosedLoopSegment):
            start_s = result.segment.warmup_s
            end_s = start_s + result.segment.window_s
            first_ms = first_token_mean_ms(result.records, start_s, end_s)
            edge_ms = first_token_edge_ms(result.records, start_s, end_s)
            return first_ms, window.ttft_mean_ms, edge_ms
    return None, None, 0.0


def _unexplained_hits(
    segments: Sequence[SegmentResult], engine_windows: Sequence[EngineWindow]
) -> float | None:
    """Largest hit rate of the windows, less what preempted requests may have found of their own.

    A preempted request finds its own blocks when it comes back: that is no foreign cache.
    """
    rates = (
        _unexplained_rate(result, window)
        for result, window in zip(segments, engine_windows, strict=True)
    )
    return max((rate for rate in rates if rate is not None), default=None)


def _unexplained_rate(result: SegmentResult, window: EngineWindow) -> float | None:
    rate, asked = window.prefix_hit_rate, window.prefix_query_tokens
    if rate is not None:
        rate = max(0.0, rate - implied_hit_rate(result, asked))
    if rate is None or not window.preemptions:
        return rate
    if not asked:
        return None
    records = result.records
    longest = int((records.prompt_tokens + records.asked_tokens).max(initial=0))
    return max(0.0, rate - window.preemptions * longest / asked)
