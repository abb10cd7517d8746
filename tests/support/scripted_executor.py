"""An executor whose attempts end as a test says, without any process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from objectives.measurement import Measurement
from tests.support.study_measurements import measurement
from tuner.domain.cancellation import Cancellation
from tuner.domain.clock import Clock
from tuner.domain.diagnosis import Consequence, Diagnosis, Phase
from tuner.domain.states import AttemptOutcome
from tuner.study.calibration import calibrated_rate
from tuner.study.checkpoints import Checkpoint
from tuner.study.executor import AttemptListener, AttemptRequest, AttemptResult, Executor
from tuner.worker.locations import Locations

Script = Callable[[AttemptRequest], AttemptResult]


def measured(request: AttemptRequest, **changes: float) -> AttemptResult:
    """More sequences, more throughput; the rest as it is, with a little noise by the seed."""
    sequences = request.command.config.max_num_seqs or 1
    jitter = 1 + request.workload_seed % 7 / 1000
    found: Measurement = measurement(
        ttft_ms=changes.get("ttft_ms", 400.0) * jitter,
        tokens_per_s=changes.get("tokens_per_s", 100.0 * sequences),
        preemptions=int(changes.get("preemptions", 0)),
        seed=request.workload_seed,
    )
    return AttemptResult(AttemptOutcome.MEASURED, "measured", 1.0, measurement=found)


def failed(outcome: AttemptOutcome, failure_class: str = "oom_kv_allocation") -> AttemptResult:
    consequence = {
        AttemptOutcome.INFEASIBLE: Consequence.INFEASIBLE,
        AttemptOutcome.FATAL: Consequence.STOP_STUDY,
    }.get(outcome, Consequence.RETRY)
    diagnosis = Diagnosis(
        failure_class, Phase.PROFILE, consequence, f"it failed with {failure_class}", severity=1.5
    )
    return AttemptResult(outcome, diagnosis.summary, 1.0, diagnosis=diagnosis)


def disturbed() -> AttemptResult:
    """An instrument that was not good enough."""
    return AttemptResult(
        AttemptOutcome.INVALID, "late requests", 1.0, measurement=measurement(valid=False)
    )


@dataclass
class ScriptedExecutor:
    script: Script
    requests: list[AttemptRequest] = field(default_factory=list)

    def execute(
        self, request: AttemptRequest, listener: AttemptListener, cancellation: Cancellation
    ) -> AttemptResult:
        self.requests.append(request)
        if request.calibration is None:
            listener.calibrated(calibrated_rate(10.0, 32))
        return self.script(request)

    def factory(self, clock: Clock, locations: Locations, checkpoint: Checkpoint) -> Executor:
        return self
