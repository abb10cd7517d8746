"""What a study hands over: its recommendation, and the launch command in every form."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel, Field

from api.problem import ApiError, problems
from api.security.authentication import Reader
from api.services import Injected, Services
from api.study_history import history_of
from api.study_reference import FoundStudy
from tuner.export.forms import FORMS, render
from tuner.export.target_version import addressed_to
from tuner.store.records import StudyRecord
from tuner.study.stored_study import RecommendedCommand, recommended_command

router = APIRouter(prefix="/studies/{study}", tags=["handover"])
NO_CONTROL = r"^[^\x00-\x1f\x7f]*$"


class RecommendationView(BaseModel):
    """The verdict with its evidence; null while there is none."""

    recommendation: dict[str, Any] | None
    launch_command: str | None = Field(description="As `vllm serve`, with its provenance.")


@router.get(
    "/recommendation",
    operation_id="showRecommendation",
    response_model=RecommendationView,
    responses=problems(404),
)
def show_recommendation(
    study: FoundStudy, services: Injected, principal: Reader
) -> dict[str, object]:
    """The recommendation as it stands, with the launch command."""
    command = _recommended(study, services)
    stored = study.recommendation
    return {
        "recommendation": None if stored is None else dict(stored),
        "launch_command": None
        if command is None
        else render("vllm", command.command, command.provenance),
    }


@router.get(
    "/export",
    operation_id="exportStudy",
    response_class=PlainTextResponse,
    responses={
        200: {
            "description": "The launch command.",
            "content": {"text/plain": {"schema": {"type": "string"}}},
        },
        **problems(404, 409),
    },
)
def export_study(
    study: FoundStudy,
    services: Injected,
    principal: Reader,
    form: Annotated[
        str, Query(max_length=40, description=f"One of {', '.join(FORMS)}.", examples=["docker"])
    ] = "vllm",
    image: Annotated[
        str | None,
        Query(max_length=300, pattern=NO_CONTROL, description="Container image of the forms."),
    ] = None,
    vllm_version: Annotated[
        str | None,
        Query(max_length=40, pattern=NO_CONTROL, description="The vLLM that will read it."),
    ] = None,
) -> PlainTextResponse:
    """The recommended launch command in a form, with provenance."""
    found = _recommended(study, services)
    if found is None:
        detail = f"{study.reference} has no recommendation: it is {study.state.value}"
        raise ApiError(409, detail, hint="wait until the study is complete")
    command, provenance = found.command, found.provenance
    if image is not None:
        provenance = dataclasses.replace(provenance, image=image)
    if vllm_version is not None:
        command, provenance = addressed_to(vllm_version, provenance, command)
    return PlainTextResponse(render(form, command, provenance))


def _recommended(study: StudyRecord, services: Services) -> RecommendedCommand | None:
    if study.recommendation is None:
        return None
    history = history_of(study, services)
    return recommended_command(history, services.artifacts, at=services.clock.now())
