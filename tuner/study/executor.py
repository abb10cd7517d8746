"""Where an attempt runs: what goes in, what comes back, and what is reported meanwhile."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from objectives.measurement import EngineFacts, Measurement
from objectives.slo import Slo
from tuner.domain.cancellation import Cancellation
from tuner.domain.diagnosis import Diagnosis
from tuner.domain.engine_config import LaunchCommand
from tuner.domain.states import AttemptOutcome, TrialState
from tuner.domain.study_spec import DeadlinesSpec, EngineSpec, WorkloadSpec
from tuner.engine.launcher import ProcessIdentity
from tuner.loadgen.closing import AdaptiveWindow
from tuner.study.calibration import LoadCalibration
from tuner.study.early_abort import Abort, Bar, RateBar


@dataclass(frozen=True, slots=True)
class AttemptRequest:
    """One attempt as data: nothing here depends on the process which asks for it.

    Without `calibration` the attempt calibrates the load on its own engine before it measures.
    `workload_seed` decides lengths, arrivals and prompts; equal seeds give equal requests.
    """

    command: LaunchCommand
    engine: EngineSpec
    gpu_count: int
    workload: WorkloadSpec
    base_dir: Path
    workload_seed: int
    max_model_len: int
    vocabulary_size: int
    most_sequences: int
    """The largest max_num_seqs the study may run: what its capacity segment has to saturate."""
    max_num_seqs: int
    """Of this configuration, the engine's defaults filled in."""
    calibration: LoadCalibration | None
    slo: Slo | None
    deadlines: DeadlinesSpec
    directory: Path
    salt: int
    burst: bool = False
    """Whether a worst-case burst follows the measurement: does what starts also survive?"""
    bar: Bar | None = None
    """What the load test is cut short against when it is hopeless; None: it is run to its end."""
    rate_bar: RateBar | None = None
    """The same where the highest rate is looked for."""
    adaptive: AdaptiveWindow | None = None
    """When the measurement's windows may close before their time; None: never."""
    find_max_rate: bool = False
    """Whether the highest rate that meets `slo` is looked for after the measurement."""
    confirm_max_rate: bool = False
    """Whether the rate that was found is tried again with new requests."""
    rate_to_beat_per_s: float | None = None
    """Another configuration's highest rate: whether this one beats it is looked at first, and less
    closely at the rest."""
    labels: tuple[tuple[str, str], ...] = ()
    """Names of study, trial and attempt, for whoever looks at what runs on the host."""


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """How an attempt ended. `reason` is for people; the diagnosis is the evidence.

    `weakness` says how the engine suffered in the burst although it was measured before.
    """

    outcome: AttemptOutcome
    reason: str
    duration_s: float
    measurement: Measurement | None = None
    diagnosis: Diagnosis | None = None
    calibration: LoadCalibration | None = None
    weakness: str | None = None
    abort: Abort | None = None
    """Why the load test was cut short, for the outcome `pruned`."""


@dataclass(frozen=True, slots=True)
class EngineMoment:
    """What the engine last told of itself; None is what it does not tell.

    `preemptions`, `ttft_sum_s` and `ttft_count` count from the engine's start.
    """

    monotonic_s: float
    running: float | None = None
    waiting: float | None = None
    kv_usage: float | None = None
    preemptions: float | None = None
    ttft_sum_s: float | None = None
    ttft_count: float | None = None


@dataclass(frozen=True, slots=True)
class LoadStatus:
    """Ephemeral progress of the running load: never part of a study's history."""

    segment: str
    elapsed_s: float
    total_s: float
    completed_requests: int
    measuring: bool
    """Whether a window is open; false in warm-up and drain."""
    failed_requests: int = 0
    in_flight: int = 0
    engine: EngineMoment | None = None


class AttemptListener(Protocol):
    """Hears of an attempt while it runs; called in the thread which executes it."""

    def engine_started(self, guard: ProcessIdentity, engine: ProcessIdentity, port: int) -> None:
        """The engine exists from now on; the record must be durable when this returns."""

    def entered(self, state: TrialState) -> None:
        """The attempt moved on to `state`."""

    def read_back(self, facts: EngineFacts) -> None:
        """The engine serves, and this is what it says of itself."""

    def calibrated(self, calibration: LoadCalibration) -> None:
        """The study's load was found on this engine; durable when this returns."""

    def load_progress(self, status: LoadStatus) -> None:
        """The load moved on."""


class Executor(Protocol):
    """Runs attempts, one call per attempt."""

    def execute(
        self, request: AttemptRequest, listener: AttemptListener, cancellation: Cancellation
    ) -> AttemptResult:
        """Launch, load, stop and summarise; returns for every end including a cancelled one.

        Raises StartupError when no attempt of the study can ever run here. Whatever else goes
        wrong is an outcome. No process of the attempt is left when this returns.
        """
