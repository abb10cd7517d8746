"""Answers in OpenAI's formats as vLLM 0.32 writes them: whole, or as server-sent events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tuner.simulator.server.openai_requests import GenerationRequest
from tuner.simulator.server.rejections import ENGINE_DEAD, RejectedRequestError, error_document
from tuner.simulator.server.sequence import Sequence
from tuner.simulator.server.tokens import SimulatedTokenizer

DONE_EVENT = b"data: [DONE]\n\n"


@dataclass(frozen=True, slots=True)
class AnswerIdentity:
    """What every document of one answer repeats."""

    response_id: str
    created: int
    model: str
    prompt_tokens_details: bool = False


def _json(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def _usage(prompt: int, completion: int, cached: int | None = None) -> dict[str, Any]:
    usage: dict[str, Any] = {
        "prompt_tokens": prompt,
        "total_tokens": prompt + completion,
        "completion_tokens": completion,
    }
    if cached is not None:
        usage["prompt_tokens_details"] = {"cached_tokens": cached}
    return usage


def _total_usage(
    sequences: list[Sequence], request: GenerationRequest, identity: AnswerIdentity
) -> dict[str, Any]:
    """Usage over all choices; a prompt counts once however many answers it got."""
    per_prompt = sequences[:: request.n]
    cached = sum(sequence.cached_tokens for sequence in per_prompt)
    return _usage(
        sum(sequence.prompt_tokens for sequence in per_prompt),
        sum(sequence.generated for sequence in sequences),
        cached if identity.prompt_tokens_details else None,
    )


def _text_tokens(sequence: Sequence, first: int, count: int) -> int:
    """How many of these tokens have text: the one that ends an answer by itself has none."""
    end = sequence.request.output_tokens
    ends_here = sequence.stops_naturally and count > 0 and first + count == end
    return count - 1 if ends_here else count


class StreamedAnswer:
    """Writes events as tokens come. `done` is set when the last event is written."""

    def __init__(
        self,
        request: GenerationRequest,
        identity: AnswerIdentity,
        tokenizer: SimulatedTokenizer,
        write: Callable[[bytes], None],
    ) -> None:
        self.sequences: list[Sequence] = []
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._request = request
        self._identity = identity
        self._tokenizer = tokenizer
        self._write = write
        self._open = len(request.choices)
        self._plain = not (request.continuous_usage or request.return_token_ids)
        kind = "text_completion" if request.kind == "completion" else "chat.completion.chunk"
        common = {
            "id": identity.response_id,
            "object": kind,
            "created": identity.created,
            "model": identity.model,
        }
        self._head = b"data: " + _json(common)[:-1] + b',"choices":['
        self._starts = [self._choice_start(index) for index in range(len(request.choices))]
        self._tail = self._choice_end(None, None, None) + b"]}\n\n"

    def deliver(self, sequence: Sequence, count: int) -> None:
        events = self._events(sequence, count)
        sequence.delivered += count
        if sequence.finish_reason is not None:
            self._open -= 1
            if self._open == 0:
                events += self._closing_events()
        if events:
            self._write(events)
        if self._open == 0 and not self.done.done():
            self.done.set_result(None)

    def fail(self, message: str) -> None:
        if not self.done.done():
            self._write(b"data: " + error_document(message, 500) + b"\n\n" + DONE_EVENT)
            self.done.set_result(None)

    def _events(self, sequence: Sequence, count: int) -> bytes:
        start = self._starts[sequence.choice]
        first = sequence.delivered
        if self._plain and first and sequence.finish_reason is None:
            text = self._tokenizer.generated_text(sequence.seed, first, count)
            return start + text + self._tail
        if first + count == 0:
            return b""
        shown = _text_tokens(sequence, first, count)
        text = self._tokenizer.generated_text(sequence.seed, first, shown)
        event = start + text + self._full_tail(sequence, first, count)
        if first == 0 and self._request.kind == "chat":
            return self._role_event(sequence) + event
        return event

    def _full_tail(self, sequence: Sequence, first: int, count: int) -> bytes:
        tokens = prompt = None
        if self._request.return_token_ids:
            tokens = self._tokenizer.generated_ids(sequence.seed, first, count)
            if first == 0:
                prompt = self._request.choices[sequence.choice].prompt
        end = self._choice_end(sequence.finish_reason, tokens, prompt)
        return end + b"]" + self._continuous_usage(sequence, first + count) + b"}\n\n"

    def _continuous_usage(self, sequence: Sequence, generated: int) -> bytes:
        if not self._request.continuous_usage:
            return b""
        return b',"usage":' + _json(_usage(sequence.prompt_tokens, generated))

    def _role_event(self, sequence: Sequence) -> bytes:
        delta = {"role": "assistant", "content": ""}
        choice = {"index": sequence.choice, "delta": delta, "logprobs": None, "finish_reason": None}
        prompt_ids = None
        if self._request.return_token_ids:
            prompt_ids = self._request.choices[sequence.choice].prompt
        return (
            self._head
            + _json(choice)
            + b'],"prompt_token_ids":'
            + _json(prompt_ids)
            + self._continuous_usage(sequence, 0)
            + b"}\n\n"
        )

    def _choice_start(self, index: int) -> bytes:
        field = b'"text":"' if self._request.kind == "completion" else b'"delta":{"content":"'
        return self._head + b'{"index":%d,' % index + field

    def _choice_end(
        self, reason: str | None, tokens: list[int] | None, prompt: list[int] | None
    ) -> bytes:
        rest: dict[str, Any] = {"logprobs": None, "finish_reason": reason}
        if self._request.kind == "completion":
            rest |= {"stop_reason": None, "prompt_token_ids": prompt, "token_ids": tokens}
            return b'",' + _json(rest)[1:]
        if reason is not None:
            rest["stop_reason"] = None
        rest["token_ids"] = tokens
        return b'"},' + _json(rest)[1:]

    def _closing_events(self) -> bytes:
        if not self._request.include_usage:
            return DONE_EVENT
        usage = _total_usage(self.sequences, self._request, self._identity)
        return self._head + b'],"usage":' + _json(usage) + b"}\n\n" + DONE_EVENT


class CollectedAnswer:
    """Waits for every choice; `done` gives the whole document or raises RejectedRequestError."""

    def __init__(
        self, request: GenerationRequest, identity: AnswerIdentity, tokenizer: SimulatedTokenizer
    ) -> None:
        self.sequences: list[Sequence] = []
        self.done: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._request = request
        self._identity = identity
        self._tokenizer = tokenizer
        self._open = len(request.choices)

    def deliver(self, sequence: Sequence, count: int) -> None:
        sequence.delivered += count
        if sequence.finish_reason is None:
            return
        self._open -= 1
        if self._open == 0 and not self.done.done():
            self.done.set_result(self._document())

    def fail(self, message: str) -> None:
        if not self.done.done():
            self.done.set_exception(RejectedRequestError(message or ENGINE_DEAD, status=500))

    def _document(self) -> bytes:
        chat = self._request.kind == "chat"
        answered = [sequence for sequence in self.sequences if sequence.generated]
        return _json(
            {
                "id": self._identity.response_id,
                "object": "chat.completion" if chat else "text_completion",
                "created": self._identity.created,
                "model": self._identity.model,
                "choices": [self._choice(sequence) for sequence in answered],
                "service_tier": None,
                "system_fingerprint": None,
                "usage": _total_usage(self.sequences, self._request, self._identity),
                "kv_transfer_params": None,
            }
        )

    def _choice(self, sequence: Sequence) -> dict[str, Any]:
        shown = _text_tokens(sequence, 0, sequence.generated)
        text = self._tokenizer.generated_text(sequence.seed, 0, shown).decode()
        tokens = prompt = None
        if self._request.return_token_ids:
            tokens = self._tokenizer.generated_ids(sequence.seed, 0, sequence.generated)
            prompt = self._request.choices[sequence.choice].prompt
        choice: dict[str, Any] = {"index": sequence.choice}
        if self._request.kind == "chat":
            choice["message"] = {"role": "assistant", "content": text, "tool_calls": []}
        else:
            choice["text"] = text
        choice |= {"logprobs": None, "finish_reason": sequence.finish_reason, "stop_reason": None}
        choice["token_ids"] = tokens
        if self._request.kind == "completion":
            choice["prompt_token_ids"] = prompt
        return choice
