"""A clock and sample rows for tests of the store."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tuner.domain.diagnosis import Consequence, Diagnosis, Phase, Remedy
from tuner.domain.engine_config import EngineConfig
from tuner.domain.states import AttemptPurpose, TrialOrigin
from tuner.store.attempts import NewAttempt
from tuner.store.trials import NewTrial
from tuner.store.unit_of_work import Work
from tuner.store.workers import WorkerIdentity

START = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
DOCUMENT = {"name": "chat", "model": {"id": "Qwen/Qwen2.5-7B-Instruct"}, "budget": {"trials": 3}}


class SteppingClock:
    """Each reading is a second after the one before, so that order shows in the records."""

    def __init__(self) -> None:
        self._readings = 0

    def now(self) -> datetime:
        self._readings += 1
        return START + timedelta(seconds=self._readings)

    def monotonic(self) -> float:
        return float(self._readings)

    def sleep(self, duration_s: float) -> None:
        raise AssertionError("the store never sleeps")


class SetClock:
    """Shows the time it was set to; it may be set back."""

    def __init__(self) -> None:
        self.offset_s = 0.0

    def now(self) -> datetime:
        return START + timedelta(seconds=self.offset_s)

    def monotonic(self) -> float:
        return self.offset_s

    def sleep(self, duration_s: float) -> None:
        raise AssertionError("the store never sleeps")


def worker_identity(worker_id: str, pid: int = 7, host: str = "host-a") -> WorkerIdentity:
    return WorkerIdentity(worker_id, host, "boot:ns", pid, 1000, "1.0")


def new_trial(
    max_num_seqs: int = 256,
    *,
    optuna_number: int | None = None,
    origin: TrialOrigin = TrialOrigin.SAMPLER,
) -> NewTrial:
    flags = {"max-num-seqs": max_num_seqs, "gpu-memory-utilization": 0.9, "enforce-eager": False}
    return NewTrial(
        origin=origin,
        config=EngineConfig.of(flags),
        coordinates={"log2_seqs": 8.0},
        optuna_number=optuna_number,
    )


def new_attempt(purpose: AttemptPurpose = AttemptPurpose.SEARCH, seed: int = 7) -> NewAttempt:
    return NewAttempt(purpose=purpose, workload_seed=seed)


def new_study(work: Work, name: str = "chat", digest: str = "d1") -> int:
    return work.studies.create(name, digest, DOCUMENT).study.id


def out_of_memory() -> Diagnosis:
    return Diagnosis(
        failure_class="oom_profile",
        phase=Phase.PROFILE,
        consequence=Consequence.INFEASIBLE,
        summary="CUDA out of memory while profiling",
        evidence=("torch.OutOfMemoryError: CUDA out of memory. \x00 \udcff",),
        remedies=(Remedy("max_num_batched_tokens", "down", "4096"), Remedy("concurrency", "down")),
        returncode=1,
        severity=1.25,
        tunable=True,
        facts={"requested_gib": 2.5, "free_gib": None},
    )
