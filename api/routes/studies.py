"""Studies: created from a document, listed, shown, deleted."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from api.idempotency import Answer, IdempotencyKey, fingerprint_of, once, replayed
from api.pagination import DEFAULT_LIMIT, Cursor, Limit, Page, decode_number, page_of
from api.problem import problems
from api.security.authentication import Reader, Writer
from api.services import Injected, Services, computing
from api.study_body import BODY, DocumentBody, study_of
from api.study_history import history_of
from api.study_reference import FoundStudy
from tuner.domain.document import study_digest
from tuner.domain.http_document import http_form
from tuner.domain.states import StudyOrigin, StudyState
from tuner.domain.study_spec import StudySpec
from tuner.domain.well_formed import well_formed
from tuner.export.forms import render
from tuner.store.records import StudyRecord
from tuner.store.unit_of_work import Work
from tuner.study.admission import require_tunable
from tuner.study.deletion import delete_study as delete_study_of
from tuner.study.report import study_report
from tuner.study.stored_study import default_name, recommended_command
from tuner.study.study_view import study_line, study_overview, study_view

router = APIRouter(prefix="/studies", tags=["studies"])


class StudyLine(BaseModel):
    """One study in a list."""

    id: int = Field(examples=[7])
    reference: str = Field(examples=["chat-8b-l4@1"])
    name: str = Field(examples=["chat-8b-l4"])
    generation: int = Field(examples=[1])
    digest: str = Field(description="SHA-256 of the document with its defaults filled in.")
    state: str = Field(description="queued, running, paused, complete, failed or cancelled.")
    phase: str = Field(description="baseline, search, confirmation, recommendation or done.")
    requested: str | None = Field(description="`pause` or `cancel` until the driver has acted.")
    simulated: bool = Field(description="Measured on the embedded engine, not on a GPU.")
    origin: str = Field(description="`cli` or `api`.")
    created_by: str | None
    driven_by: str | None = Field(description="The worker that holds the study's lease.")
    created_at: str
    updated_at: str
    started_at: str | None
    ended_at: str | None


class Progress(BaseModel):
    """What is done, used and left; null where it is not known, what is left is a forecast."""

    trials_done: int
    trials_total: int
    starts_done: int
    starts_total: int
    elapsed_s: float | None
    time_left_s: float | None
    gpu_minutes_used: float
    gpu_minutes_limit: float | None
    gpu_minutes_left: float | None
    deadline: str | None


class ConfirmedGain(BaseModel):
    """What confirmation found between recommendation and baseline, as ln of the improvement."""

    score_mean: float
    score_low: float | None
    score_high: float | None
    rounds: int
    level: float


class StudyOverview(StudyLine):
    """One study in a list, with what it has spent and found."""

    progress: Progress
    best_trial: int | None = Field(description="The best complete trial; 0 is the baseline.")
    best_score: float | None = Field(
        description="ln of its improvement over the baseline, measured once.", examples=[0.182]
    )
    verdict: str | None = Field(
        description="better, better_but_fragile, keep_baseline or no_feasible; null before."
    )
    confirmed: ConfirmedGain | None = Field(description="Null where nothing was confirmed.")


class StudyPage(Page):
    """Some of the studies, newest first."""

    items: list[StudyOverview]


class TrialBrief(BaseModel):
    """A trial's configuration, score and headline."""

    trial: int
    flags: dict[str, Any]
    score: dict[str, Any] | None
    summary: dict[str, Any] | None


class StudyDetail(StudyLine):
    """One study whole, but for its trials."""

    document: dict[str, Any] = Field(description="The study document in its HTTP form.")
    last_event_seq: int = Field(description="Where events go on: `?after=` of the event stream.")
    progress: Progress
    incumbent: TrialBrief | None
    baseline: TrialBrief | None
    calibration: dict[str, Any] | None
    recommendation: dict[str, Any] | None
    failure: dict[str, Any] | None
    notices: list[dict[str, Any]]


@router.post(
    "",
    operation_id="createStudy",
    status_code=201,
    response_model=StudyLine,
    openapi_extra=BODY,
    responses={
        200: {"model": StudyLine, "description": "The study of this document exists already."},
        **problems(409),
    },
)
def create_study(
    request: Request,
    services: Injected,
    principal: Writer,
    body: DocumentBody,
    key: IdempotencyKey = None,
    new: Annotated[
        bool, Query(description="Start afresh although a study of this name exists.")
    ] = False,
) -> JSONResponse:
    """Store a study; a worker takes it up.

    The same document again is the study that exists (200); another document under a name that
    exists is refused (409) unless `new`.
    """
    fingerprint = fingerprint_of(request, body)
    answered = replayed(services, principal, key, fingerprint)
    if answered is not None:
        return answered
    spec = study_of(body, services)
    admit(spec, services)

    def make(work: Work) -> Answer:
        created = work.studies.create(
            spec.name or default_name(spec),
            study_digest(spec),
            spec.model_dump(mode="json"),
            new=new,
            origin=StudyOrigin.API,
            created_by=principal.name,
        )
        study = created.study
        if created.created:
            work.audit.record(principal.name, "study.create", study.reference)
        status = 201 if created.created else 200
        return Answer(status, study_line(study), f"/api/v1/studies/{study.id}")

    return once(services, principal, key, fingerprint, make)


def admit(spec: StudySpec, services: Services) -> None:
    """Raise InvalidStudyError for a model, workload or space that no study can use here."""
    with computing(services):
        require_tunable(spec, services.artifacts.root)


@router.get("", operation_id="listStudies", response_model=StudyPage, responses=problems())
def list_studies(
    services: Injected,
    principal: Reader,
    limit: Limit = DEFAULT_LIMIT,
    cursor: Cursor = None,
    state: Annotated[
        list[StudyState] | None, Query(description="Only studies in these states.")
    ] = None,
) -> dict[str, object]:
    """Stored studies, newest first."""
    after = decode_number(cursor)
    with services.store.reading() as work:
        items, following = page_of(work.studies.page(state, after, limit + 1), limit, _id)
        found = services.answers.standings(work, items)
    now = services.clock.now()
    return {
        "items": [study_overview(study, found[study.id], now) for study in items],
        "next_cursor": following,
    }


def _id(study: StudyRecord) -> int:
    return study.id


@router.get(
    "/{study}", operation_id="showStudy", response_model=StudyDetail, responses=problems(404)
)
def show_study(study: FoundStudy, services: Injected, principal: Reader) -> dict[str, object]:
    """One study: state, progress, budget, incumbent, baseline, recommendation."""
    with services.store.reading() as work:
        current = work.studies.get(study.id)
        standing = services.answers.standing(work, current)
    view = study_view(current, standing, services.clock.now())
    return {**view, "document": http_form(current.document, services.settings.operator)}


@router.get(
    "/{study}/report",
    operation_id="reportStudy",
    responses={
        200: {"description": "As `servetune study show --output json`."},
        **problems(404),
    },
)
def report_study(study: FoundStudy, services: Injected, principal: Reader) -> dict[str, Any]:
    """The whole study with every trial's attempts, and the launch command it recommends."""
    history = history_of(study, services)
    found = recommended_command(history, services.artifacts, at=services.clock.now())
    command = None if found is None else render("vllm", found.command, found.provenance)
    report: dict[str, Any] = well_formed(study_report(history, command))
    return report


@router.delete(
    "/{study}", operation_id="deleteStudy", status_code=204, responses=problems(404, 409)
)
def delete_study(study: FoundStudy, services: Injected, principal: Writer) -> Response:
    """Delete a study with everything measured in it; refused while a worker drives it."""
    delete_study_of(services.store, services.artifacts, study.id)
    with services.store.writing() as work:
        work.audit.record(principal.name, "study.delete", study.reference)
    return Response(status_code=204)
