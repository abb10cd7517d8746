"""One configuration measured once, without a study."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from objectives.measurement import EngineFacts
from tuner.domain.cancellation import Cancellation
from tuner.domain.clock import Clock
from tuner.domain.engine_config import EngineConfig, LaunchCommand
from tuner.domain.states import AttemptOutcome, StudyPhase, TrialState
from tuner.domain.study_spec import StudySpec
from tuner.engine.launcher import ProcessIdentity
from tuner.store.records import JsonObject
from tuner.study.attempts import MOST_ATTEMPTS
from tuner.study.calibration import LoadCalibration
from tuner.study.executor import AttemptRequest, AttemptResult, Executor, LoadStatus
from tuner.study.progress import Observer, StudyProgress
from tuner.study.scoring import slo_of
from tuner.study.start_forecast import StartForecast, read_back_document, start_forecast
from tuner.study.target import Target, baseline_config, target_of
from tuner.study.window_rule import window_rule


@dataclass(frozen=True, slots=True)
class SingleMeasurement:
    """What one configuration did: the result of its last attempt, and where its files are."""

    command: LaunchCommand
    result: AttemptResult
    attempts: int
    directory: Path
    read_back: JsonObject | None = None
    """What the last engine that served said of itself, and the forecast of it."""


def measure_once(
    spec: StudySpec,
    config: EngineConfig | None,
    *,
    base_dir: Path,
    artifacts: Path,
    executor: Executor,
    observer: Observer,
    cancellation: Cancellation,
    clock: Clock,
    version: str | None = None,
    find_max_rate: bool = False,
) -> SingleMeasurement:
    """Measure `config` (default: the document's baseline), repeated where that was our fault.

    The load is calibrated on it unless the document gives a rate. A cancelled, infeasible or
    invalid end is a result. With `find_max_rate` the highest rate that meets the document's SLO is
    looked for as well. Raises InvalidStudyError or StartupError.
    """
    target = target_of(spec, base_dir, version)
    chosen = baseline_config(spec, target) if config is None else config
    stamp = clock.now().strftime("%Y%m%dT%H%M%S")
    root = artifacts / "measure" / f"{stamp}-{os.getpid()}"
    listener = _Narrator(observer, start_forecast(target, chosen))
    for attempt in range(1, MOST_ATTEMPTS + 1):
        directory = root / f"attempt-{attempt}"
        request = _request(spec, target, chosen, base_dir, directory, attempt)
        request = replace(request, find_max_rate=find_max_rate, confirm_max_rate=find_max_rate)
        result = executor.execute(request, listener, cancellation)
        if result.outcome not in (AttemptOutcome.ENVIRONMENT, AttemptOutcome.INVALID):
            break
    return SingleMeasurement(
        target.command(chosen), result, attempt, directory, listener.last_read_back
    )


def _request(
    spec: StudySpec,
    target: Target,
    config: EngineConfig,
    base_dir: Path,
    directory: Path,
    attempt: int,
) -> AttemptRequest:
    sequences = target.effective(config).max_num_seqs or 1
    return AttemptRequest(
        command=target.command(config),
        engine=spec.engine,
        gpu_count=target.gpu_count,
        workload=spec.workload,
        base_dir=base_dir,
        workload_seed=spec.workload.seed,
        max_model_len=target.max_model_len,
        vocabulary_size=target.vocabulary_size,
        most_sequences=sequences,
        max_num_seqs=sequences,
        calibration=None,
        slo=slo_of(spec.objective.slo),
        deadlines=spec.deadlines,
        directory=directory,
        salt=attempt,
        adaptive=window_rule(spec),
    )


class _Narrator:
    """Progress of a measurement without a study behind it."""

    def __init__(self, observer: Observer, forecast: StartForecast) -> None:
        self._tell = observer.progressed
        self._forecast = forecast
        self.last_read_back: JsonObject | None = None
        self._state: TrialState | None = None

    def engine_started(self, guard: ProcessIdentity, engine: ProcessIdentity, port: int) -> None:
        """Nothing to record: the guard ends the engine when this process dies."""

    def read_back(self, facts: EngineFacts) -> None:
        self.last_read_back = read_back_document(self._forecast, facts)

    def calibrated(self, calibration: LoadCalibration) -> None:
        """Part of the result."""

    def entered(self, state: TrialState) -> None:
        self._state = state
        self._tell(self._progress(None))

    def load_progress(self, status: LoadStatus) -> None:
        self._tell(self._progress(status))

    def _progress(self, load: LoadStatus | None) -> StudyProgress:
        return StudyProgress(
            phase=StudyPhase.BASELINE,
            trial_number=0,
            trial_state=self._state,
            trials_done=0,
            trials_total=1,
            starts_done=0,
            starts_total=1,
            best_trial=None,
            best_score=None,
            time_left_s=None,
            load=load,
        )
