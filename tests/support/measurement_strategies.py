"""Hypothesis strategies for measurements, and one plain measurement to vary by hand."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from objectives.measurement import (
    CapacitySegment,
    Distribution,
    EngineFacts,
    Estimate,
    Instrument,
    LatencySegment,
    MaxRate,
    Measurement,
    PrefixSummary,
    PromptClass,
    RateProbe,
    RequestCounts,
    SloLimits,
    SteadyState,
)

finite = st.floats(allow_nan=False, allow_infinity=False)
positive = st.floats(min_value=1e-3, max_value=1e6)
counts = st.integers(min_value=0, max_value=10**9)


def distribution(value: float) -> Distribution:
    """Every percentile at `value` milliseconds."""
    same = Estimate(value, n=100)
    return Distribution(mean=same, p50=same, p90=same, p95=same, p99=same, max=same)


def latency_segment(
    *,
    ttft_ms: float | None = 400.0,
    tpot_ms: float | None = 40.0,
    itl_ms: float | None = 60.0,
    goodput_per_s: float | None = 4.0,
    preemptions: int | None = 0,
) -> LatencySegment:
    def spread(value: float | None) -> Distribution | None:
        return None if value is None else distribution(value)

    return LatencySegment(
        window_s=60.0,
        offered_per_s=5.0,
        achieved_per_s=5.0,
        requests=RequestCounts(scheduled=1000, completed=1000, failed=0, unfinished=0),
        ttft_ms=spread(ttft_ms),
        tpot_ms=spread(tpot_ms),
        itl_ms=spread(itl_ms),
        e2e_ms=distribution(5000.0),
        output_tokens_per_s=Estimate(500.0, 1000),
        slo_attainment=Estimate(0.9, 1000, 0.88, 0.92),
        goodput_per_s=None if goodput_per_s is None else Estimate(goodput_per_s, 1000),
        preemptions=preemptions,
        kv_usage_peak=0.5,
        running_peak=20.0,
        waiting_peak=0.0,
    )


def capacity_segment(
    *, tokens_per_s: float | None = 1000.0, preemptions: int | None = 0
) -> CapacitySegment:
    return CapacitySegment(
        window_s=30.0,
        concurrency=256,
        requests=RequestCounts(scheduled=1000, completed=1000, failed=0, unfinished=0),
        output_tokens_per_s=None if tokens_per_s is None else Estimate(tokens_per_s, 1000),
        requests_per_s=Estimate(8.0, 1000),
        preemptions=preemptions,
        kv_usage_peak=0.5,
        running_peak=128.0,
        waiting_peak=100.0,
    )


INSTRUMENT = Instrument(
    valid=True,
    reasons=(),
    send_lag_p50_ms=0.1,
    send_lag_p99_ms=1.0,
    client_cpu_share=0.2,
    loop_stall_max_ms=2.0,
    clock="monotonic",
)


def measurement(
    latency: LatencySegment | None = None,
    capacity: CapacitySegment | None = None,
    engine: EngineFacts | None = None,
) -> Measurement:
    return Measurement(
        latency=latency or latency_segment(),
        capacity=capacity or capacity_segment(),
        instrument=INSTRUMENT,
        engine=engine or EngineFacts(max_num_seqs=128, max_num_batched_tokens=2048),
        workload_digest="abc",
        workload_seed=1,
        simulated=True,
    )


def with_metrics(ttft_ms: float, tpot_ms: float, tokens_per_s: float) -> Measurement:
    """A healthy measurement with these three values."""
    return measurement(
        latency_segment(ttft_ms=ttft_ms, tpot_ms=tpot_ms),
        capacity_segment(tokens_per_s=tokens_per_s),
    )


def scaled(original: Measurement, latency: float, rate: float) -> Measurement:
    """The same measurement in other units."""
    segment, capacity = original.latency, original.capacity
    assert segment.ttft_ms is not None
    assert segment.tpot_ms is not None
    assert capacity.output_tokens_per_s is not None
    return replace(
        original,
        latency=replace(
            segment,
            ttft_ms=distribution(segment.ttft_ms.p95.value * latency),
            tpot_ms=distribution(segment.tpot_ms.p95.value * latency),
        ),
        capacity=replace(
            capacity,
            output_tokens_per_s=Estimate(capacity.output_tokens_per_s.value * rate, 1),
        ),
    )


estimates = st.builds(
    Estimate, value=finite, n=counts, low=st.none() | finite, high=st.none() | finite
)
distributions = st.builds(
    Distribution,
    mean=estimates,
    p50=estimates,
    p90=estimates,
    p95=estimates,
    p99=estimates,
    max=estimates,
    censored=counts,
)
request_counts = st.builds(
    RequestCounts, scheduled=counts, completed=counts, failed=counts, unfinished=counts
)
_maybe_estimate = st.none() | estimates
_maybe_distribution = st.none() | distributions
_maybe_count = st.none() | counts
_maybe_float = st.none() | finite

prompt_classes = st.builds(
    PromptClass,
    name=st.text(),
    low_tokens=counts,
    high_tokens=counts,
    requests=counts,
    ttft_ms=_maybe_distribution,
    tpot_ms=_maybe_distribution,
)
prefixes = st.builds(
    PrefixSummary,
    window_s=finite,
    looked_at_s=finite,
    requests=counts,
    unanswered=counts,
    ttft_ms=_maybe_distribution,
    tpot_ms=_maybe_distribution,
)
latency_segments = st.builds(
    LatencySegment,
    window_s=finite,
    offered_per_s=finite,
    achieved_per_s=finite,
    requests=request_counts,
    ttft_ms=_maybe_distribution,
    tpot_ms=_maybe_distribution,
    itl_ms=_maybe_distribution,
    e2e_ms=_maybe_distribution,
    output_tokens_per_s=_maybe_estimate,
    slo_attainment=_maybe_estimate,
    goodput_per_s=_maybe_estimate,
    preemptions=_maybe_count,
    kv_usage_peak=_maybe_float,
    running_peak=_maybe_float,
    waiting_peak=_maybe_float,
    gpu_utilization=_maybe_float,
    gpu_memory_peak_gib=_maybe_float,
    gpu_power_w=_maybe_float,
    by_prompt_length=st.lists(prompt_classes, max_size=2).map(tuple),
    prefix=st.none() | prefixes,
    concurrency=_maybe_count,
    think_s=_maybe_float,
)
capacity_segments = st.builds(
    CapacitySegment,
    window_s=finite,
    concurrency=counts,
    requests=request_counts,
    output_tokens_per_s=_maybe_estimate,
    requests_per_s=_maybe_estimate,
    preemptions=_maybe_count,
    kv_usage_peak=_maybe_float,
    running_peak=_maybe_float,
    waiting_peak=_maybe_float,
    gpu_utilization=_maybe_float,
    gpu_memory_peak_gib=_maybe_float,
    gpu_power_w=_maybe_float,
    steady=st.none()
    | st.builds(
        SteadyState,
        warmup_s=finite,
        truncated_s=finite,
        drift=_maybe_float,
        steady=st.booleans(),
    ),
)
engine_facts = st.builds(
    EngineFacts,
    version=st.none() | st.text(),
    kv_cache_tokens=_maybe_count,
    max_concurrency=_maybe_float,
    weights_gib=_maybe_float,
    chunked_prefill=st.none() | st.booleans(),
    gpu_memory_utilization=_maybe_float,
    simulated=st.booleans(),
)
rate_probes = st.builds(
    RateProbe,
    rate_per_s=finite,
    holds=st.booleans(),
    rule=st.text(),
    requests=counts,
    good=counts,
    log_ratio=finite,
    inflation=finite,
    ended_s=finite,
    evidence=st.text(),
)
max_rates = st.builds(
    MaxRate,
    value_per_s=_maybe_float,
    low_per_s=_maybe_float,
    high_per_s=_maybe_float,
    slo=st.builds(
        SloLimits,
        ttft_ms=_maybe_float,
        tpot_ms=_maybe_float,
        e2e_ms=_maybe_float,
        attainment=finite,
    ),
    confidence=finite,
    probes=st.lists(rate_probes, max_size=2).map(tuple),
    engine_s=finite,
    ended=st.text(),
    confirmations=st.lists(rate_probes, max_size=2).map(tuple),
    confirmation=st.none() | st.text(),
)
measurements = st.builds(
    Measurement,
    latency=latency_segments,
    capacity=capacity_segments,
    instrument=st.builds(
        Instrument,
        valid=st.booleans(),
        reasons=st.lists(st.text(), max_size=3).map(tuple),
        send_lag_p50_ms=_maybe_float,
        send_lag_p99_ms=_maybe_float,
        client_cpu_share=_maybe_float,
        loop_stall_max_ms=_maybe_float,
        clock=st.text(),
        load_processes=_maybe_count,
        client_output_tokens=_maybe_count,
        server_output_tokens=_maybe_count,
        prefix_hit_rate=_maybe_float,
        coalesced_share=_maybe_float,
        client_in_flight=_maybe_float,
        server_in_flight=_maybe_float,
        cache_salt=st.none() | st.booleans(),
        cache_reset=st.none() | st.booleans(),
    ),
    engine=engine_facts,
    workload_digest=st.text(),
    workload_seed=st.integers(),
    simulated=st.booleans(),
    time_scale=finite,
    notes=st.lists(st.text(), max_size=3).map(tuple),
    max_rate=st.none() | max_rates,
)
