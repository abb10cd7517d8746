"""What the operator allows: engine profiles, models; and the workers there are."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel, Field

from api.problem import problems
from api.security.authentication import Reader
from api.services import Injected
from tuner.simulator.gpus import known_gpus
from tuner.simulator.models import known_models

router = APIRouter()


class ProfileView(BaseModel):
    """An engine that studies may name in `engine.profile`."""

    name: str = Field(examples=["vllm-stable"])
    description: str
    launcher: str = Field(description="How it is started.", examples=["process"])
    gpu: str | None
    flags: dict[str, bool | int | float | str] = Field(description="Fixed by the operator.")


class ProfileList(BaseModel):
    """All profiles, and what the embedded engine offers."""

    items: list[ProfileView]
    simulated: bool = Field(description="Whether studies may use the embedded engine.")
    simulated_gpus: list[str]


class ModelView(BaseModel):
    """A model that studies may name in `model.id`."""

    id: str = Field(examples=["Qwen/Qwen2.5-7B-Instruct"])
    profiles: list[str] | None = Field(description="Which can serve it; null: all of them.")
    max_model_len: int | None


class ModelList(BaseModel):
    """All models of real engines, and those the embedded engine knows."""

    items: list[ModelView]
    simulated_models: list[str]


class WorkerView(BaseModel):
    """A process that drives studies."""

    id: str
    host: str
    version: str
    gpus: list[str]
    state: str = Field(description="idle, driving, draining or gone.")
    living: bool = Field(description="Heard of within the last minute.")
    study_id: int | None
    started_at: str
    last_seen_at: str


class WorkerList(BaseModel):
    """Every worker that is remembered."""

    items: list[WorkerView]


@router.get(
    "/profiles",
    tags=["operator"],
    operation_id="listProfiles",
    response_model=ProfileList,
    responses=problems(),
)
def list_profiles(services: Injected, principal: Reader) -> ProfileList:
    """The engines that studies may name."""
    operator = services.settings.operator
    return ProfileList(
        items=[
            ProfileView(
                name=name,
                description=profile.description,
                launcher=profile.engine.launcher.type,
                gpu=profile.engine.gpu,
                flags=profile.engine.flags,
            )
            for name, profile in sorted(operator.profiles.items())
        ],
        simulated=operator.simulated,
        simulated_gpus=list(known_gpus()) if operator.simulated else [],
    )


@router.get(
    "/models",
    tags=["operator"],
    operation_id="listModels",
    response_model=ModelList,
    responses=problems(),
)
def list_models(services: Injected, principal: Reader) -> ModelList:
    """The models that studies may name."""
    operator = services.settings.operator
    return ModelList(
        items=[
            ModelView(id=name, profiles=model.profiles, max_model_len=model.max_model_len)
            for name, model in sorted(operator.models.items())
        ],
        simulated_models=list(known_models()) if operator.simulated else [],
    )


@router.get(
    "/workers",
    tags=["operator"],
    operation_id="listWorkers",
    response_model=WorkerList,
    responses=problems(),
)
def list_workers(services: Injected, principal: Reader) -> WorkerList:
    """The processes that drive studies."""
    with services.store.reading() as work:
        living = {worker.id for worker in work.workers.living()}
        workers = work.workers.all()
    return WorkerList(
        items=[
            WorkerView(
                id=worker.id,
                host=worker.host,
                version=worker.version,
                gpus=list(worker.gpus),
                state=worker.state.value,
                living=worker.id in living,
                study_id=worker.study_id,
                started_at=worker.started_at.isoformat(),
                last_seen_at=worker.last_seen_at.isoformat(),
            )
            for worker in workers
        ]
    )
