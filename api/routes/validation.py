"""Dry runs: every fault of a document, or what its study would do. Nothing is stored or started."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, Field

from api.problem import FaultModel, problems
from api.security.authentication import Writer
from api.services import Injected, computing
from api.study_body import BODY, DocumentBody, study_of
from tuner.errors import Fault, InvalidStudyError, InvalidTraceError
from tuner.study.admission import require_tunable
from tuner.study.plan import plan_study
from tuner.study.plan_document import plan_document

router = APIRouter(prefix="/studies", tags=["studies"])


class Validation(BaseModel):
    """Either faults, or a plan."""

    valid: bool
    errors: list[FaultModel] = Field(description="Every fault of the document.")
    plan: dict[str, Any] | None = Field(
        description="As `servetune plan --output json`: commands, memory, load, starts, time; all "
        "of it predictions. Null for a document with faults."
    )


@router.post(
    "/validate",
    operation_id="validateStudy",
    response_model=Validation,
    openapi_extra=BODY,
    responses=problems(),
)
def validate_study(services: Injected, principal: Writer, body: DocumentBody) -> Validation:
    """What `POST /studies` with this document would do, forecast without starting anything."""
    base_dir = services.artifacts.root
    try:
        spec = study_of(body, services)
        with computing(services):
            require_tunable(spec, base_dir)
            plan = plan_study(spec, base_dir)
    except InvalidStudyError as error:
        return _faulty(error.faults)
    except InvalidTraceError as error:
        return _faulty((Fault("workload.trace.file", error.message, error.hint),))
    return Validation(valid=True, errors=[], plan=plan_document(plan))


def _faulty(faults: tuple[Fault, ...]) -> Validation:
    errors = [FaultModel(path=f.path, message=f.message, hint=f.hint) for f in faults]
    return Validation(valid=False, errors=errors, plan=None)
