"""One whole study in virtual time, and what was true of its machine."""

from __future__ import annotations

import math
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from benchmarks.scenarios import Scenario, machine_of, scenario_spec
from benchmarks.study_cost import Account, StudyCost, TrialOutcome
from benchmarks.virtual_time.best_in_space import BestInSpace
from benchmarks.virtual_time.executor import VirtualExecutorFactory
from benchmarks.virtual_time.truth import HiddenMachine, TrueGain, true_gain, truth_seeds
from tuner.domain.engine_config import EngineConfig
from tuner.domain.study_spec import StudySpec
from tuner.loadgen import presets, traces
from tuner.loadgen.plan import Segment
from tuner.loadgen.workload import Workload
from tuner.simulator.engine_model import warm_up
from tuner.store.schema import upgrade
from tuner.store.url import DatabaseUrl
from tuner.study import load_session
from tuner.study.calibration import LoadCalibration
from tuner.study.confirmation_phase import highest_round, round_pair
from tuner.study.executor import AttemptRequest
from tuner.study.ledger import History
from tuner.study.recommendation import Recommendation
from tuner.study.recommendation_document import recommendation_from_dict
from tuner.study.scoring import paired_difference
from tuner.study.trial_score import score_value
from tuner.worker.composition import run_study
from tuner.worker.locations import Locations

Plan = Callable[[AttemptRequest, Workload, LoadCalibration], tuple[Segment, ...]]

LARGE_GAIN = math.log(1.10)
DATABASE = "studies.db"
PLANS_KEPT = 4
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  # only because a benchmark needs no durability


@dataclass(frozen=True, slots=True)
class FinalistOutcome:
    """A finalist: its score in the search, what the rounds showed, and what is true.

    `true_differences` are as many paired rounds as the truth was averaged over.
    """

    trial_number: int
    config: Mapping[str, object]
    search_score: float
    differences: tuple[float, ...]
    low: float | None
    high: float | None
    true: TrueGain | None
    true_differences: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class StudyOutcome:
    """What a study said, and what is so. Gains are score differences (logarithms)."""

    number: int
    deployment: str
    baseline: str
    baseline_flags: Mapping[str, object]
    verdict: str
    reference_is_baseline: bool
    recommended_trial: int | None
    finalists: tuple[FinalistOutcome, ...]
    best_config: Mapping[str, object]
    """Empty where it was not searched for."""
    best: TrueGain | None
    best_differences: tuple[float | None, ...]
    starts: int
    rate_per_s: float
    concurrency: int
    latency_requests: int
    """Requests of the baseline's latency window."""
    study_cpu_s: float
    total_cpu_s: float
    cost: StudyCost
    trials: tuple[TrialOutcome, ...]
    calibration: LoadCalibration

    @property
    def winner(self) -> FinalistOutcome | None:
        """The recommended finalist; None where the baseline is kept."""
        if self.verdict not in ("better", "better_but_fragile"):
            return None
        return next(f for f in self.finalists if f.trial_number == self.recommended_trial)

    @property
    def judged(self) -> FinalistOutcome | None:
        """Whose interval the verdict quotes: the winner's, else the best finalist's."""
        measured = [f for f in self.finalists if f.low is not None]
        best = max(measured, key=lambda f: sum(f.differences) / len(f.differences), default=None)
        return self.winner or best


def prepare_process() -> None:
    """Compile the engine model, and read each trace once instead of once per attempt."""
    warm_up()
    shipped = traces.read_trace(presets.CHAT_TRACE, base_dir=Path())
    setattr(presets, "read_trace", lambda *_, **__: shipped)  # noqa: B010  # not its public name
    plan_once = _planned_once(load_session.measurement_segments)
    setattr(load_session, "measurement_segments", plan_once)  # noqa: B010  # likewise


def _planned_once(plan: Plan) -> Plan:
    """The same requests are sent to every configuration: they are drawn once per study and seed."""
    drawn: dict[tuple[object, ...], tuple[Segment, ...]] = {}

    def planned(
        request: AttemptRequest, workload: Workload, calibration: LoadCalibration
    ) -> tuple[Segment, ...]:
        key = (request.workload, workload.digest, request.workload_seed, calibration)
        if key not in drawn:
            if len(drawn) >= PLANS_KEPT:
                drawn.pop(next(iter(drawn)))
            drawn[key] = plan(request, workload, calibration)
        return drawn[key]

    return planned


@dataclass(frozen=True, slots=True)
class Diligence:
    """How much is found out about the truth.

    `loads` the true gains are averaged over. Without `regret` the best configuration of the space
    is searched for only where no finalist shows already that there is a large gain.
    """

    loads: int
    regret: bool = False


def run_scenario(scenario: Scenario, diligence: Diligence) -> StudyOutcome:
    """Run the study, then find out what it should have said."""
    begun_s = time.process_time()
    with _workplace() as directory:
        spec = scenario_spec(scenario, directory)
        study_s = time.process_time()
        history = run_study(
            spec,
            Locations(DatabaseUrl.of_file(directory / DATABASE), directory),
            base_dir=directory,
            executor_of=VirtualExecutorFactory(scenario.noise),
        )
        study_cpu_s = time.process_time() - study_s
        machine = machine_of(spec, history.calibration, scenario.noise, directory)
        return _outcome(scenario, spec, history, machine, diligence, study_cpu_s, begun_s)


def _outcome(
    scenario: Scenario,
    spec: StudySpec,
    history: History,
    machine: HiddenMachine,
    diligence: Diligence,
    study_cpu_s: float,
    begun_s: float,
) -> StudyOutcome:
    verdict = recommendation_from_dict(history.study.recommendation or {})
    baseline = machine.target.with_searched(dict(spec.baseline.flags))
    finalists = [history.trial(report.trial_number).config for report in verdict.finalists]
    seeds = truth_seeds(spec, "loads", diligence.loads)
    rows = machine.differences(finalists, baseline, seeds)
    best: EngineConfig | None = None
    best_row: tuple[float | None, ...] = ()
    if diligence.regret or not any(surely_large(true_gain(row)) for row in rows):
        best = BestInSpace(machine, baseline).find([baseline, *finalists])
        (best_row,) = machine.differences([best], baseline, seeds)
    calibration, reference = machine.calibration, history.reference_measurement
    account = Account(spec, history)
    return StudyOutcome(
        number=scenario.number,
        deployment=scenario.deployment.name,
        baseline=scenario.baseline_name,
        baseline_flags=dict(spec.baseline.flags),
        verdict=verdict.verdict.value,
        reference_is_baseline=verdict.reference_is_baseline,
        recommended_trial=verdict.trial_number,
        finalists=_finalists(machine, history, verdict, rows),
        best_config={} if best is None else _searched(best),
        best=true_gain(best_row),
        best_differences=best_row,
        starts=len(history.attempts),
        rate_per_s=calibration.rate_per_s,
        concurrency=calibration.concurrency,
        latency_requests=0 if reference is None else reference.latency.requests.scheduled,
        study_cpu_s=study_cpu_s,
        total_cpu_s=time.process_time() - begun_s,
        cost=account.cost(),
        trials=account.trials(),
        calibration=calibration,
    )


def surely_large(gain: TrueGain | None) -> bool:
    """Whether this gain alone shows that the space holds one of at least LARGE_GAIN."""
    if gain is None or gain.failures > 0:
        return False
    return gain.mean - 2 * gain.standard_error >= LARGE_GAIN


def _finalists(
    machine: HiddenMachine,
    history: History,
    verdict: Recommendation,
    rows: Sequence[tuple[float | None, ...]],
) -> tuple[FinalistOutcome, ...]:
    found = []
    for report, row in zip(verdict.finalists, rows, strict=True):
        trial = history.trial(report.trial_number)
        score = score_value(trial.score)
        found.append(
            FinalistOutcome(
                trial_number=report.trial_number,
                config=_searched(trial.config),
                search_score=0.0 if score is None else score,
                differences=round_differences(machine, history, report.trial_number),
                low=report.gain.low if report.gain else None,
                high=report.gain.high if report.gain else None,
                true=true_gain(row),
                true_differences=row,
            )
        )
    return tuple(found)


def round_differences(machine: HiddenMachine, history: History, trial: int) -> tuple[float, ...]:
    """The paired differences that the study's own verdict rested on."""
    found = []
    for number in range(highest_round(history) + 1):
        pair = round_pair(history, trial, number)
        value = None if pair is None else paired_difference(machine.objective, *pair)
        if value is not None:
            found.append(value)
    return tuple(found)


def _searched(config: EngineConfig) -> dict[str, object]:
    return dict(config.without("max-model-len").flags)


class _Workplace(tempfile.TemporaryDirectory[str]):
    """A directory in memory where there is one: SQLite waits for the disk at every commit."""

    def __enter__(self) -> Path:  # type: ignore[override]
        path = Path(super().__enter__())
        shutil.copy(_template(), path / DATABASE)
        return path


def _workplace() -> _Workplace:
    return _Workplace(dir=SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else None)


@lru_cache(maxsize=1)
def _template() -> Path:
    """An empty current database, made once per process and copied for every study."""
    directory = Path(tempfile.mkdtemp())
    path = directory / DATABASE
    upgrade(DatabaseUrl.of_file(path))
    return path
