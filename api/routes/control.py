"""What a user asks of a study: pause, resume, cancel. Its driver acts within seconds."""

from __future__ import annotations

from fastapi import APIRouter

from api.problem import problems
from api.routes.studies import StudyLine
from api.security.authentication import Writer
from api.services import Injected, Services
from api.study_reference import FoundStudy
from tuner.domain.access import Principal
from tuner.domain.states import StudyRequest
from tuner.store.records import StudyRecord
from tuner.study.study_view import study_line

router = APIRouter(prefix="/studies/{study}", tags=["studies"])
ACCEPTED = "Asked for; `requested` says so until the driver has acted."


@router.post(
    "/pause",
    operation_id="pauseStudy",
    status_code=202,
    response_description=ACCEPTED,
    response_model=StudyLine,
    responses=problems(404, 409),
)
def pause_study(study: FoundStudy, services: Injected, principal: Writer) -> dict[str, object]:
    """Stop the engine and let nobody go on with the study until it is resumed."""
    return _stop(study, services, principal, StudyRequest.PAUSE)


@router.post(
    "/cancel",
    operation_id="cancelStudy",
    status_code=202,
    response_description=ACCEPTED,
    response_model=StudyLine,
    responses=problems(404, 409),
)
def cancel_study(study: FoundStudy, services: Injected, principal: Writer) -> dict[str, object]:
    """Stop the engine and end the study; what was measured is kept."""
    return _stop(study, services, principal, StudyRequest.CANCEL)


@router.post(
    "/resume",
    operation_id="resumeStudy",
    status_code=202,
    response_description="The study waits for a worker, or goes on.",
    response_model=StudyLine,
    responses=problems(404, 409),
)
def resume_study(study: FoundStudy, services: Injected, principal: Writer) -> dict[str, object]:
    """Let a paused, failed or cancelled study go on, or take a request back."""
    with services.store.writing() as work:
        record = work.requests.resume(study.id, by=principal.name)
        work.audit.record(principal.name, "study.resume", study.reference)
    return study_line(record)


def _stop(
    study: StudyRecord, services: Services, principal: Principal, request: StudyRequest
) -> dict[str, object]:
    with services.store.writing() as work:
        record = work.requests.stop(study.id, request, by=principal.name)
        work.audit.record(principal.name, f"study.{request.value}", study.reference)
    return study_line(record)
