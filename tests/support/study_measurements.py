"""Measurements for tests: one plausible server, every quantity adjustable by a factor."""

from __future__ import annotations

from objectives.measurement import (
    CapacitySegment,
    Distribution,
    EngineFacts,
    Estimate,
    Instrument,
    LatencySegment,
    Measurement,
    RequestCounts,
)


def distribution(p95: float) -> Distribution:
    return Distribution(
        mean=Estimate(0.5 * p95, 300),
        p50=Estimate(0.5 * p95, 300),
        p90=Estimate(0.9 * p95, 300),
        p95=Estimate(p95, 300),
        p99=Estimate(1.3 * p95, 300),
        max=Estimate(2.0 * p95, 300),
    )


def measurement(
    *,
    ttft_ms: float = 400.0,
    tpot_ms: float = 40.0,
    tokens_per_s: float = 1000.0,
    preemptions: int | None = 0,
    valid: bool = True,
    seed: int = 0,
) -> Measurement:
    return Measurement(
        latency=LatencySegment(
            window_s=60.0,
            offered_per_s=5.0,
            achieved_per_s=5.0,
            requests=RequestCounts(scheduled=300, completed=300, failed=0, unfinished=0),
            ttft_ms=distribution(ttft_ms),
            tpot_ms=distribution(tpot_ms),
            itl_ms=distribution(tpot_ms),
            e2e_ms=distribution(100 * tpot_ms),
            output_tokens_per_s=Estimate(800.0, 300),
            slo_attainment=None,
            goodput_per_s=None,
            preemptions=preemptions,
            kv_usage_peak=0.6,
            running_peak=20.0,
            waiting_peak=2.0,
        ),
        capacity=CapacitySegment(
            window_s=30.0,
            concurrency=64,
            requests=RequestCounts(scheduled=200, completed=200, failed=0, unfinished=64),
            output_tokens_per_s=Estimate(tokens_per_s, 200),
            requests_per_s=Estimate(6.0, 200),
            preemptions=preemptions,
            kv_usage_peak=0.9,
            running_peak=64.0,
            waiting_peak=10.0,
        ),
        instrument=Instrument(
            valid=valid,
            reasons=() if valid else ("send lag 12 ms",),
            send_lag_p50_ms=0.1,
            send_lag_p99_ms=0.5,
            client_cpu_share=0.2,
            loop_stall_max_ms=1.0,
            clock="monotonic",
        ),
        engine=EngineFacts(version="0.33.0", kv_cache_tokens=40_000, simulated=True),
        workload_digest="0123456789abcdef",
        workload_seed=seed,
        simulated=True,
    )
