"""The HTTP front end's composition root."""

from __future__ import annotations

from importlib.metadata import version
from typing import Literal

from fastapi import FastAPI
from pydantic import BaseModel


class Health(BaseModel):
    """The process answers; says nothing about the database or workers."""

    status: Literal["ok"]
    version: str


def create_app() -> FastAPI:
    """A new application; nothing is shared between two of them."""
    app = FastAPI(
        title="ServeTune",
        version=version("servetune"),
        summary="Finds the best launch parameters of a vLLM server, and proves it.",
    )

    @app.get("/healthz", tags=["operations"], operation_id="healthz")
    def healthz() -> Health:
        """Liveness of this process."""
        return Health(status="ok", version=version("servetune"))

    return app
