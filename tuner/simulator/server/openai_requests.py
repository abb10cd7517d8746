"""From the body of a completion or chat request to what the engine is asked for."""

from __future__ import annotations

import json
import math
import random
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tuner.simulator.server.rejections import (
    RejectedRequestError,
    invalid_field,
    malformed_json,
    prompt_too_long,
)
from tuner.simulator.server.tokens import SimulatedTokenizer

Kind = Literal["completion", "chat"]

_DEFAULT_COMPLETION_TOKENS = 16
_NATURAL_MEDIAN_TOKENS = 180.0
_NATURAL_SIGMA = 0.8
_LARGE_INT = 2**63 - 1


@dataclass(frozen=True, slots=True)
class ServedModel:
    """What requests are checked against."""

    names: tuple[str, ...]
    root: str
    max_model_len: int
    vocabulary_size: int
    priority_scheduling: bool = False


@dataclass(frozen=True, slots=True)
class Choice:
    """One answer to produce: a prompt, how long the answer is, and why it ends there."""

    prompt: list[int]
    output_tokens: int
    max_tokens: int
    stops_naturally: bool
    seed: int


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """A checked request; `choices` holds `n` answers for each prompt, in vLLM's index order."""

    kind: Kind
    model: str
    choices: tuple[Choice, ...]
    n: int
    stream: bool
    include_usage: bool
    continuous_usage: bool
    return_token_ids: bool
    priority: int
    cache_salt: str | None
    request_id: str | None = None
    """The client's name for it; a header of that name goes before it."""


def parse_body(raw: bytes) -> dict[str, Any]:
    """The JSON object of a request body; raises RejectedRequestError as vLLM answers."""
    try:
        body = json.loads(raw)
    except json.JSONDecodeError as error:
        raise malformed_json(error.msg, error.pos) from None
    except UnicodeDecodeError:
        raise malformed_json("invalid UTF-8", 0) from None
    if not isinstance(body, dict):
        raise RejectedRequestError("1 validation error:\n  Input should be a valid dictionary")
    return body


def read_request(
    body: Mapping[str, Any], kind: Kind, model: ServedModel, tokenizer: SimulatedTokenizer
) -> GenerationRequest:
    """Check a body in vLLM's order: model, fields, prompt, length. Raises RejectedRequestError."""
    name = check_model(body, model)
    n = _integer(body, "n", 1, minimum=1)
    options = _stream_options(body)
    prompts = _prompts(body, kind, tokenizer)
    for prompt in prompts:
        _check_prompt(prompt, model)
    limit = _token_limit(body, kind)
    choices = tuple(
        _choice(body, prompt, limit, model, index) for prompt in prompts for index in range(n)
    )
    return GenerationRequest(
        kind=kind,
        model=name,
        choices=choices,
        n=n,
        stream=_boolean(body, "stream", default=False),
        include_usage=options[0],
        continuous_usage=options[0] and options[1],
        return_token_ids=_boolean(body, "return_token_ids", default=False),
        priority=_priority(body, model),
        cache_salt=_cache_salt(body),
        request_id=_request_id(body),
    )


def check_model(body: Mapping[str, Any], model: ServedModel) -> str:
    """The served name a body asks for, the first without one; raises RejectedRequestError."""
    name = body.get("model")
    if name is None:
        return model.names[0]
    if name not in model.names:
        raise RejectedRequestError(
            f"The model `{name}` does not exist.", status=404, parameter="model"
        )
    return str(name)


def chat_messages(body: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(role, text) of each message; content parts that are not text are ignored."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise invalid_field("messages", "Field required", "missing", messages)
    found = []
    for message in messages:
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise invalid_field("messages", "Input should have a role", "missing", message)
        found.append((message["role"], _content(message.get("content"))))
    return found


def _content(content: object) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = [part.get("text", "") for part in content if isinstance(part, dict)]
        return "\n".join(part for part in parts if isinstance(part, str))
    return ""


def _prompts(body: Mapping[str, Any], kind: Kind, tokenizer: SimulatedTokenizer) -> list[list[int]]:
    if kind == "chat":
        return [tokenizer.encode_chat(chat_messages(body))]
    prompt = body.get("prompt")
    if isinstance(prompt, str):
        return [tokenizer.encode(prompt)]
    if isinstance(prompt, list) and prompt:
        if _all_integers(prompt):
            return [prompt]
        if all(isinstance(item, str) for item in prompt):
            return [tokenizer.encode(item) for item in prompt]
        if all(isinstance(item, list) and _all_integers(item) for item in prompt):
            return prompt
        raise invalid_field("prompt", "Input should be a valid list", "list_type", "…")
    raise RejectedRequestError(
        "Either prompt or prompt_embeds must be provided and non-empty.", parameter="prompt"
    )


def _all_integers(items: list[Any]) -> bool:
    return set(map(type, items)) == {int}


def _check_prompt(prompt: list[int], model: ServedModel) -> None:
    if not prompt:
        raise RejectedRequestError("The decoder prompt cannot be empty", parameter="prompt")
    largest = max(prompt)
    if largest >= model.vocabulary_size:
        raise RejectedRequestError(f"Token id {largest} is out of vocabulary", parameter="prompt")
    if min(prompt) < 0:
        raise invalid_field(
            "prompt",
            "Input should be greater than or equal to 0",
            "greater_than_equal",
            min(prompt),
        )
    if len(prompt) >= model.max_model_len:
        raise prompt_too_long(len(prompt), model.max_model_len)


def _token_limit(body: Mapping[str, Any], kind: Kind) -> int | None:
    """The limit a client set; None where the context's end is the limit."""
    newer = body.get("max_completion_tokens") if kind == "chat" else None
    if newer is not None:
        return _integer(body, "max_completion_tokens", 0, minimum=None)
    if kind == "completion" and "max_tokens" not in body:
        return _DEFAULT_COMPLETION_TOKENS
    if body.get("max_tokens") is None:
        return None
    return _integer(body, "max_tokens", 0, minimum=None)


def _choice(
    body: Mapping[str, Any], prompt: list[int], limit: int | None, model: ServedModel, index: int
) -> Choice:
    room = model.max_model_len - len(prompt)
    max_tokens = room if limit is None else min(limit, room)
    if max_tokens < 1:
        raise RejectedRequestError(
            f"max_tokens must be at least 1, got {max_tokens}. "
            f"(parameter=max_tokens, value={max_tokens})",
            parameter="max_tokens",
        )
    min_tokens = _integer(body, "min_tokens", 0, minimum=0)
    if min_tokens > max_tokens:
        raise RejectedRequestError(
            f"min_tokens must be less than or equal to max_tokens={max_tokens}, got {min_tokens}.",
            parameter="min_tokens",
        )
    seed = _seed(body, prompt, index)
    natural = max_tokens + 1
    if not _boolean(body, "ignore_eos", default=False):
        natural = max(natural_length(seed), min_tokens, 1)
    stops = natural <= max_tokens
    return Choice(
        prompt=prompt,
        output_tokens=min(natural, max_tokens),
        max_tokens=max_tokens,
        stops_naturally=stops,
        seed=seed,
    )


def natural_length(seed: int) -> int:
    """Tokens after which this answer ends by itself: log-normal, the same for the same seed."""
    drawn = random.Random(seed).lognormvariate(math.log(_NATURAL_MEDIAN_TOKENS), _NATURAL_SIGMA)
    return max(1, round(drawn))


def _seed(body: Mapping[str, Any], prompt: list[int], index: int) -> int:
    """The same for the same prompt, `seed` and choice: answers repeat."""
    given = _integer(body, "seed", 0, minimum=None)
    text = f"{given}:{index}:{len(prompt)}:{prompt[:32]}:{prompt[-32:]}"
    return zlib.crc32(text.encode())


def _stream_options(body: Mapping[str, Any]) -> tuple[bool, bool]:
    """(include_usage, continuous_usage_stats)."""
    options = body.get("stream_options")
    if options is None:
        return False, False
    if not _boolean(body, "stream", default=False):
        raise RejectedRequestError(
            "Stream options can only be defined when `stream=True`.", parameter="stream_options"
        )
    if not isinstance(options, dict):
        raise invalid_field(
            "stream_options", "Input should be a valid dictionary", "dict_type", options
        )
    return (
        _boolean(options, "include_usage", default=True),
        _boolean(options, "continuous_usage_stats", default=False),
    )


def _priority(body: Mapping[str, Any], model: ServedModel) -> int:
    priority = _integer(body, "priority", 0, minimum=None)
    if priority != 0 and not model.priority_scheduling:
        raise RejectedRequestError(
            f"Got priority {priority} but Priority scheduling is not enabled.",
            parameter="priority",
        )
    return priority


def _cache_salt(body: Mapping[str, Any]) -> str | None:
    salt = body.get("cache_salt")
    if salt is None:
        return None
    if not isinstance(salt, str) or not salt:
        raise RejectedRequestError(
            "Parameter 'cache_salt' must be a non-empty string if provided.",
            parameter="cache_salt",
        )
    return salt


def _request_id(body: Mapping[str, Any]) -> str | None:
    given = body.get("request_id")
    if given is not None and not isinstance(given, str):
        raise invalid_field("request_id", "Input should be a valid string", "string_type", given)
    return given


def _integer(body: Mapping[str, Any], name: str, default: int, *, minimum: int | None) -> int:
    value = body.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int):
        raise invalid_field(name, "Input should be a valid integer", "int_type", value)
    if abs(value) > _LARGE_INT:
        raise invalid_field(name, "Input should fit into 64 bits", "int_parsing_size", value)
    if minimum is not None and value < minimum:
        message = f"Input should be greater than or equal to {minimum}"
        raise invalid_field(name, message, "greater_than_equal", value)
    return value


def _boolean(body: Mapping[str, Any], name: str, *, default: bool) -> bool:
    value = body.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise invalid_field(name, "Input should be a valid boolean", "bool_type", value)
    return value
