"""The HTTP front end's composition root."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from threading import BoundedSemaphore, Event

from fastapi import APIRouter, FastAPI

from api import openapi
from api.dashboard.assets import installed_assets
from api.dashboard.pages import dashboard_router
from api.event_feed import EventFeed
from api.metrics import ApiMetrics, RequestTimes
from api.problem import add_handlers
from api.routes import (
    allowed,
    analysis,
    control,
    events,
    handover,
    keys,
    metrics,
    operations,
    session,
    studies,
    trials,
    uploads,
    validation,
)
from api.security.gate import Gate
from api.security.headers import SecurityHeaders
from api.security.rate_limit import RateLimit
from api.security.unexpected import Unexpected
from api.services import Services
from api.settings import ApiSettings
from api.study_answers import StudyAnswers
from tuner.domain.clock import Clock, SystemClock
from tuner.store.artifacts import ArtifactStore
from tuner.store.database import open_database
from tuner.store.unit_of_work import Store

FORECASTS_AT_ONCE = 2
PREFIX = "/api/v1"
RESOURCES = (
    validation,
    studies,
    control,
    trials,
    analysis,
    handover,
    events,
    uploads,
    allowed,
    session,
    keys,
)


def create_app(settings: ApiSettings, clock: Clock | None = None) -> FastAPI:
    """A new application; nothing is shared between two of them, and nothing is opened yet."""
    services = _services(settings, clock or SystemClock())
    app = FastAPI(
        title="ServeTune",
        version=version("servetune"),
        summary="Finds the best launch parameters of a vLLM server, and proves it.",
        openapi_url=f"{PREFIX}/openapi.json",
        # Their pages load scripts from elsewhere, which our content security policy forbids.
        docs_url=None,
        redoc_url=None,
        lifespan=_lifespan,
    )
    app.state.services = services
    app.include_router(operations.router)
    app.include_router(metrics.router)
    resources = APIRouter(prefix=PREFIX)
    for module in RESOURCES:
        resources.include_router(module.router)
    app.include_router(resources)
    app.include_router(dashboard_router(installed_assets(), version("servetune")))
    add_handlers(app)
    openapi.install(app)
    # The last one added is the first to see a request.
    app.add_middleware(Unexpected)
    app.add_middleware(Gate, settings=settings, rate=RateLimit(settings.limits.requests_per_minute))
    app.add_middleware(SecurityHeaders)
    app.add_middleware(RequestTimes, metrics=services.metrics)
    return app


def _services(settings: ApiSettings, clock: Clock) -> Services:
    store = Store(open_database(settings.database), clock)
    feed = EventFeed(
        events.StoredEvents(store),
        poll_s=settings.event_poll_s,
        queued=settings.limits.queued_events,
        most_streams=settings.limits.event_streams,
    )
    return Services(
        settings=settings,
        store=store,
        artifacts=ArtifactStore(settings.artifacts),
        clock=clock,
        feed=feed,
        metrics=ApiMetrics(store, feed, PREFIX),
        failures=RateLimit(settings.limits.failures_per_minute),
        answers=StudyAnswers(),
        forecasting=BoundedSemaphore(FORECASTS_AT_ONCE),
        schema_seen=Event(),
    )


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    services: Services = app.state.services
    try:
        yield
    finally:
        services.feed.close()
        services.store.database.close()
