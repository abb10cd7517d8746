"""Requests the server refuses, in vLLM's words and error documents."""

from __future__ import annotations

import json

from tuner.errors import InvalidInputError

_TYPES = {
    400: "BadRequestError",
    401: "AuthenticationError",
    404: "NotFoundError",
    500: "InternalServerError",
    503: "ServiceUnavailableError",
}
ENGINE_DEAD = "EngineCore encountered an issue. See stack trace (above) for the root cause."


class RejectedRequestError(InvalidInputError):
    """One API request that is answered with an error; the server goes on."""

    def __init__(self, message: str, *, status: int = 400, parameter: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.parameter = parameter

    def document(self) -> bytes:
        return error_document(self.message, self.status, self.parameter)


def error_document(message: str, status: int, parameter: str | None = None) -> bytes:
    """vLLM's `{"error": {…}}`, as a body or as the data of one event."""
    error = {
        "message": message,
        "type": _TYPES.get(status, "InternalServerError"),
        "param": parameter,
        "code": status,
    }
    return json.dumps({"error": error}, separators=(",", ":")).encode()


def prompt_too_long(prompt_tokens: int, max_model_len: int) -> RejectedRequestError:
    """A prompt that leaves no room for one output token (0.32: text depends on how far)."""
    if prompt_tokens == max_model_len:
        return RejectedRequestError(
            "max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)",
            parameter="max_tokens",
        )
    return RejectedRequestError(
        f"This model's maximum context length is {max_model_len} tokens. However, you requested 0 "
        f"output tokens and your prompt contains at least {prompt_tokens} input tokens, for a "
        f"total of at least {prompt_tokens} tokens. Please reduce the length of the input prompt "
        f"or the number of requested output tokens. (parameter=input_tokens, "
        f"value={prompt_tokens})",
        parameter="input_tokens",
    )


def invalid_field(name: str, message: str, kind: str, value: object) -> RejectedRequestError:
    """A field of the body with the wrong type or range, as vLLM renders pydantic's finding."""
    finding = {"type": kind, "loc": ("body", name), "msg": message, "input": value}
    return RejectedRequestError(f"1 validation error:\n  {finding}", parameter=name)


def malformed_json(detail: str, position: int) -> RejectedRequestError:
    finding = {
        "type": "json_invalid",
        "loc": ("body", position),
        "msg": "JSON decode error",
        "input": {},
        "ctx": {"error": detail},
    }
    return RejectedRequestError(f"1 validation error:\n  {finding}")
