"""What a study's measurements say: best, front, importance, other wishes. Nothing is measured."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import Response
from pydantic import BaseModel, Field

from api.problem import ApiError, problems
from api.security.authentication import Reader
from api.services import Injected, computing
from api.study_history import history_of
from api.study_reference import FoundStudy
from tuner.domain.document_rules import StudyContext, semantic_faults
from tuner.domain.states import TrialState
from tuner.domain.study_spec import ObjectiveSpec
from tuner.search.importance import FEWEST_TRIALS, ScoredPoint, parameter_importance
from tuner.store.records import JsonObject
from tuner.study.engine_launch import time_scale
from tuner.study.front_view import FrontView, axes_of, front_view
from tuner.study.quantities import COST, DEFAULT_AXES, Reading, cost, stored_readings
from tuner.study.rescoring import rescored
from tuner.study.scoring import slo_of
from tuner.study.slo_reading import SloReading
from tuner.study.stored_study import stored_spec
from tuner.study.study_view import trial_line
from tuner.study.target import gpu_count
from tuner.study.trajectory import trajectory
from tuner.study.trial_score import score_value

router = APIRouter(prefix="/studies/{study}", tags=["analysis"])


class Front(BaseModel):
    """Measured trials over the named quantities; `on_front`: no other is better in all of them."""

    axes: list[dict[str, Any]]
    points: list[dict[str, Any]]


class Best(BaseModel):
    """The best complete trial so far; null before the first."""

    trial: dict[str, Any] | None


class ImportanceView(BaseModel):
    """Shares of the searched parameters in being among the best; null while too little is known."""

    shares: dict[str, float] | None
    trials: int
    needed: int = Field(description="Scored trials from which on there is an answer.")


class RescoredView(BaseModel):
    """The measured trials under another objective, best first."""

    reference_trial: int | None
    best_trial: int | None
    trials: list[dict[str, Any]]


@router.get("/pareto", operation_id="showFront", response_model=Front, responses=problems(404))
def show_front(
    study: FoundStudy,
    services: Injected,
    principal: Reader,
    axes: Annotated[
        str, Query(max_length=200, description="Two to four quantities, separated by commas.")
    ] = ",".join(DEFAULT_AXES),
) -> Response:
    """The front of a study in any of its quantities."""
    chosen = axes_of([name.strip() for name in axes.split(",")])

    def front() -> object:
        count = gpu_count(stored_spec(study))
        with services.store.reading() as work:
            trials = services.answers.rows(work, study.id).trials
        names = {axis.name for axis in chosen}
        measured = {
            trial.number: _quantities(trial.summary, names, count)
            for trial in trials
            if trial.state is TrialState.COMPLETE
        }
        return _front(front_view(measured, chosen))

    return services.answers.json(study, f"pareto {[axis.name for axis in chosen]}", front)


def _front(view: FrontView) -> dict[str, object]:
    return {
        "axes": [
            {"name": a.name, "label": a.label, "unit": a.unit, "direction": a.direction.value}
            for a in view.axes
        ],
        "points": [
            {
                "trial": point.trial_number,
                "on_front": point.on_front,
                "values": {n: None if r is None else r.to_dict() for n, r in point.values.items()},
            }
            for point in view.points
        ],
    }


def _quantities(
    summary: JsonObject | None, names: Set[str], gpus: int
) -> dict[str, Reading | None]:
    if COST not in names:
        return stored_readings(summary, names)
    found = stored_readings(summary, names | {"output_tokens_per_s"})
    return {**found, COST: cost(found.get("output_tokens_per_s"), gpus)}


class Trajectory(BaseModel):
    """One point per trial that was launched and ended, in that order."""

    points: list[dict[str, Any]]


class Live(BaseModel):
    """What the study's worker does at this moment; all null while none drives it."""

    phase: str | None
    trial_number: int | None
    trial_state: str | None
    flags: dict[str, Any] | None = Field(description="The running trial's configuration.")
    time_left_s: float | None
    load: dict[str, Any] | None
    series: list[dict[str, Any]] = Field(description="The engine over the last minutes.")


@router.get(
    "/trajectory",
    operation_id="showTrajectory",
    response_model=Trajectory,
    responses=problems(404),
)
def show_trajectory(study: FoundStudy, services: Injected, principal: Reader) -> Response:
    """How the best score grew with the GPU minutes spent."""

    def points() -> object:
        spec = stored_spec(study)
        with services.store.reading() as work:
            rows = services.answers.rows(work, study.id)
        found = trajectory(
            rows.trials,
            rows.attempts,
            gpu_count=gpu_count(spec),
            time_scale=time_scale(spec.engine),
        )
        return {"points": [point.to_dict() for point in found]}

    return services.answers.json(study, "trajectory", points)


@router.get("/live", operation_id="showLive", response_model=Live, responses=problems(404))
def show_live(study: FoundStudy, services: Injected, principal: Reader) -> dict[str, object]:
    """The running trial, its load and the engine's curves as they arrive."""
    with services.store.reading() as work:
        driver = study.lease and work.workers.find(study.lease.worker_id)
        shown = dict(driver.progress or {}) if driver and driver.study_id == study.id else {}
        number = shown.get("trial_number")
        trial = work.trials.find(study.id, number) if isinstance(number, int) else None
    empty: dict[str, object] = dict.fromkeys(Live.model_fields)
    flags = None if trial is None else trial.config.as_dict()
    return {**empty, "series": [], **shown, "flags": flags}


@router.get("/best", operation_id="showBest", response_model=Best, responses=problems(404))
def show_best(study: FoundStudy, services: Injected, principal: Reader) -> dict[str, object]:
    """The best complete trial so far."""
    with services.store.reading() as work:
        current = work.studies.get(study.id)
        best = services.answers.standing(work, current).best
    return {"trial": None if best is None else trial_line(best)}


@router.get(
    "/importance",
    operation_id="showImportance",
    response_model=ImportanceView,
    responses=problems(404),
)
def show_importance(study: FoundStudy, services: Injected, principal: Reader) -> Response:
    """How much each searched parameter decided (PED-ANOVA over what was really measured)."""

    def shares() -> object:
        with services.store.reading() as work:
            trials = services.answers.rows(work, study.id).trials
        points = [
            ScoredPoint(_coordinates(trial.coordinates), value)
            for trial in trials
            if trial.coordinates and (value := score_value(trial.score)) is not None
        ]
        with computing(services):
            found = parameter_importance(points)
        told = None if found is None else dict(found.shares)
        return {"shares": told, "trials": len(points), "needed": FEWEST_TRIALS}

    return services.answers.json(study, "importance", shares)


def _coordinates(stored: Mapping[str, object]) -> dict[str, float | bool]:
    return {name: value for name, value in stored.items() if isinstance(value, bool | int | float)}


@router.post(
    "/rescore",
    operation_id="rescoreStudy",
    response_model=RescoredView,
    responses=problems(404),
)
def rescore_study(
    study: FoundStudy, services: Injected, principal: Reader, objective: ObjectiveSpec
) -> dict[str, object]:
    """Score the stored measurements under another objective; nothing is stored or measured."""
    _require_meaning(objective)
    with services.store.reading() as work:
        attempts = work.attempts.of_study(study.id)
    reading = SloReading(
        services.artifacts, {a.id: a.directory for a in attempts}, slo_of(objective.slo)
    )
    own = stored_spec(study).objective.slo
    with computing(services):
        history = history_of(study, services)
        view = rescored(history, objective, None if objective.slo == own else reading)
    return {
        "reference_trial": view.reference_trial,
        "best_trial": view.best_trial,
        "trials": [trial.to_dict() for trial in view.trials],
    }


def _require_meaning(objective: ObjectiveSpec) -> None:
    values = {"objective": objective.model_dump(mode="json")}
    faults = tuple(
        fault
        for fault in semantic_faults(values, StudyContext())
        if fault.path.startswith("objective")
    )
    if faults:
        raise ApiError(422, "the objective has faults: see errors", errors=faults)
