"""Trials of a study: listed, shown whole, added by hand; their measurements and artefacts."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import FileResponse, JSONResponse, Response
from pydantic import BaseModel, Field

from api.idempotency import Answer, IdempotencyKey, fingerprint_of, once, replayed
from api.pagination import DEFAULT_LIMIT, LARGEST, Cursor, Limit, Page, decode_number, page_of
from api.problem import ApiError, problems
from api.security.authentication import Reader, Writer
from api.services import Injected, Services
from api.study_reference import FoundStudy
from api.trial_request import TrialRequest, trial_config
from objectives.serialise import measurement_to_dict
from tuner.domain.states import AttemptOutcome, TrialState
from tuner.store.records import AttemptRecord, StudyRecord, TrialRecord
from tuner.store.unit_of_work import Work
from tuner.study.distribution_view import distributions
from tuner.study.engine_launch import time_scale
from tuner.study.ledger import read_backs
from tuner.study.series_view import series_points
from tuner.study.stored_study import stored_spec
from tuner.study.study_view import trial_line
from tuner.study.trial_view import trial_view
from tuner.study.what_bound import what_bound

router = APIRouter(prefix="/studies/{study}/trials", tags=["trials"])
Number = Annotated[
    int, Path(ge=0, le=LARGEST, description="The trial's number; 0 is the baseline.")
]
MeasuredAttempt = Annotated[
    int | None,
    Query(ge=1, le=LARGEST, description="The attempt's ordinal; the last that measured if absent."),
]
_TEXT = (".log", ".stderr", ".json", ".csv", ".jsonl", ".txt")


class TrialLine(BaseModel):
    """One trial in a list."""

    number: int = Field(examples=[3])
    origin: str = Field(description="baseline, preset, engine_model, sampler, manual …")
    requested_by: str | None
    state: str
    flags: dict[str, Any]
    config_digest: str
    score: dict[str, Any] | None
    summary: dict[str, Any] | None = Field(description="Headline quantities with 90% intervals.")
    prediction: dict[str, Any] | None
    infeasibility: dict[str, Any] | None
    failure_class: str | None
    created_at: str
    started_at: str | None
    ended_at: str | None


class TrialPage(Page):
    """Some of a study's trials, by number."""

    items: list[TrialLine]


class TrialDetail(TrialLine):
    """All of a trial but the measurement documents."""

    diagnosis: dict[str, Any] | None
    attempts: list[dict[str, Any]]
    artifacts: list[str] = Field(description="Files of its last attempt.")


class Measurements(BaseModel):
    """What the trial's attempts measured, whole, with intervals, and what bound the engine."""

    items: list[dict[str, Any]]


class DistributionView(BaseModel):
    """Requests by TTFT and TPOT; edges are 10^(k/16) ms, the same for every trial."""

    attempt: int | None = Field(description="Ordinal of the attempt; null where none measured.")
    ttft_ms: dict[str, Any] | None = Field(
        description="edges_ms, counts between them, and `without`: requests that had none."
    )
    tpot_ms: dict[str, Any] | None


class SeriesView(BaseModel):
    """KV cache usage, running and waiting requests and preemptions, in engine seconds."""

    points: list[dict[str, Any]]


@router.get("", operation_id="listTrials", response_model=TrialPage, responses=problems(404))
def list_trials(
    study: FoundStudy,
    services: Injected,
    principal: Reader,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
    state: Annotated[
        list[TrialState] | None, Query(description="Only trials in these states.")
    ] = None,
) -> Response:
    """The study's trials by number."""
    after = decode_number(cursor)

    def page() -> object:
        with services.store.reading() as work:
            found = work.trials.page(study.id, states=state, after_number=after, limit=limit + 1)
        items, following = page_of(found, limit, _number)
        return {"items": [trial_line(trial) for trial in items], "next_cursor": following}

    wanted = None if state is None else sorted({one.value for one in state})
    return services.answers.json(study, f"trials {limit} {after} {wanted}", page)


def _number(trial: TrialRecord) -> int:
    return trial.number


@router.post(
    "",
    operation_id="addTrial",
    status_code=201,
    response_model=TrialLine,
    responses={
        200: {"model": TrialLine, "description": "This configuration is a trial already."},
        **problems(404, 409),
    },
)
def add_trial(
    request: Request,
    study: FoundStudy,
    services: Injected,
    principal: Writer,
    wanted: TrialRequest,
    key: IdempotencyKey = None,
) -> JSONResponse:
    """Try this configuration next, while baseline or search are under way."""
    fingerprint = fingerprint_of(request, wanted.model_dump_json().encode())
    answered = replayed(services, principal, key, fingerprint)
    if answered is not None:
        return answered
    config = trial_config(study, wanted, services)

    def make(work: Work) -> Answer:
        made = work.trials.add_manual(study.id, config, principal.name)
        if made.added:
            work.audit.record(
                principal.name, "trial.add", study.reference, detail={"trial": made.trial.number}
            )
        location = f"/api/v1/studies/{study.id}/trials/{made.trial.number}"
        return Answer(201 if made.added else 200, trial_line(made.trial), location)

    return once(services, principal, key, fingerprint, make)


@router.get(
    "/{number}", operation_id="showTrial", response_model=TrialDetail, responses=problems(404)
)
def show_trial(
    study: FoundStudy, number: Number, services: Injected, principal: Reader
) -> dict[str, object]:
    """One trial: configuration, state, attempts, diagnosis, what files it left."""
    with services.store.reading() as work:
        trial = _found(work, study, number)
        attempts = work.attempts.of_trial(study.id, number)
        measured = work.measurements.of_trial(study.id, number)
        told = read_backs(work, study.id)
    files = {a.id: services.artifacts.files(a.directory) for a in attempts}
    return trial_view(trial, attempts, measured, told, files)


@router.get(
    "/{number}/measurement",
    operation_id="showMeasurement",
    response_model=Measurements,
    responses=problems(404),
)
def show_measurement(
    study: FoundStudy, number: Number, services: Injected, principal: Reader
) -> dict[str, object]:
    """Everything the trial's attempts measured, in order."""
    with services.store.reading() as work:
        trial = _found(work, study, number)
        records = work.measurements.of_trial(study.id, number)
    return {
        "items": [
            {
                "ordinal": record.ordinal,
                "purpose": record.purpose.value,
                "round": record.round,
                "workload_seed": record.workload_seed,
                "valid": record.valid,
                "measurement": measurement_to_dict(record.measurement),
                "bottleneck": what_bound(record.measurement, trial.config),
            }
            for record in records
        ]
    }


@router.get(
    "/{number}/series",
    operation_id="showSeries",
    response_model=SeriesView,
    responses=problems(404),
)
def show_series(
    study: FoundStudy,
    number: Number,
    services: Injected,
    principal: Reader,
    attempt: MeasuredAttempt = None,
) -> dict[str, object]:
    """The engine's metrics over one of the trial's attempts; empty where none were kept."""
    chosen = _measured(study, number, attempt, services)
    if chosen is None:
        return {"points": []}
    directory = services.artifacts.resolve(chosen.directory)
    return {"points": list(series_points(directory, time_scale(stored_spec(study).engine)))}


@router.get(
    "/{number}/distribution",
    operation_id="showDistribution",
    response_model=DistributionView,
    responses=problems(404),
)
def show_distribution(
    study: FoundStudy,
    number: Number,
    services: Injected,
    principal: Reader,
    attempt: MeasuredAttempt = None,
) -> dict[str, object]:
    """How the requests of one of the trial's attempts were spread; null where no records are."""
    chosen = _measured(study, number, attempt, services)
    found = chosen and distributions(services.artifacts.resolve(chosen.directory))
    empty: dict[str, object] = {"ttft_ms": None, "tpot_ms": None}
    return {**empty, **(found or {}), "attempt": chosen.ordinal if chosen else None}


def _measured(
    study: StudyRecord, number: int, ordinal: int | None, services: Services
) -> AttemptRecord | None:
    with services.store.reading() as work:
        _found(work, study, number)
        attempts = work.attempts.of_trial(study.id, number)
    measured = [a for a in attempts if a.outcome is AttemptOutcome.MEASURED]
    chosen = [a for a in measured if ordinal is None or a.ordinal == ordinal]
    return chosen[-1] if chosen else None


@router.get(
    "/{number}/artifacts/{name:path}",
    operation_id="downloadArtifact",
    response_class=FileResponse,
    responses={
        200: {
            "description": "The file.",
            "content": {
                "text/plain": {"schema": {"type": "string"}},
                "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
            },
        },
        206: {"description": "A range of the file."},
        416: {"description": "The range is not in the file."},
        **problems(404),
    },
)
def download_artifact(
    study: FoundStudy,
    number: Number,
    name: Annotated[
        str, Path(max_length=200, examples=["engine.log", "measurement/segment-0.npz"])
    ],
    services: Injected,
    principal: Reader,
    attempt: Annotated[
        int | None,
        Query(ge=1, le=LARGEST, description="The attempt's ordinal; its last if absent."),
    ] = None,
) -> FileResponse:
    """A file that an attempt left: engine log, request records, metric series."""
    with services.store.reading() as work:
        _found(work, study, number)
        attempts = work.attempts.of_trial(study.id, number)
    chosen = [a for a in attempts if attempt is None or a.ordinal == attempt]
    if not chosen or name not in services.artifacts.files(chosen[-1].directory):
        raise ApiError(404, "there is no such file")
    media = "text/plain; charset=utf-8" if name.endswith(_TEXT) else "application/octet-stream"
    path = services.artifacts.resolve(chosen[-1].directory) / name
    return FileResponse(path, media_type=media, filename=path.name)


def _found(work: Work, study: StudyRecord, number: int) -> TrialRecord:
    trial = work.trials.find(study.id, number)
    if trial is None:
        raise ApiError(404, f"study {study.reference} has no trial {number}")
    return trial
