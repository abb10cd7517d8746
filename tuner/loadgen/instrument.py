"""Whether a measurement's instrument was good enough for what it measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from objectives.measurement import Instrument
from tuner.domain.engine_window import EngineWindow
from tuner.loadgen.engine_truth import TruthCheck
from tuner.loadgen.load_result import SegmentResult
from tuner.loadgen.plan import OpenLoopSegment
from tuner.loadgen.records import FloatArray
from tuner.loadgen.request_metrics import (
    first_token_mean_ms,
    token_gap_mean_ms,
    tokens_within,
)
from tuner.loadgen.statistics import quantile


@dataclass(frozen=True, slots=True)
class InstrumentLimits:
    """Beyond these a measurement is not scored. Times are engine time.

    On an engine that runs faster than real time the generator's wall-clock errors weigh that much
    more: they are multiplied by the time scale before they are compared.
    """

    send_lag_ms: float = 2.0
    send_lag_share_of_slo: float = 0.02
    """From due to sent: the larger of these two is always allowed, and beyond it, where the engine
    is slow enough for it not to matter, these shares of the measured TTFT p95. A p95 moves by 5%
    only when one request in twenty is late by that much; one in a hundred may be later."""

    send_lag_p95_share_of_ttft_p95: float = 0.05
    send_lag_p99_share_of_ttft_p95: float = 0.25

    loop_stall_ms: float = 100.0
    """Or the TTFT p95, if that is larger."""

    cpu_share: float = 0.80
    clock_step_ms: float = 0.1
    sent_over_offered: float = 0.99
    token_count_error: float = 0.05
    """Between the client's count and the engine's counter. The counter is read once a second, so
    its value at the window's ends is interpolated."""

    fewest_tokens_to_compare: int = 1000
    """The error is relative to at least this many."""

    truth_error: float = 0.05
    """Of an engine faster than real time: between the TTFT p95 measured and the one that the
    engine's own account gives for the same requests, as a share of the latter."""
    foreign_prompts: float = 2.0
    foreign_share: float = 0.10
    """By so many of our longest prompts, or this share of all it read where that is more, the
    engine may have read more than we sent: a counter between two readings is interpolated, and
    prompts make it jump."""

    clock_error: float = 0.15
    """A coarser check of every segment: between the engine's mean TTFT and ours as a share of the
    TTFT p95. A real engine's clock begins behind its HTTP server, and what that adds is no error:
    users wait for it. But nobody can see a token before the engine made it. An engine faster than
    real time must keep up with its own clock: there ours must not be longer either, nor the mean
    token gap."""

    clock_error_floor_ms: float = 5.0
    prefix_hit_rate: float = 0.02
    """Prompts are unique: a prefix cache that answers was not empty for our requests."""


LIMITS = InstrumentLimits()

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
    limits: InstrumentLimits = LIMITS,
) -> Instrument:
    """Judge the instrument over all segments of a measurement, each with the engine's report.

    `ttft_p95_ms` is what was measured, `slo_ttft_ms` what the user asked for, if anything, `truth`
    what an embedded engine knows of the latency segment.
    """
    lag_s = np.concatenate([_send_lags_s(result) for result in segments])
    health = [result.report.health for result in segments if result.report.health is not None]
    client_tokens, server_tokens = _token_counts(segments, engine_windows)
    client_ttft_ms, server_ttft_ms = _first_token_means(segments, engine_windows)
    facts = _Facts(
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
        server_ttft_ms=server_ttft_ms,
    )
    reasons = (
        *_truth_reasons(truth, time_scale, limits),
        *_timing_reasons(facts, time_scale, ttft_p95_ms, slo_ttft_ms, limits),
        *_count_reasons(facts, limits),
        *_clock_reasons(segments, engine_windows, time_scale, ttft_p95_ms, limits),
        *_early_reasons(facts, time_scale, ttft_p95_ms, limits),
        *_foreign_reasons(segments, engine_windows, limits),
        *_segment_reasons(segments, engine_windows),
        *_step_reasons(segments, time_scale, limits),
    )
    return Instrument(
        valid=not reasons,
        reasons=reasons,
        send_lag_p50_ms=facts.lag_p50_ms,
        send_lag_p99_ms=facts.lag_p99_ms,
        client_cpu_share=facts.cpu_share,
        loop_stall_max_ms=facts.stall_ms,
        clock=segments[0].report.clock,
        client_output_tokens=None if client_tokens is None else round(client_tokens),
        server_output_tokens=None if server_tokens is None else round(server_tokens),
        prefix_hit_rate=facts.prefix_hit_rate,
        engine_ttft_p95_ms=truth.engine_p95_ms if truth is not None and truth.requests else None,
        ttft_p95_error=truth.error if truth is not None and truth.requests else None,
        client_ttft_mean_ms=facts.client_ttft_ms,
        server_ttft_mean_ms=facts.server_ttft_ms,
    )


@dataclass(frozen=True, slots=True)
class _Facts:
    """Times in wall-clock milliseconds."""

    lag_p50_ms: float | None
    lag_p95_ms: float | None
    lag_p99_ms: float | None
    judged_p99_ms: float | None
    """Where the p99 would be the latest of few requests, that of the others."""
    cpu_share: float | None
    stall_ms: float | None
    sent_over_offered: float | None
    client_tokens: float | None
    server_tokens: float | None
    prefix_hit_rate: float | None
    client_ttft_ms: float | None
    server_ttft_ms: float | None
    """These two in engine time."""


def _timing_reasons(
    facts: _Facts,
    time_scale: float,
    ttft_p95_ms: float | None,
    slo_ttft_ms: float | None,
    limits: InstrumentLimits,
) -> Iterator[str]:
    ttft_ms = ttft_p95_ms or 0.0
    floor_ms = max(limits.send_lag_ms, limits.send_lag_share_of_slo * (slo_ttft_ms or 0.0))
    for name, wall_ms, allowed in (
        ("p95", facts.lag_p95_ms, limits.send_lag_p95_share_of_ttft_p95),
        ("p99", facts.judged_p99_ms, limits.send_lag_p99_share_of_ttft_p95),
    ):
        limit_ms = max(floor_ms, allowed * ttft_ms)
        if wall_ms is not None and wall_ms * time_scale > limit_ms:
            late = f"{wall_ms * time_scale:.1f} ms late ({name})"
            yield f"requests left {late}, more than {limit_ms:.1f} ms"
    stall_limit_ms = max(limits.loop_stall_ms, ttft_ms)
    if facts.stall_ms is not None and facts.stall_ms * time_scale > stall_limit_ms:
        stall_ms = facts.stall_ms * time_scale
        yield f"the generator stood still for {stall_ms:.0f} ms, more than {stall_limit_ms:.0f} ms"
    if facts.cpu_share is not None and facts.cpu_share > limits.cpu_share:
        share = f"{facts.cpu_share:.0%} of a processor"
        yield f"the generator used {share}, more than {limits.cpu_share:.0%}"


def _truth_reasons(
    truth: TruthCheck | None, time_scale: float, limits: InstrumentLimits
) -> Iterator[str]:
    if truth is None:
        return
    remedy = f"lower engine.time_scale, now {time_scale:g}"
    if not truth.enough:
        known = f"{truth.requests} of {truth.measured}"
        yield f"the engine's own account knows only {known} measured requests: {remedy}"
    elif abs(truth.error) > limits.truth_error:
        yield (
            f"TTFT p95 is {truth.client_p95_ms:.0f} ms here but {truth.engine_p95_ms:.0f} ms by "
            f"the engine's own account ({truth.error:+.1%}, more than {limits.truth_error:.0%}): "
            f"{remedy}"
        )


def _count_reasons(facts: _Facts, limits: InstrumentLimits) -> Iterator[str]:
    sent = facts.sent_over_offered
    if sent is not None and sent < limits.sent_over_offered:
        yield f"only {sent:.1%} of the requests were sent in time"
    client, server = facts.client_tokens, facts.server_tokens
    if client is not None and server is not None:
        error = abs(client - server) / max(server, limits.fewest_tokens_to_compare)
        if error > limits.token_count_error:
            yield f"{client:.0f} tokens arrived but the engine counted {server:.0f}"
    hits = facts.prefix_hit_rate
    if hits is not None and hits > limits.prefix_hit_rate:
        yield f"the prefix cache answered {hits:.1%} of unique prompts"


def _foreign_reasons(
    segments: Sequence[SegmentResult],
    engine_windows: Sequence[EngineWindow],
    limits: InstrumentLimits,
) -> Iterator[str]:
    """Somebody else's prompts: they cost the engine time although they may bring few tokens."""
    for result, window in zip(segments, engine_windows, strict=True):
        theirs = window.prompt_tokens
        if theirs is None:
            continue
        records, start_s = result.records, result.segment.warmup_s
        end_s = start_s + result.segment.window_s
        begun = (records.first_s >= start_s) & (records.first_s < end_s)  # NaN: never begun
        ours = float(records.prompt_tokens[begun].sum())
        longest = float(records.prompt_tokens.max(initial=0))
        allowed = max(
            limits.foreign_prompts * longest,
            limits.foreign_share * theirs,
            limits.fewest_tokens_to_compare,
        )
        if theirs - ours > allowed:
            yield f"the engine read {theirs:.0f} prompt tokens but {ours:.0f} were ours"


def _clock_reasons(
    segments: Sequence[SegmentResult],
    engine_windows: Sequence[EngineWindow],
    time_scale: float,
    ttft_p95_ms: float | None,
    limits: InstrumentLimits,
) -> Iterator[str]:
    if time_scale <= 1.0:
        return
    for result, window in zip(segments, engine_windows, strict=True):
        start_s = result.segment.warmup_s
        end_s = start_s + result.segment.window_s
        open_loop = isinstance(result.segment, OpenLoopSegment)
        first_ms = first_token_mean_ms(result.records, start_s, end_s) if open_loop else None
        gap_ms = token_gap_mean_ms(result.records, start_s, end_s)
        for what, ours, theirs, scale_ms in (
            ("first tokens took", first_ms, window.ttft_mean_ms, ttft_p95_ms),
            ("tokens took", gap_ms, window.itl_mean_ms, window.itl_mean_ms),
        ):
            if ours is None or theirs is None:
                continue
            limit_ms = max(limits.clock_error * (scale_ms or 0.0), limits.clock_error_floor_ms)
            if abs(ours - theirs) > limit_ms:
                yield f"{what} {ours:.0f} ms here but {theirs:.0f} ms by the engine's own clock"


def _early_reasons(
    facts: _Facts, time_scale: float, ttft_p95_ms: float | None, limits: InstrumentLimits
) -> Iterator[str]:
    """Tokens that came here before the engine says it made them: one of the clocks is wrong."""
    ours, theirs = facts.client_ttft_ms, facts.server_ttft_ms
    if time_scale > 1.0 or ours is None or theirs is None:
        return
    limit_ms = max(limits.clock_error * (ttft_p95_ms or 0.0), limits.clock_error_floor_ms)
    if theirs - ours > limit_ms:
        yield f"first tokens took {ours:.0f} ms here but {theirs:.0f} ms by the engine's own clock"


def _segment_reasons(
    segments: Sequence[SegmentResult], engine_windows: Sequence[EngineWindow]
) -> Iterator[str]:
    for result in segments:
        if result.report.given_up is not None:
            yield f"the load was given up: {result.report.given_up}"
        if result.report.list_exhausted:
            yield f"the engine used up all {len(result.segment.requests)} requests of the list"
    if any(window.restarted for window in engine_windows):
        yield "the engine's counters fell back: it was started anew during the load"


def _step_reasons(
    segments: Sequence[SegmentResult], time_scale: float, limits: InstrumentLimits
) -> Iterator[str]:
    step_ms = max((result.report.clock_step_ms for result in segments), default=0.0)
    if step_ms * time_scale > limits.clock_step_ms:
        yield f"the host's clock was set by {step_ms:.1f} ms during the load"


def _send_lags_s(result: SegmentResult) -> FloatArray:
    """Engine seconds from due to sent, of the requests measured in an open loop."""
    segment, records = result.segment, result.records
    if not isinstance(segment, OpenLoopSegment):
        return np.empty(0, dtype=np.float64)
    end_s = segment.warmup_s + segment.window_s
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
            end_s = segment.warmup_s + segment.window_s
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
) -> tuple[float | None, float | None]:
    """Mean TTFT (from send) of the first open loop's window, ours and the engine's.

    In saturation it would only measure the queue.
    """
    for result, window in zip(segments, engine_windows, strict=True):
        if isinstance(result.segment, OpenLoopSegment):
            start_s = result.segment.warmup_s
            end_s = start_s + result.segment.window_s
            return first_token_mean_ms(result.records, start_s, end_s), window.ttft_mean_ms
    return None, None


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
    if rate is None or not window.preemptions:
        return rate
    if not asked:
        return None
    records = result.records
    longest = int((records.prompt_tokens + records.asked_tokens).max(initial=0))
    return max(0.0, rate - window.preemptions * longest / asked)
