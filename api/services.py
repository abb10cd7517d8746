"""What the routes work with: one object per application, made by the composition root."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import BoundedSemaphore, Event
from typing import Annotated

from fastapi import Depends, Request

from api.event_feed import EventFeed
from api.metrics import ApiMetrics
from api.problem import RETRY_AFTER_S, ApiError
from api.security.rate_limit import RateLimit
from api.settings import ApiSettings
from api.study_answers import StudyAnswers
from tuner.domain.clock import Clock
from tuner.store.artifacts import ArtifactStore
from tuner.store.unit_of_work import Store


@dataclass(frozen=True, slots=True)
class Services:
    """Everything of one application.

    `forecasting` lets few requests at a time use the model; `schema_seen` is set once the
    database's schema was found current, which takes longer than a probe should.
    """

    settings: ApiSettings
    store: Store
    artifacts: ArtifactStore
    clock: Clock
    feed: EventFeed
    metrics: ApiMetrics
    failures: RateLimit
    answers: StudyAnswers
    forecasting: BoundedSemaphore
    schema_seen: Event


@contextmanager
def computing(services: Services) -> Iterator[None]:
    """A turn at the engine model, which computes for a moment; ApiError 503 when none comes up."""
    if not services.forecasting.acquire(timeout=TURN_WAIT_S):
        retry = {"Retry-After": str(RETRY_AFTER_S)}
        raise ApiError(503, "too many forecasts at once", hint="try again", headers=retry)
    try:
        yield
    finally:
        services.forecasting.release()


TURN_WAIT_S = 10.0


def services_of(request: Request) -> Services:
    found: Services = request.app.state.services
    return found


Injected = Annotated[Services, Depends(services_of)]
