"""What a study would do, forecast without starting anything."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tuner.domain.engine_config import EngineConfig, LaunchCommand
from tuner.domain.states import TrialOrigin
from tuner.domain.study_spec import SimulatedEngineSpec, StudySpec
from tuner.loadgen.workload import build_workload, given_rate_per_s, users_of
from tuner.search.feasibility import PredictedInfeasible, check
from tuner.study.budget import attempt_forecast_s, confirmation_starts, planned_starts
from tuner.study.confirmation import most_starts
from tuner.study.engine_launch import engine_argv, time_scale
from tuner.study.engine_version import KnownEngine, require_version
from tuner.study.first_points import points_of
from tuner.study.outlook import LoadOutlook, MemoryOutlook, Outlook
from tuner.study.space import search_space
from tuner.study.target import Target, baseline_config, target_of

SHOWN_PORT = 8000
"""The port in the commands shown; each start takes a free one."""

SIMULATOR_OVERHEAD_S = 4.0
"""Wall seconds of a start on the embedded engine that no time scale shortens: processes."""


@dataclass(frozen=True, slots=True)
class PlannedStart:
    """One configuration with its exact command line.

    It will be started for certain, unless its origin is `manual`: then it was only asked about.
    """

    origin: TrialOrigin
    command: LaunchCommand
    argv: tuple[str, ...]
    memory: MemoryOutlook | None
    """None where model or GPU is not known."""
    expected: LoadOutlook | None
    """What the engine model predicts; None where nothing can be, or the engine would not last."""
    rejected: str | None
    """Why it would be told as infeasible without a start; the baseline is started all the same."""


@dataclass(frozen=True, slots=True)
class StudyPlan:
    """The first starts, and how many there will be for how long. Durations are forecasts."""

    starts: tuple[PlannedStart, ...]
    restarts: int
    """Engine starts when nothing is repeated: the baseline thrice, trials, confirmation."""
    confirmation_restarts: int
    """Of the fewest rounds; these are among `restarts`."""
    confirmation_restarts_at_most: int
    """While the interval straddles the decision."""
    attempt_s: float
    duration_s: float
    gpu_minutes: float
    """Engine time on all devices; the wall time of a simulated study is shorter."""
    workload: str
    rate_per_s: float | None
    """None: calibrated on the baseline's first start, unless there are `users`."""
    users: int | None
    """In a closed loop, which has no rate."""
    notices: tuple[str, ...]
    simulated: bool


def plan_study(
    spec: StudySpec,
    base_dir: Path,
    asked: EngineConfig | None = None,
    known: KnownEngine | None = None,
) -> StudyPlan:
    """The plan of a document; `asked` are flags over the baseline's that somebody wonders about.

    Raises InvalidStudyError where it leaves nothing to search, InvalidTraceError for its workload.
    """
    known = known or KnownEngine()
    require_version(spec, known.version)
    target = target_of(spec, base_dir, known.version)
    space = search_space(spec, target)
    baseline = baseline_config(spec, target)
    points = points_of(spec, target, space)
    configs = [(TrialOrigin.BASELINE, baseline)]
    if asked is not None and asked.flags:
        configs.append((TrialOrigin.MANUAL, baseline.with_flags(asked.as_dict())))
    configs += [(p.origin, target.with_searched(space.to_config(p.coordinates))) for p in points]
    workload = build_workload(
        spec.workload,
        max_model_len=target.max_model_len,
        seed=spec.workload.seed,
        base_dir=base_dir,
    )
    outlook = Outlook(spec, target, workload)
    restarts, engine_s = planned_starts(spec), attempt_forecast_s(spec)
    attempt_s = engine_s / time_scale(spec.engine)
    if isinstance(spec.engine, SimulatedEngineSpec):
        attempt_s += SIMULATOR_OVERHEAD_S
    return StudyPlan(
        starts=tuple(
            planned_start(spec, target, outlook, origin, config, base_dir)
            for origin, config in configs
        ),
        restarts=restarts,
        confirmation_restarts=confirmation_starts(spec),
        confirmation_restarts_at_most=most_starts(
            spec.confirmation.rounds, spec.confirmation.max_rounds, spec.confirmation.finalists
        ),
        attempt_s=attempt_s,
        duration_s=restarts * attempt_s,
        gpu_minutes=restarts * engine_s * target.gpu_count / 60,
        workload=workload.description,
        rate_per_s=given_rate_per_s(spec.workload, workload),
        users=users_of(spec.workload),
        notices=(*known.notices, *space.notices),
        simulated=isinstance(spec.engine, SimulatedEngineSpec),
    )


def planned_start(
    spec: StudySpec,
    target: Target,
    outlook: Outlook,
    origin: TrialOrigin,
    config: EngineConfig,
    base_dir: Path,
) -> PlannedStart:
    """One start as it would happen; relative paths are relative to `base_dir`."""
    command = target.command(config)
    verdict = check(
        target.effective(config),
        max_model_len=target.max_model_len,
        forecaster=target.forecaster(),
    )
    return PlannedStart(
        origin=origin,
        command=command,
        argv=engine_argv(spec.engine, command, SHOWN_PORT, base_dir),
        memory=outlook.memory(config),
        expected=outlook.load(config),
        rejected=verdict.reason if isinstance(verdict, PredictedInfeasible) else None,
    )
