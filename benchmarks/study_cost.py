"""What a study in virtual time would have cost on the real machine: starts and GPU minutes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from tuner.domain.states import AttemptOutcome, AttemptPurpose, TrialOrigin, TrialState
from tuner.domain.study_spec import StudySpec
from tuner.store.records import AttemptRecord
from tuner.study.budget import NOMINAL_STARTUP_S, STOP_S
from tuner.study.ledger import History
from tuner.study.trial_score import score_value


@dataclass(frozen=True, slots=True)
class TrialOutcome:
    """A trial of the search. `gpu_minutes` are the study's up to its end, `starts` likewise."""

    number: int
    origin: TrialOrigin
    state: TrialState
    config: Mapping[str, object]
    score: float | None
    starts: int
    gpu_minutes: float


@dataclass(frozen=True, slots=True)
class StudyCost:
    """Engine starts and GPU minutes by purpose; drains and bursts apart, which are seconds."""

    starts: Mapping[AttemptPurpose, int]
    gpu_minutes: Mapping[AttemptPurpose, float]

    @property
    def confirmation_share(self) -> float:
        """Of all GPU minutes."""
        total = sum(self.gpu_minutes.values())
        return self.gpu_minutes[AttemptPurpose.CONFIRMATION] / total if total > 0 else 0.0


class Account:
    """Reads a finished study's attempts. GPU minutes are engine time times the GPUs it spans."""

    def __init__(self, spec: StudySpec, history: History) -> None:
        self._spec = spec
        self._history = history
        self._gpus = getattr(spec.engine, "count", 1)
        self._startups_s = {
            record.attempt_id: record.measurement.engine.startup_s
            for record in history.measurements
            if record.measurement.engine.startup_s is not None
        }
        known = self._startups_s.values()
        self._usual_startup_s = median(known) if known else NOMINAL_STARTUP_S

    def cost(self) -> StudyCost:
        """By purpose, all of them present."""
        starts = dict.fromkeys(AttemptPurpose, 0)
        minutes = dict.fromkeys(AttemptPurpose, 0.0)
        for attempt in self._history.attempts:
            starts[attempt.purpose] += 1
            minutes[attempt.purpose] += self._minutes(attempt)
        return StudyCost(starts, minutes)

    def trials(self) -> tuple[TrialOutcome, ...]:
        """Every launched trial of the search in order, the baseline first."""
        found, starts, minutes = [], 0, 0.0
        for attempt in self._history.attempts:
            if attempt.purpose is AttemptPurpose.CONFIRMATION:
                continue
            starts, minutes = starts + 1, minutes + self._minutes(attempt)
            if attempt.purpose is AttemptPurpose.SEARCH:
                trial = self._history.trial(attempt.trial_number)
                flags = dict(trial.config.without("max-model-len").flags)
                found.append(
                    TrialOutcome(trial.number, trial.origin, trial.state, flags,
                                 score_value(trial.score), starts, minutes)
                )  # fmt: skip
        return tuple(found)

    def _minutes(self, attempt: AttemptRecord) -> float:
        startup_s = self._startups_s.get(attempt.id, self._usual_startup_s)
        seconds = startup_s + self._load_s(attempt) + STOP_S
        return seconds * self._gpus / 60

    def _load_s(self, attempt: AttemptRecord) -> float:
        workload, calibration = self._spec.workload, self._history.calibration
        whole_s = 2 * workload.warmup_s + workload.latency_window_s + workload.capacity_window_s
        found_s = 0.0
        if calibration is not None:
            longer_s = (calibration.capacity_warmup_s or workload.warmup_s) - workload.warmup_s
            whole_s += longer_s
            if attempt.id == self._history.attempts[0].id:
                found_s = calibration.engine_s or 0.0
        if attempt.outcome is AttemptOutcome.MEASURED:
            return whole_s + found_s
        if attempt.outcome is AttemptOutcome.PRUNED:
            return max(0.0, whole_s - self._saved_s(attempt))
        return 0.0

    def _saved_s(self, attempt: AttemptRecord) -> float:
        score = self._history.trial(attempt.trial_number).score or {}
        abort = score.get("abort")
        return float(str(abort["saved_s"])) if isinstance(abort, Mapping) else 0.0
