"""The scrape of Prometheus."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response
from prometheus_client.exposition import choose_encoder

from api.problem import problems
from api.security.authentication import Reader
from api.services import Injected

router = APIRouter(tags=["operations"])


@router.get(
    "/metrics",
    operation_id="metrics",
    response_class=Response,
    responses={
        200: {"content": {"text/plain": {"schema": {"type": "string"}}}},
        **problems(),
    },
)
def metrics(request: Request, services: Injected, caller: Reader) -> Response:
    """Metrics in Prometheus' text format; needs a key with the scope read.

    Labels are states, routes and references of running studies, never configurations.
    """
    encode, media_type = choose_encoder(request.headers.get("accept", ""))
    return Response(encode(services.metrics.registry), media_type=media_type)
