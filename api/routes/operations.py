"""Probes: whether the process answers, and whether it can serve."""

from __future__ import annotations

from importlib.metadata import version
from typing import Literal

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from api.services import Injected, Services
from tuner.errors import SchemaNotCurrentError, ServeTuneError
from tuner.store.schema import check

router = APIRouter(tags=["operations"])


class Health(BaseModel):
    """The process answers; says nothing about the database or workers."""

    status: Literal["ok"]
    version: str = Field(examples=["0.1.0"])


class Readiness(BaseModel):
    """Whether requests can be served, part by part; details are in the log, not here."""

    ready: bool
    database: Literal["current", "not current", "not reachable"]
    workers: int | None = Field(description="Living workers; null when that cannot be read.")
    worker_needed: bool


@router.get("/healthz", operation_id="healthz")
async def healthz() -> Health:
    """Liveness of this process."""
    return Health(status="ok", version=version("servetune"))


@router.get(
    "/readyz",
    operation_id="readyz",
    response_model=Readiness,
    responses={503: {"model": Readiness, "description": "Not ready."}},
)
def readyz(services: Injected) -> JSONResponse:
    """Whether the database is there with the current schema, and a worker where one is needed."""
    found = readiness(services)
    return JSONResponse(found.model_dump(), status_code=200 if found.ready else 503)


def readiness(services: Services) -> Readiness:
    """Look at everything a request needs."""
    needed = services.settings.needs_worker
    try:
        if not services.schema_seen.is_set():
            check(services.settings.database)
            services.schema_seen.set()
        with services.store.reading() as work:
            workers = len(work.workers.living())
    except ServeTuneError as error:
        stale = isinstance(error, SchemaNotCurrentError)
        state: Literal["not current", "not reachable"] = "not current" if stale else "not reachable"
        return Readiness(ready=False, database=state, workers=None, worker_needed=needed)
    return Readiness(
        ready=workers > 0 or not needed, database="current", workers=workers, worker_needed=needed
    )
