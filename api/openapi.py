"""The OpenAPI document: what FastAPI derives, with the study document and problems put in."""

from __future__ import annotations

import copy
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from api.problem import Problem
from tuner.domain.study_spec import StudySpec

_REFERENCE = "#/components/schemas/{model}"
_UNUSED = ("HTTPValidationError", "ValidationError")
DESCRIPTION = """Studies are created from a document, driven by workers, and watched here.

Errors are `application/problem+json` (RFC 9457); `errors` names every fault with its path.
Lists are paged by `limit` and `cursor`. Creating requests take an `Idempotency-Key`."""


def install(app: FastAPI) -> None:
    """Let the application answer its own document with this one."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app)
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]  # FastAPI's own way to extend it


def _document(app: FastAPI) -> dict[str, Any]:
    found = get_openapi(
        title=app.title,
        version=app.version,
        summary=app.summary,
        description=DESCRIPTION,
        routes=app.routes,
    )
    schemas = found.setdefault("components", {}).setdefault("schemas", {})
    for name in _UNUSED:
        schemas.pop(name, None)
    for name, schema in (
        ("Problem", _with_parts(Problem.model_json_schema(ref_template=_REFERENCE))),
        ("StudyDocument", _with_parts(http_study_schema())),
    ):
        schemas.update(schema.pop("$parts"))
        schemas[name] = schema
    return found


def _with_parts(schema: dict[str, Any]) -> dict[str, Any]:
    return {**{k: v for k, v in schema.items() if k != "$defs"}, "$parts": schema.get("$defs", {})}


def http_study_schema() -> dict[str, Any]:
    """JSON Schema of the study document in its HTTP form."""
    schema = copy.deepcopy(StudySpec.model_json_schema(ref_template=_REFERENCE))
    parts = schema["$defs"]
    for name, keys in (
        ("ModelSpec", ("path", "revision")),
        ("VllmEngineSpec", ("launcher", "env")),
        ("SimulatedEngineSpec", ("env",)),
    ):
        for key in keys:
            parts[name]["properties"].pop(key)
    parts["VllmEngineSpec"]["properties"]["profile"] = {
        "type": "string",
        "description": "The operator's engine profile: GET /api/v1/profiles.",
    }
    parts["VllmEngineSpec"]["required"] = ["kind", "profile"]
    parts["WorkloadSpec"]["properties"]["upload"] = {
        "type": "string",
        "description": "An uploaded trace: POST /api/v1/uploads.",
    }
    parts["TraceSpec"]["properties"]["file"]["pattern"] = "^builtin:"
    unreachable = [name for name in parts if name.endswith("LauncherSpec")]
    for name in unreachable:
        parts.pop(name)
    return schema
