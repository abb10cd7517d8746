"""Everything measured in one attempt: immutable summaries with intervals. Missing is None."""

from __future__ import annotations

from dataclasses import dataclass, field

Percentile = str
PERCENTILES: tuple[Percentile, ...] = ("p50", "p90", "p95", "p99")


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value, the number of observations behind it and, where known, its 90% interval."""

    value: float
    n: int
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Distribution:
    """A latency distribution in milliseconds of engine time.

    `censored` counts the observations that were cut at a stated cap (a configuration which cannot
    hold the rate): the percentile is then a lower bound.
    """

    mean: Estimate
    p50: Estimate
    p90: Estimate
    p95: Estimate
    p99: Estimate
    max: Estimate
    censored: int = 0

    def percentile(self, name: Percentile) -> Estimate:
        """The estimate called `p50`, `p90`, `p95` or `p99`; KeyError for any other name."""
        if name not in PERCENTILES:
            raise KeyError(name)
        estimate: Estimate = getattr(self, name)
        return estimate


@dataclass(frozen=True, slots=True)
class RequestCounts:
    """Requests of one segment's window: scheduled in it, and what became of them."""

    scheduled: int
    completed: int
    failed: int
    unfinished: int


@dataclass(frozen=True, slots=True)
class PromptClass:
    """Latencies of the requests whose prompt has `low_tokens` to `high_tokens` tokens (inclusive).

    A distribution is None where the class has too few requests to be worth one.
    """

    name: str
    low_tokens: int
    high_tokens: int
    requests: int
    ttft_ms: Distribution | None
    tpot_ms: Distribution | None


@dataclass(frozen=True, slots=True)
class PrefixSummary:
    """The window's first requests as they stood `looked_at_s` seconds after the segment's start.

    Those due within the window's first `window_s` seconds; the same requests for every measurement
    under the same seed and rate, so that two prefixes compare. A TTFT that was not over is the
    wait so far (counted as censored); `unanswered` are the requests without a first token.
    TPOT is the mean gap between a request's frames so far.
    """

    window_s: float
    looked_at_s: float
    requests: int
    unanswered: int
    ttft_ms: Distribution | None
    tpot_ms: Distribution | None


@dataclass(frozen=True, slots=True)
class LatencySegment:
    """Open loop at the study's rate, or the closed loop of so many users that it asks for.

    Of users, `offered_per_s` is how many requests a second they came to send.
    """

    window_s: float
    offered_per_s: float
    achieved_per_s: float
    requests: RequestCounts
    ttft_ms: Distribution | None
    tpot_ms: Distribution | None
    itl_ms: Distribution | None
    e2e_ms: Distribution | None
    output_tokens_per_s: Estimate | None
    slo_attainment: Estimate | None
    goodput_per_s: Estimate | None
    preemptions: int | None
    kv_usage_peak: float | None
    running_peak: float | None
    waiting_peak: float | None
    gpu_utilization: float | None = None
    gpu_memory_peak_gib: float | None = None
    gpu_power_w: float | None = None
    by_prompt_length: tuple[PromptClass, ...] = ()
    """Short to long; empty where the prompts are too alike to be told apart."""
    prefix: PrefixSummary | None = None
    """What an early abort compares; None in a closed loop, and in measurements of older
    versions."""
    concurrency: int | None = None
    """Users of a closed loop; None: an open loop, in which nobody waits for an answer."""
    think_s: float | None = None
    """Their mean pause between an answer and the next request; None: an open loop."""
    planned_window_s: float | None = None
    """How long the window was to be; None where it was that long. See `adaptive_window`."""
    steady: SteadyState | None = None
    """None in a closed loop, and in measurements of older versions."""

    @property
    def preemptions_per_request(self) -> float | None:
        """Preemptions in the window over requests scheduled in it; None when not measured."""
        if self.preemptions is None or self.requests.scheduled == 0:
            return None
        return self.preemptions / self.requests.scheduled


@dataclass(frozen=True, slots=True)
class SteadyState:
    """How steady the engine was in a window: of its token rate in saturation, of the requests in
    flight in an open loop.

    `warmup_s` of load went before the window, and `truncated_s` more of the window were left out
    because the token rate still differed. `drift` is how much the rate of the measured part's
    second half exceeds its first's, as a share; None where nothing came.
    """

    warmup_s: float
    truncated_s: float
    drift: float | None
    steady: bool
    unsettled_s: float = 0.0
    """The window's beginning that plainly differed and was kept all the same: in an open loop all
    configurations are measured over the same requests."""


@dataclass(frozen=True, slots=True)
class CapacitySegment:
    """Closed loop, saturated, in steady state.

    `window_s` is the whole window; rates are over the part of it that `steady` leaves.
    """

    window_s: float
    concurrency: int
    requests: RequestCounts
    output_tokens_per_s: Estimate | None
    requests_per_s: Estimate | None
    preemptions: int | None
    kv_usage_peak: float | None
    running_peak: float | None
    waiting_peak: float | None
    gpu_utilization: float | None = None
    gpu_memory_peak_gib: float | None = None
    gpu_power_w: float | None = None
    steady: SteadyState | None = None
    planned_window_s: float | None = None
    """How long the window was to be; None where it was that long. See `adaptive_window`."""

    @property
    def preemptions_per_request(self) -> float | None:
        """Preemptions in the window over requests finished in it; None when not measured.

        In a window too short for any request to finish, no preemption at all is 0 per request.
        """
        if self.preemptions == 0 and self.requests.unfinished > 0:
            return 0.0
        if self.preemptions is None or self.requests.completed == 0:
            return None
        return self.preemptions / self.requests.completed


@dataclass(frozen=True, slots=True)
class RateProbe:
    """One rate tried while the highest that meets the SLO was looked for.

    `rule` ended the probe: `attainment` (the sequential test), `backlog`, `errors`, or `share`: the
    test ran out of requests and the share of good ones decided, which is a guess. `log_ratio` is
    the test's, already divided by `inflation`, how much more the requests' strain varies than that
    of independent ones. `ended_s` counts engine seconds from the probe's first moment.
    """

    rate_per_s: float
    holds: bool
    rule: str
    requests: int
    good: int
    log_ratio: float
    inflation: float
    ended_s: float
    evidence: str

    @property
    def sure(self) -> bool:
        """Whether the verdict has the test's error rates."""
        return self.rule != "share"


@dataclass(frozen=True, slots=True)
class SloLimits:
    """The SLO (milliseconds; None: no limit) that a rate was looked for under."""

    ttft_ms: float | None
    tpot_ms: float | None
    e2e_ms: float | None
    attainment: float


@dataclass(frozen=True, slots=True)
class MaxRate:
    """The highest rate (requests/s) at which the SLO is met.

    `value_per_s` is where the probes narrowed it down to, for comparisons; None without any probe.
    With probability `confidence` it lies between `low_per_s`, the highest rate that surely held
    (None: none did), and `high_per_s`, the lowest that surely failed (None: none did). `probes` in
    the order in which they were run, then `confirmations`: what held is tried again with new
    requests. `engine_s` is the load they took.
    """

    value_per_s: float | None
    low_per_s: float | None
    high_per_s: float | None
    slo: SloLimits
    confidence: float
    probes: tuple[RateProbe, ...]
    engine_s: float
    ended: str
    """Why the search ended: `narrow`, or what ran out first: `probes` or `time`."""

    confirmations: tuple[RateProbe, ...] = ()
    confirmation: str | None = None
    """What came of them: `held`, `failed` (each of them), `time` (none was left), `nothing` (no
    rate had held); None: nobody asked for one."""

    @property
    def all_probes(self) -> tuple[RateProbe, ...]:
        """Those of the search and those that confirm."""
        return (*self.probes, *self.confirmations)

    @property
    def failed_per_s(self) -> float | None:
        """The lowest rate at which a probe failed, guesses included; None: none did."""
        return min((probe.rate_per_s for probe in self.all_probes if not probe.holds), default=None)

    @property
    def held_per_s(self) -> float | None:
        """The highest rate at which a probe held below that, guesses included; None: none did."""
        failed = self.failed_per_s
        held = (probe.rate_per_s for probe in self.all_probes if probe.holds)
        return max((rate for rate in held if failed is None or rate < failed), default=None)

    @property
    def confirmed_per_s(self) -> float | None:
        """The highest rate that held with requests that the search had not seen; None: none did."""
        failed = self.failed_per_s
        held = (probe.rate_per_s for probe in self.confirmations if probe.holds)
        return max((rate for rate in held if failed is None or rate < failed), default=None)

    def times_held(self, rate_per_s: float) -> int:
        """How many probes held at this very rate."""
        return sum(probe.holds for probe in self.all_probes if probe.rate_per_s == rate_per_s)

    @property
    def estimate(self) -> Estimate | None:
        """The value, the requests of all probes and the interval."""
        if self.value_per_s is None:
            return None
        requests = sum(probe.requests for probe in self.all_probes)
        return Estimate(self.value_per_s, requests, self.low_per_s, self.high_per_s)


@dataclass(frozen=True, slots=True)
class Instrument:
    """Quality of the measuring instrument, wall-clock milliseconds, and the verdict on it."""

    valid: bool
    reasons: tuple[str, ...]
    send_lag_p50_ms: float | None
    send_lag_p99_ms: float | None
    client_cpu_share: float | None
    loop_stall_max_ms: float | None
    clock: str
    client_output_tokens: int | None = None
    server_output_tokens: int | None = None
    prefix_hit_rate: float | None = None
    engine_ttft_p95_ms: float | None = None
    """TTFT p95 of the latency segment by the engine's own account of each request, in engine time.
    Only an embedded engine that runs faster than real time is asked for it."""
    ttft_p95_error: float | None = None
    """By how much ours exceeds that, as a share of it."""
    client_ttft_mean_ms: float | None = None
    server_ttft_mean_ms: float | None = None
    """Of the same window by the engine's own clock, which starts behind its HTTP server."""
    send_lag_p95_ms: float | None = None
    sent_over_offered: float | None = None
    """Share of the window's requests that left within a hundredth of the window."""
    coalesced_share: float | None = None
    """Frames that were read together with the one before them, and so have its stamp."""
    client_in_flight: float | None = None
    """Requests in flight in the saturated window, its time average by the client's records."""
    server_in_flight: float | None = None
    """Running and waiting requests of the engine in the same window."""
    clock_step_ms: float | None = None
    """By how much the host's clock was set during the load."""
    cache_salt: bool | None = None
    """Whether prompts were kept apart from those of other loads by `cache_salt`."""
    cache_reset: bool | None = None
    """Whether the engine emptied its prefix cache for this load; most refuse."""
    load_processes: int | None = None
    """How many processes sent the load; None in measurements of older versions."""


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """What the running engine itself reported; None where it did not."""

    version: str | None = None
    kv_cache_tokens: int | None = None
    max_concurrency: float | None = None
    weights_gib: float | None = None
    kv_cache_gib: float | None = None
    graph_gib: float | None = None
    startup_s: float | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    chunked_prefill: bool | None = None
    gpu_memory_utilization: float | None = None
    simulated: bool = False


@dataclass(frozen=True, slots=True)
class Measurement:
    """One attempt's measurement; scoring never changes it."""

    latency: LatencySegment
    capacity: CapacitySegment
    instrument: Instrument
    engine: EngineFacts
    workload_digest: str
    workload_seed: int
    simulated: bool
    time_scale: float = 1.0
    notes: tuple[str, ...] = field(default=())
    max_rate: MaxRate | None = None
    """Where it was looked for: in goodput mode, or when a user asked."""
