"""The study document (DESIGN.md §9): one Pydantic model for the file and the HTTP body."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
FlagScalar = bool | int | float | str


class Strict(BaseModel):
    """Humans type these: an unknown key is a fault, and a parsed document never changes."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ModelSpec(Strict):
    """The model to serve, by hub id or local path."""

    id: str | None = None
    path: str | None = None
    revision: str | None = None
    max_model_len: Annotated[int, Field(ge=1)] | None = None


class ProcessLauncherSpec(Strict):
    """Start the engine as a process of this host."""

    type: Literal["process"] = "process"
    executable: str = "vllm"


class SimulatedEngineSpec(Strict):
    """The embedded engine: a model of vLLM on a GPU of this name. Its results are simulated."""

    kind: Literal["simulated"]
    gpu: str = "L4"
    count: Annotated[int, Field(ge=1, le=64)] = 1
    time_scale: Annotated[float, Field(ge=1, le=100)] = 1.0
    hardware_seed: int | None = None
    flags: dict[str, FlagScalar] = Field(default_factory=dict)
    env: dict[str, str] = Field(default_factory=dict)


class VllmEngineSpec(Strict):
    """A real vLLM."""

    kind: Literal["vllm"]
    launcher: ProcessLauncherSpec = ProcessLauncherSpec()
    flags: dict[str, FlagScalar] = Field(default_factory=dict)
    env: dict[str, str] = Field(default_factory=dict)


EngineSpec = Annotated[SimulatedEngineSpec | VllmEngineSpec, Field(discriminator="kind")]


class IntegerRange(Strict):
    low: Annotated[int, Field(ge=1)]
    high: Annotated[int, Field(ge=1)]


class UtilizationRange(Strict):
    low: Annotated[float, Field(gt=0, le=1)]
    high: Annotated[float, Field(gt=0, le=1)]


class BooleanChoices(Strict):
    choices: Annotated[list[bool], Field(min_length=1, max_length=2)]


class SearchSpaceSpec(Strict):
    """The four knobs of the mission; each has a default range."""

    max_num_seqs: IntegerRange = IntegerRange(low=8, high=1024)
    max_num_batched_tokens: IntegerRange = IntegerRange(low=256, high=32768)
    enable_chunked_prefill: BooleanChoices = BooleanChoices(choices=[True, False])
    gpu_memory_utilization: UtilizationRange = UtilizationRange(low=0.5, high=0.97)


class BaselineSpec(Strict):
    """Today's flags; what is absent is the engine's own default."""

    flags: dict[str, FlagScalar] = Field(default_factory=dict)


class ConstantLength(Strict):
    type: Literal["constant"]
    value: Annotated[int, Field(ge=1)]


class UniformLength(Strict):
    type: Literal["uniform"]
    low: Annotated[int, Field(ge=1)]
    high: Annotated[int, Field(ge=1)]


class LognormalLength(Strict):
    """Lognormal with this median and sigma of the logarithm, clipped to [low, high]."""

    type: Literal["lognormal"]
    median: Annotated[float, Field(ge=1)]
    sigma: Annotated[float, Field(ge=0, le=4)]
    low: Annotated[int, Field(ge=1)] = 1
    high: Annotated[int, Field(ge=1)] = 131072


LengthSpec = Annotated[ConstantLength | UniformLength | LognormalLength, Field(discriminator="type")]


class LengthsSpec(Strict):
    """Prompt and output lengths in tokens."""

    prompt_tokens: LengthSpec
    output_tokens: LengthSpec


class TraceSpec(Strict):
    """Requests from a file, or from a trace shipped with ServeTune (`builtin:azure-conv-2023`)."""

    file: str
    format: Literal["azure"] = "azure"
    scale: Positive = 1.0


class ArrivalSpec(Strict):
    """How requests arrive. Without `rate` (requests/s) the study calibrates one on the baseline."""

    process: Literal["poisson", "constant", "trace"] = "poisson"
    rate: Positive | None = None


class WorkloadSpec(Strict):
    """Exactly one of preset, trace, lengths; the preset `chat` when none is given."""

    preset: Literal["chat", "long-context-qa", "mixed"] | None = None
    trace: TraceSpec | None = None
    lengths: LengthsSpec | None = None
    arrival: ArrivalSpec = ArrivalSpec()
    warmup_s: NonNegative = 10.0
    latency_window_s: Positive = 60.0
    capacity_window_s: Positive = 30.0
    seed: int = 0


class WeightsSpec(Strict):
    ttft_p95: NonNegative = 1.0
    tpot_p95: NonNegative = 1.0
    throughput: NonNegative = 1.0
    itl_p99: NonNegative = 0.0


class SloSpec(Strict):
    """A request is good when it meets every limit given; `attainment` is the share that must."""

    ttft_ms: Positive | None = None
    tpot_ms: Positive | None = None
    e2e_ms: Positive | None = None
    attainment: Annotated[float, Field(gt=0, le=1)] = 0.95


class ObjectiveSpec(Strict):
    weights: WeightsSpec = WeightsSpec()
    latency_percentile: Literal["p50", "p90", "p95", "p99"] | None = None
    """Overrides the percentile in the names `ttft_p95` and `tpot_p95` when given."""
    preemption_penalty: NonNegative = 0.5
    slo: SloSpec | None = None
    mode: Literal["weighted", "pareto", "goodput"] = "weighted"


class BudgetSpec(Strict):
    trials: Annotated[int, Field(ge=1, le=1000)] = 20
    gpu_minutes: Positive | None = None
    deadline: datetime | None = None


class SamplerSpec(Strict):
    type: Literal["tpe", "gp", "qmc", "random", "nsga2"] = "tpe"
    seed: int = 0


class ConfirmationSpec(Strict):
    finalists: Annotated[int, Field(ge=1, le=5)] = 2
    rounds: Annotated[int, Field(ge=2, le=20)] = 3
    max_rounds: Annotated[int, Field(ge=2, le=40)] = 6


class DeadlinesSpec(Strict):
    """Seconds of engine time."""

    startup_s: Positive = 900.0
    stop_grace_s: Positive = 30.0
    stall_s: Positive = 60.0
    attempt_s: Positive = 3600.0


class LocalExecutorSpec(Strict):
    type: Literal["local"] = "local"


class StudySpec(Strict):
    """One tuning job, whole."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")] | None = None
    model: ModelSpec
    engine: EngineSpec
    search_space: SearchSpaceSpec = SearchSpaceSpec()
    baseline: BaselineSpec = BaselineSpec()
    workload: WorkloadSpec = WorkloadSpec()
    objective: ObjectiveSpec = ObjectiveSpec()
    budget: BudgetSpec = BudgetSpec()
    sampler: SamplerSpec = SamplerSpec()
    confirmation: ConfirmationSpec = ConfirmationSpec()
    deadlines: DeadlinesSpec = DeadlinesSpec()
    executor: LocalExecutorSpec = LocalExecutorSpec()
