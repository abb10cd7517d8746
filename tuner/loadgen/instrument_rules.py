"""The rules by which a measurement's instrument was not good enough; each yields its reasons."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tuner.domain.engine_window import EngineWindow
from tuner.loadgen.engine_truth import TruthCheck
from tuner.loadgen.instrument_limits import InstrumentLimits
from tuner.loadgen.load_result import SegmentResult
from tuner.loadgen.plan import ClosedLoopSegment
from tuner.loadgen.request_metrics import (
    first_token_edge_ms,
    first_token_mean_ms,
    token_gap_mean_ms,
)


@dataclass(frozen=True, slots=True)
class InstrumentFacts:
    """What is judged. Times in wall-clock milliseconds."""

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
    client_ttft_edge_ms: float
    """By how much requests at the window's ends may part it from the engine's mean."""
    server_ttft_ms: float | None
    """These two in engine time."""
    gap_ms: float | None
    """Mean gap between tokens, of the faster segment, in engine time."""
    coalesced: float | None
    client_in_flight: float | None
    server_in_flight: float | None
    step_ms: float | None


def timing_reasons(
    facts: InstrumentFacts,
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


def truth_reasons(
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


def count_reasons(facts: InstrumentFacts, limits: InstrumentLimits) -> Iterator[str]:
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


def foreign_reasons(
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
        end_s = result.segment.window_end_s
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


def clock_reasons(
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
        end_s = result.segment.window_end_s
        saturated = isinstance(result.segment, ClosedLoopSegment)
        first_ms = None if saturated else first_token_mean_ms(result.records, start_s, end_s)
        gap_ms = token_gap_mean_ms(result.records, start_s, end_s)
        edge_ms = first_token_edge_ms(result.records, start_s, end_s)
        for what, ours, theirs, scale_ms, ends_ms in (
            ("first tokens took", first_ms, window.ttft_mean_ms, ttft_p95_ms, edge_ms),
            ("tokens took", gap_ms, window.itl_mean_ms, window.itl_mean_ms, 0.0),
        ):
            if ours is None or theirs is None:
                continue
            limit_ms = max(limits.clock_error * (scale_ms or 0.0), limits.clock_error_floor_ms)
            if abs(ours - theirs) > limit_ms + ends_ms:
                yield f"{what} {ours:.0f} ms here but {theirs:.0f} ms by the engine's own clock"


def early_reasons(
    facts: InstrumentFacts, time_scale: float, ttft_p95_ms: float | None, limits: InstrumentLimits
) -> Iterator[str]:
    """Tokens that came here before the engine says it made them: one of the clocks is wrong."""
    ours, theirs = facts.client_ttft_ms, facts.server_ttft_ms
    if time_scale > 1.0 or ours is None or theirs is None:
        return
    limit_ms = max(limits.clock_error * (ttft_p95_ms or 0.0), limits.clock_error_floor_ms)
    if theirs - ours > limit_ms + facts.client_ttft_edge_ms:
        yield f"first tokens took {ours:.0f} ms here but {theirs:.0f} ms by the engine's own clock"


def segment_reasons(
    segments: Sequence[SegmentResult], engine_windows: Sequence[EngineWindow]
) -> Iterator[str]:
    for result in segments:
        if result.report.given_up is not None:
            yield f"the load was given up: {result.report.given_up}"
        if result.report.list_exhausted:
            yield f"the engine used up all {len(result.segment.requests)} requests of the list"
    if any(window.restarted for window in engine_windows):
        yield "the engine's counters fell back: it was started anew during the load"
    if any(window.cut_off for window in engine_windows):
        yield "the engine's counters could not be read before and after the window"


def step_reasons(
    facts: InstrumentFacts, time_scale: float, limits: InstrumentLimits
) -> Iterator[str]:
    step_ms = facts.step_ms or 0.0
    if step_ms * time_scale > limits.clock_step_ms:
        yield f"the host's clock was set by {step_ms:.1f} ms during the load"


def coalescing_reasons(
    facts: InstrumentFacts, time_scale: float, limits: InstrumentLimits
) -> Iterator[str]:
    """Frames that waited for the generator to read have the stamp of the last of them."""
    if time_scale > 1.0 or facts.coalesced is None or facts.gap_ms is None:
        return
    stood_still = facts.stall_ms is not None and facts.stall_ms > facts.gap_ms
    if stood_still and facts.coalesced > limits.coalesced_share:
        yield f"{facts.coalesced:.1%} of the tokens were read together with the one before"


def in_flight_reasons(facts: InstrumentFacts, limits: InstrumentLimits) -> Iterator[str]:
    """Something between us and the engine holds requests back, or somebody else sends some."""
    ours, theirs = facts.client_in_flight, facts.server_in_flight
    if ours is None or theirs is None:
        return
    if ours - theirs > max(limits.in_flight_missing * ours, limits.in_flight_floor):
        yield f"{ours:.0f} requests were in flight but only {theirs:.0f} of them at the engine"
    elif theirs - ours > max(limits.in_flight_foreign * ours, limits.in_flight_floor):
        yield f"{theirs:.0f} requests were at the engine but {ours:.0f} were ours"
