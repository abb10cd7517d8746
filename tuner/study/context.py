"""What every phase of a study works with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from objectives.score import Objective
from tuner.domain.cancellation import Cancellation
from tuner.domain.clock import Clock
from tuner.domain.states import StudyState
from tuner.domain.study_spec import SimulatedEngineSpec, StudySpec
from tuner.search.memory_forecast import MemoryForecaster
from tuner.search.proposer import Proposer
from tuner.store.artifacts import ArtifactStore
from tuner.study.budget import Spent, attempt_forecast_s, spent
from tuner.study.checkpoints import Checkpoint
from tuner.study.engine_launch import time_scale
from tuner.study.executor import Executor
from tuner.study.ledger import History, StudyLedger
from tuner.study.monitor import ProgressMonitor
from tuner.study.target import Target


@dataclass(frozen=True, slots=True)
class StudyContext:
    """One study and the means to drive it; built by the composition root."""

    spec: StudySpec
    target: Target
    base_dir: Path
    ledger: StudyLedger
    proposer: Proposer
    forecaster: MemoryForecaster | None
    objective: Objective
    executor: Executor
    artifacts: ArtifactStore
    clock: Clock
    cancellation: Cancellation
    checkpoint: Checkpoint
    monitor: ProgressMonitor
    host: str
    resting: StudyState = StudyState.PAUSED
    """What the study becomes when this process stops driving it without a user's request."""

    @property
    def simulated(self) -> bool:
        return isinstance(self.spec.engine, SimulatedEngineSpec)

    @property
    def time_scale(self) -> float:
        return time_scale(self.spec.engine)

    def spent(self, history: History) -> Spent:
        return spent(
            history.trials,
            history.attempts,
            gpu_count=self.target.gpu_count,
            time_scale=self.time_scale,
        )

    def attempt_s(self, account: Spent) -> float:
        """Wall seconds an attempt takes, as measured so far or else as forecast."""
        if account.mean_attempt_s is not None:
            return account.mean_attempt_s
        return attempt_forecast_s(self.spec) / self.time_scale

    def engine_minutes(self, wall_s: float) -> float:
        """Wall time of an attempt as GPU minutes of the budget (engine time, all devices)."""
        return wall_s * self.time_scale * self.target.gpu_count / 60
