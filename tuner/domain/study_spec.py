"""The study document (DESIGN.md §9): one Pydantic model for the file and the HTTP body.

The strings below the fields are what editors and docs/study-document.md show.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

Positive = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
TokenCount = Annotated[int, Field(ge=1, le=16_777_216)]
Seed = Annotated[int, Field(ge=0, le=4_294_967_295)]
FlagScalar = bool | int | float | str
Flags = dict[str, FlagScalar]
Environment = dict[str, str]


class Strict(BaseModel):
    """Humans type these: an unknown key is a fault, and a parsed document never changes."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True
    )


class ModelSpec(Strict):
    """The model to serve: exactly one of `id` and `path`."""

    id: Annotated[str, Field(min_length=1, max_length=300)] | None = None
    """Name on the model hub, `owner/name`."""
    path: Annotated[str, Field(min_length=1, max_length=4096)] | None = None
    """Directory with the model's config.json, relative to the study file. Not over HTTP."""
    revision: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """Branch, tag or commit on the hub; the hub's default when absent."""
    max_model_len: TokenCount | None = None
    """Longest prompt plus output, tokens; the model's own limit when absent."""


class ProcessLauncherSpec(Strict):
    """Start the engine as a process of this host."""

    type: Literal["process"] = "process"
    """How the engine is started."""
    executable: Annotated[str, Field(min_length=1, max_length=4096)] = "vllm"
    """vLLM's command: a name on the PATH, or a path relative to the study file. Not over HTTP."""


Command = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=4096)]], Field(min_length=1, max_length=200)
]
HostPath = Annotated[str, Field(min_length=1, max_length=4096)]


class DockerLauncherSpec(Strict):
    """Start the engine as a container, by the Docker API that DOCKER_HOST or the host names."""

    type: Literal["docker"]
    """`docker`: a container of our own, labelled, and removed afterwards."""
    image: Annotated[str, Field(min_length=1, max_length=500)]
    """Image with vLLM by tag or, better, digest; pulled when it is not there. Not over HTTP."""
    executable: Annotated[str, Field(min_length=1, max_length=4096)] = "vllm"
    """vLLM's command in the image."""
    entrypoint: Literal["auto", "keep", "replace"] = "auto"
    """What becomes of the image's own entrypoint: by what is known of images, kept (it runs its
    arguments), or replaced by the command."""
    gpus: list[Annotated[str, Field(min_length=1, max_length=100)]] | None = None
    """GPUs by index, UUID or MIG name, as text; `[]` for none. Those that an engine on this host
    would use when absent."""
    network: Literal["host", "bridge"] = "host"
    """The host's network, or one of its own with the port published on 127.0.0.1 (through a proxy
    that is measured too)."""
    ipc: Literal["private", "host"] = "private"
    """Shared memory of its own, which goes with the container, or the host's (--ipc=host)."""
    shm_gib: Positive = 16.0
    """Shared memory of its own at most, GiB; taken only as far as it is used."""
    memory_gib: Positive | None = None
    """Host memory that the container may use, GiB; no limit when absent."""
    caches: bool = True
    """Whether HF_HOME and VLLM_CACHE_ROOT of the host (models, compiled kernels) are mounted."""
    mounts: list[HostPath] = Field(default_factory=list)
    """More of the host, as `SOURCE:TARGET` or `SOURCE:TARGET:ro`."""


class ProxySpec(Strict):
    """An HTTP proxy on the way to an endpoint; what it adds is measured too."""

    url: Annotated[str, Field(min_length=1, max_length=300)]
    """Where it answers: `http://HOST:PORT`, without credentials."""
    credentials_env: Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]{0,99}$")] | None = None
    """Environment variable of the worker that holds `USER:PASSWORD`; none are sent when absent."""


class AttachedLauncherSpec(Strict):
    """An endpoint that is not ours to start: a command of its owner restarts it with new flags."""

    type: Literal["attached"]
    """`attached`: for a systemd unit, a rollout, or a script that manages the server."""
    url: Annotated[str, Field(min_length=1, max_length=300)]
    """Where it answers: `http://HOST:PORT` or `https://HOST:PORT`."""
    restart_command: Command
    """Words of the command, no shell. The flags replace the word `{flags}`, or are appended."""
    stop_command: Command | None = None
    """Run after each attempt, and when ServeTune dies; without it the endpoint goes on running."""
    status_command: Command | None = None
    """Ends with 0 while the server runs; without it a crash is only seen by its silence."""
    flags_file: HostPath | None = None
    """Written before each restart instead of passing flags to the command: one line,
    `ENGINE_FLAGS="…"`, for systemd's EnvironmentFile."""
    log_file: HostPath | None = None
    """Where the server logs; what it gains is read for diagnosis, and for whether the flags were
    applied."""
    proxy: ProxySpec | None = None
    """Through which it is reached; straight when absent, whatever `HTTP_PROXY` says."""


def _process_when_untold(data: Any) -> Any:
    """`launcher: {executable: …}` has always meant a process."""
    return {"type": "process", **data} if isinstance(data, dict) and "type" not in data else data


LauncherSpec = Annotated[
    ProcessLauncherSpec | DockerLauncherSpec | AttachedLauncherSpec,
    Field(discriminator="type"),
    BeforeValidator(_process_when_untold),
]


class SimulatedEngineSpec(Strict):
    """The embedded engine: a model of vLLM on a GPU of this name. Its results are simulated."""

    kind: Literal["simulated"]
    """`simulated`: no GPU is used and every result says so."""
    gpu: str = "L4"
    """The GPU that is modelled."""
    count: Annotated[int, Field(ge=1, le=64)] = 1
    """How many of them the engine spans."""
    time_scale: Annotated[float, Field(ge=1, le=100, allow_inf_nan=False)] = 1.0
    """Seconds of engine time per second of wall time."""
    hardware_seed: Seed | None = None
    """Draws hidden deviations from the nominal hardware; none when absent."""
    flags: Flags = Field(default_factory=dict)
    """Fixed flags of the engine, vLLM's long names without dashes."""
    env: Environment = Field(default_factory=dict)
    """Environment variables of the engine, allow-listed names. Not over HTTP."""


class VllmEngineSpec(Strict):
    """A real vLLM."""

    kind: Literal["vllm"]
    """`vllm`: a real engine on this host's GPUs."""
    launcher: LauncherSpec = ProcessLauncherSpec()
    """How it is started and stopped. Not over HTTP."""
    gpu: str | None = None
    """The GPU's name, so that memory and speed can be forecast; without it nothing is."""
    flags: Flags = Field(default_factory=dict)
    """Fixed flags of the engine, vLLM's long names without dashes."""
    env: Environment = Field(default_factory=dict)
    """Environment variables of the engine, allow-listed names. Not over HTTP."""


EngineSpec = Annotated[SimulatedEngineSpec | VllmEngineSpec, Field(discriminator="kind")]


class IntegerRange(Strict):
    """Whole numbers from `low` to `high`; equal ends fix the value."""

    low: TokenCount
    """Smallest value that may be tried."""
    high: TokenCount
    """Largest value that may be tried."""


class UtilizationRange(Strict):
    """Shares of the GPU's memory from `low` to `high`; equal ends fix the value."""

    low: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
    """Smallest share that may be tried, above 0."""
    high: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
    """Largest share that may be tried, at most 1."""


ByteCount = Annotated[int, Field(ge=1 << 20, le=1 << 45)]


class ByteRange(Strict):
    """Sizes in bytes from `low` to `high`, at least one mebibyte; equal ends fix the size."""

    low: ByteCount
    """Smallest size that may be tried."""
    high: ByteCount
    """Largest size that may be tried."""


class BooleanChoices(Strict):
    """Which of true and false may be tried; one of them fixes the value."""

    choices: Annotated[list[bool], Field(min_length=1, max_length=2)]
    """`[true, false]`, `[true]` or `[false]`."""


class SearchSpaceSpec(Strict):
    """What is tuned: the four knobs, each with a default range."""

    max_num_seqs: IntegerRange = IntegerRange(low=8, high=1024)
    """Most requests in one engine step."""
    max_num_batched_tokens: IntegerRange = IntegerRange(low=256, high=32768)
    """Most tokens in one engine step."""
    enable_chunked_prefill: BooleanChoices = BooleanChoices(choices=[True, False])
    """Whether a prompt may be processed over several steps."""
    gpu_memory_utilization: UtilizationRange = UtilizationRange(low=0.5, high=0.97)
    """Share of the GPU's memory that the engine may use."""
    kv_cache_memory_bytes: ByteRange | None = None
    """The KV cache's size (vLLM 0.10.2 and newer), searched in place of `gpu_memory_utilization`:
    exact where shares of memory drift, as on a CPU's node or a GPU that others use too."""


class BaselineSpec(Strict):
    """What runs today, and what a recommendation must beat."""

    flags: Flags = Field(default_factory=dict)
    """Today's flags beside the engine's fixed ones; an absent flag is the engine's own default."""


class ConstantLength(Strict):
    """The same length for every request."""

    type: Literal["constant"]
    """`constant`: always `value`."""
    value: TokenCount
    """Length in tokens."""


class UniformLength(Strict):
    """Every whole number from `low` to `high` is equally likely."""

    type: Literal["uniform"]
    """`uniform`: between `low` and `high`."""
    low: TokenCount
    """Shortest length, tokens."""
    high: TokenCount
    """Longest length, tokens."""


class LognormalLength(Strict):
    """Lognormal with this median and sigma of the logarithm, clipped to [low, high]."""

    type: Literal["lognormal"]
    """`lognormal`: many short ones, few long ones."""
    median: Annotated[float, Field(ge=1, le=16_777_216, allow_inf_nan=False)]
    """Median length, tokens."""
    sigma: Annotated[float, Field(ge=0, le=4, allow_inf_nan=False)]
    """Standard deviation of the natural logarithm."""
    low: TokenCount = 1
    """Shorter lengths are raised to this, tokens."""
    high: TokenCount = 131072
    """Longer lengths are cut to this, tokens."""


LengthSpec = Annotated[
    ConstantLength | UniformLength | LognormalLength, Field(discriminator="type")
]


class LengthsSpec(Strict):
    """Prompt and output lengths in tokens."""

    prompt_tokens: LengthSpec
    """Tokens of a request's prompt."""
    output_tokens: LengthSpec
    """Tokens that a request generates, exactly."""


TraceFormat = Literal[
    "auto", "azure", "burstgpt", "mooncake", "sharegpt", "servegen", "vidur", "jsonl"
]


class TraceSpec(Strict):
    """Recorded requests; docs/workloads.md describes the formats."""

    file: Annotated[str, Field(min_length=1, max_length=4096)]
    """Path relative to the study file, or `builtin:NAME` for a trace shipped with ServeTune."""
    format: TraceFormat = "auto"
    """Form of the file; `auto` tells it by its beginning."""
    scale: Positive | None = None
    """With `arrival.process: trace` and no rate: replay at the recorded rate times this; 2 is an
    hour in half an hour. The rate is calibrated when absent."""
    keep: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = 1.0
    """Share of the requests that is kept, drawn at random; of conversations, whole ones."""
    turn_pause_s: NonNegative = 10.0
    """Mean time from one turn of a conversation to the next, where `arrival.process` is not
    `trace`; no turn is sent before the one before it has ended."""


class _Arrival(Strict):
    rate: Positive | None = None
    """Requests per second, on average; calibrated on the baseline when absent."""


class PoissonArrivalSpec(_Arrival):
    """Many users who know nothing of each other: random gaps."""

    process: Literal["poisson"] = "poisson"
    """`poisson`: random gaps, whose coefficient of variation is 1."""


class ConstantArrivalSpec(_Arrival):
    """Equal gaps."""

    process: Literal["constant"]
    """`constant`: equal gaps."""


class GammaArrivalSpec(_Arrival):
    """Bursts: gaps of a gamma distribution."""

    process: Literal["gamma"]
    """`gamma`: gaps that vary as much as `cv` says."""
    cv: Annotated[float, Field(gt=0, le=30, allow_inf_nan=False)]
    """Coefficient of variation of the gaps: 1 is Poisson, 3 bursty; vLLM's `--burstiness` is
    1/cv²."""


class RampArrivalSpec(_Arrival):
    """A rate that rises steadily from warm-up to the end of the segment; random gaps."""

    process: Literal["ramp"]
    """`ramp`: a Poisson process whose rate rises; its mean over the segment is the rate."""
    start: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 0.5
    """Rate at the beginning over the mean rate; at the end it is as much above the mean."""


class TraceArrivalSpec(_Arrival):
    """Gaps as recorded, stretched to the rate."""

    process: Literal["trace"]
    """`trace`: recorded gaps and order, so that bursts stay bursts."""


class ClosedLoopArrivalSpec(Strict):
    """So many users, each of whom sends the next request after the answer to the last one."""

    process: Literal["closed_loop"]
    """`closed_loop`: no rate is chosen; how often requests come is the engine's doing."""
    concurrency: Annotated[int, Field(ge=1, le=4096)]
    """Users, each with at most one request in flight."""
    think_s: NonNegative = 0.0
    """Mean time from an answer's end to the user's next request, seconds; exponential. It is the
    pause between turns of a conversation too."""


def _poisson_when_untold(data: Any) -> Any:
    if isinstance(data, dict) and "process" not in data:
        return {"process": "poisson", **data}
    return data


RateArrivalSpec = (
    PoissonArrivalSpec | ConstantArrivalSpec | GammaArrivalSpec | RampArrivalSpec | TraceArrivalSpec
)
"""Requests come when they are due, whatever the engine does."""

ArrivalSpec = Annotated[
    PoissonArrivalSpec
    | ConstantArrivalSpec
    | GammaArrivalSpec
    | RampArrivalSpec
    | TraceArrivalSpec
    | ClosedLoopArrivalSpec,
    Field(discriminator="process"),
    BeforeValidator(_poisson_when_untold),
]


class AdaptiveWindowSpec(Strict):
    """Closes a searched trial's windows once its intervals are narrow enough."""

    enabled: bool = False
    """Whether windows may close early. The baseline's and those of a confirmation never do."""
    relative_half_width: Annotated[float, Field(gt=0, le=0.5, allow_inf_nan=False)] = 0.05
    """Half of a 90% interval over its value, of every quantity that the objective weighs, at which
    the window closes."""
    shortest_share: Annotated[float, Field(ge=0.4, le=0.9, allow_inf_nan=False)] = 0.5
    """Share of the window before which it does not close."""


class WorkloadSpec(Strict):
    """The load: at most one of `preset`, `trace` and `lengths`; `chat` when none is given."""

    preset: Literal["chat", "long-context-qa", "mixed"] | None = None
    """A load shipped with ServeTune; `chat` when no load is given."""
    trace: TraceSpec | None = None
    """Requests recorded in a file."""
    lengths: LengthsSpec | None = None
    """Requests with lengths drawn from distributions."""
    arrival: ArrivalSpec = PoissonArrivalSpec()
    """How requests arrive in the latency segment."""
    warmup_s: NonNegative = 10.0
    """Load before each measured window, seconds of engine time."""
    latency_window_s: Positive = 60.0
    """Measured window at the calibrated rate, seconds of engine time."""
    capacity_window_s: Positive = 30.0
    """Measured window at saturation, seconds of engine time."""
    adaptive_window: AdaptiveWindowSpec = AdaptiveWindowSpec()
    """When the two windows may close before that."""
    seed: Seed = 0
    """Draws lengths, arrivals and prompts; the same for every trial."""
    load_processes: Annotated[int, Field(ge=1, le=64)] | None = None
    """Processes that send the load, at most; as many as it needs by `servetune selftest`, else one,
    when absent."""

    @model_validator(mode="before")
    @classmethod
    def _chat_when_nothing_is_given(cls, data: Any) -> Any:
        """One way to say it, so that equal documents have equal digests."""
        if not isinstance(data, dict):
            return data
        given = (data.get(key) is not None for key in ("preset", "trace", "lengths"))
        return data if any(given) else {**data, "preset": "chat"}


class WeightsSpec(Strict):
    """Importance of each metric, normalised to sum 1; 0 leaves it out."""

    ttft_p95: NonNegative = 1.0
    """Time to first token."""
    tpot_p95: NonNegative = 1.0
    """Time per output token after the first."""
    throughput: NonNegative = 1.0
    """Output tokens per second at saturation."""
    itl_p99: NonNegative = 0.0
    """Gap between two output tokens, 99th percentile."""


class SloSpec(Strict):
    """A request is good when it meets every limit given; at least one must be given."""

    ttft_ms: Positive | None = None
    """Longest time to first token, milliseconds."""
    tpot_ms: Positive | None = None
    """Longest mean time per output token after the first, milliseconds."""
    e2e_ms: Positive | None = None
    """Longest time to the last token, milliseconds."""
    attainment: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = 0.95
    """Share of requests that must be good."""


class ObjectiveSpec(Strict):
    """What better means."""

    weights: WeightsSpec = WeightsSpec()
    """Importance of each metric."""
    latency_percentile: Literal["p50", "p90", "p95", "p99"] | None = None
    """Overrides the percentile in the names `ttft_p95` and `tpot_p95` when given."""
    preemption_penalty: NonNegative = 0.5
    """Weight of preemptions per request against the score; 0 switches it off."""
    slo: SloSpec | None = None
    """Limits that a request must meet to be good."""
    mode: Literal["weighted", "pareto", "goodput"] = "weighted"
    """One weighted score, a front of trade-offs, or the highest rate that meets the SLO."""


def _from_iso_text(value: object) -> object:
    """Python's datetime from ISO 8601 text; anything else is left to Pydantic's message."""
    if not isinstance(value, str):
        return value
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        raise ValueError("expected a date and time such as 2030-01-31T18:00:00Z") from None


class BudgetSpec(Strict):
    """When the search ends: at whichever comes first."""

    trials: Annotated[int, Field(ge=1, le=1000)] = 20
    """Configurations that are launched and measured, besides the baseline."""
    gpu_minutes: Positive | None = None
    """Minutes of engine time on GPUs; no limit when absent."""
    deadline: Annotated[AwareDatetime, BeforeValidator(_from_iso_text)] | None = None
    """Date and time with time zone after which no trial starts."""
    early_abort: bool = True
    """Cut load tests short that cannot come near the best configuration any more; not in Pareto
    mode."""


class SamplerSpec(Strict):
    """Who proposes configurations."""

    type: Literal["tpe", "gp", "qmc", "random", "nsga2"] = "tpe"
    """Optuna's sampler."""
    seed: Seed = 0
    """Makes the proposals repeatable."""


class FirstPointsSpec(Strict):
    """What is tried before the sampler has anything to go by; each can be switched off."""

    preset: bool = True
    """The practitioners' recommendation for this kind of load."""
    engine_model: bool = True
    """The best of a few hundred configurations by the model of the engine, where the language
    model's geometry and the GPU are known. Dropped when measurements contradict it."""
    space_filling: bool = True
    """One configuration far from all others."""


class StoppingSpec(Strict):
    """Ends the search before its budget is spent when no further gain is to be expected."""

    enabled: bool = True
    """Whether the search may end before its budget; never in Pareto mode."""
    min_trials: Annotated[int, Field(ge=3, le=1000)] = 12
    """Scored trials before which it does not; three fifths of `budget.trials` where those are
    fewer."""
    patience: Annotated[int, Field(ge=2, le=1000)] = 6
    """Trials in a row without a gain after which it does."""
    min_gain_percent: Annotated[float, Field(gt=0, le=100, allow_inf_nan=False)] = 1.0
    """Gain in the score that is worth a trial; at least the noise seen on the baseline."""


class ConfirmationSpec(Strict):
    """The last measurements, on fresh starts; not counted in `budget.trials`."""

    finalists: Annotated[int, Field(ge=1, le=5)] = 2
    """Configurations measured again beside the baseline."""
    rounds: Annotated[int, Field(ge=2, le=20)] = 3
    """Rounds in which each is measured once."""
    max_rounds: Annotated[int, Field(ge=2, le=40)] = 14
    """Rounds at most, while the interval straddles the decision and may still come to one."""


class DeadlinesSpec(Strict):
    """Seconds of engine time after which an attempt is given up."""

    startup_s: Positive = 900.0
    """Until the engine is ready, seconds."""
    stop_grace_s: Positive = 30.0
    """Between asking the engine to stop and killing it, seconds."""
    stall_s: Positive = 60.0
    """Without a single token while requests wait, seconds."""
    attempt_s: Positive = 3600.0
    """The whole attempt, seconds."""


class LocalExecutorSpec(Strict):
    """Attempts run on the worker's own host."""

    type: Literal["local"] = "local"
    """Where attempts run."""


class StudySpec(Strict):
    """One tuning job, whole."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")] | None = None
    """Letters, digits, `.`, `_` and `-`; the file's name when absent."""
    model: ModelSpec
    """The model to serve."""
    engine: EngineSpec
    """The engine that serves it."""
    search_space: SearchSpaceSpec = SearchSpaceSpec()
    """What is tuned."""
    baseline: BaselineSpec = BaselineSpec()
    """What runs today."""
    workload: WorkloadSpec = WorkloadSpec()
    """The load."""
    objective: ObjectiveSpec = ObjectiveSpec()
    """What better means."""
    budget: BudgetSpec = BudgetSpec()
    """When the search ends."""
    sampler: SamplerSpec = SamplerSpec()
    """Who proposes configurations."""
    first_points: FirstPointsSpec = FirstPointsSpec()
    """What is tried before the sampler has anything to go by."""
    stopping: StoppingSpec = StoppingSpec()
    """When the search ends before its budget is spent."""
    confirmation: ConfirmationSpec = ConfirmationSpec()
    """The last measurements."""
    deadlines: DeadlinesSpec = DeadlinesSpec()
    """When an attempt is given up."""
    executor: LocalExecutorSpec = LocalExecutorSpec()
    """Where attempts run."""
