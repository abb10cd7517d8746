"""Conversations in ShareGPT's form, or in that of chat completions: a JSON list, or a line each."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tuner.errors import InvalidTraceError
from tuner.loadgen.conversations import Conversation
from tuner.loadgen.text_tokens import ESTIMATED, Pieces, block_id, text_token_count
from tuner.loadgen.trace import PromptBlocks, Trace
from tuner.loadgen.trace_lines import fault, json_lines, require_few_blocks

_SPEAKERS = {
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "assistant": "assistant",
    "chatgpt": "assistant",
    "bard": "assistant",
    "bing": "assistant",
    "model": "assistant",
    "system": "system",
    "tool": "user",
    "function": "user",
}
_SPACE = re.compile(r"[ \t\r\n]*")


@dataclass(slots=True)
class _Turns:
    prompts: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    blocks: list[Pieces] = field(default_factory=list)
    previous: list[int] = field(default_factory=list)
    unanswered: int = 0
    silent: int = 0
    block_count: int = 0


def parse_sharegpt(text: str, *, source: str) -> Trace:
    """Every answer is a request; its prompt is all that was said before it.

    What nobody answered asks for nothing, and the notes say how much of it there is.
    """
    turns = _Turns()
    for line, values in _conversations(text, source):
        before = len(turns.prompts)
        _read(turns, list(_messages(values, source, line)), f"{line}", source, line)
        turns.silent += len(turns.prompts) == before
    if not turns.prompts:
        raise InvalidTraceError("there is no answer in it, so no request", where=source)
    notes = [ESTIMATED]
    if turns.unanswered:
        notes.append(f"{turns.unanswered:,} last messages without an answer are no requests")
    if turns.silent:
        notes.append(f"{turns.silent:,} conversations without any answer are left out")
    previous = np.asarray(turns.previous, dtype=np.int64)
    return Trace(
        source=source,
        format="sharegpt",
        prompt_tokens=np.asarray(turns.prompts, dtype=np.int64),
        output_tokens=np.asarray(turns.outputs, dtype=np.int64),
        blocks=PromptBlocks.of(turns.blocks),
        previous=previous,
        notes=tuple(notes),
    )


def _read(
    turns: _Turns, messages: list[tuple[str, str]], name: str, source: str, line: int
) -> None:
    conversation, own, asked = Conversation(name), list[tuple[int, int]](), False
    for speaker, said in messages:
        tokens = text_token_count(said)
        if not (speaker == "assistant" and asked and tokens):
            # An answer that nobody asked for is something the model was given.
            if tokens:
                own.append((block_id("message", speaker, said), tokens))
                asked = asked or speaker != "assistant"
            continue
        row, previous = len(turns.prompts), conversation.last_row
        prompt = conversation.turn(row, own, tokens)
        turns.prompts.append(sum(count for _, count in prompt))
        turns.outputs.append(tokens)
        turns.blocks.append(prompt)
        turns.block_count += len(prompt)
        require_few_blocks(turns.block_count, source, line)
        turns.previous.append(previous)
        own, asked = [], False
    turns.unanswered += asked


def _messages(values: Mapping[str, Any], source: str, line: int) -> Iterator[tuple[str, str]]:
    listed = values.get("conversations", values.get("messages"))
    if not isinstance(listed, list):
        raise fault(source, line, "expected a list under `conversations` or `messages`")
    for number, message in enumerate(listed, 1):
        if not isinstance(message, dict):
            raise fault(source, line, f"message {number} is not a JSON object")
        speaker = message.get("from", message.get("role"))
        said = message.get("value", message.get("content"))
        if not isinstance(speaker, str) or speaker.lower() not in _SPEAKERS:
            raise fault(source, line, f"message {number} is from {speaker!r}: nobody known")
        if not isinstance(said, str):
            raise fault(source, line, f"message {number} has no text under `value` or `content`")
        yield _SPEAKERS[speaker.lower()], said


def _conversations(text: str, source: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    if not text.lstrip().startswith("["):
        yield from json_lines(text, source)
        return
    decoder, at, line = json.JSONDecoder(), text.index("[") + 1, 1
    line += text.count("\n", 0, at)
    first = True
    while True:
        after = _end_of_space(text, at)
        line, at = line + text.count("\n", at, after), after
        if first and text.startswith("]", at):
            break
        first = False
        try:
            values, after = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            raise _not_json(error, source, line) from error
        if not isinstance(values, dict):
            raise fault(source, line, "is not a JSON object")
        yield line, values
        line += text.count("\n", at, after)
        at = _end_of_space(text, after)
        line += text.count("\n", after, at)
        if text.startswith(",", at):
            at += 1
        elif text.startswith("]", at):
            break
        else:
            raise fault(source, line, "not JSON: expected ',' or ']'")
    rest = _end_of_space(text, at + 1)
    if rest != len(text):
        raise fault(source, line + text.count("\n", at, rest), "not JSON: text after the list")


def _end_of_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()


def _not_json(error: ValueError | RecursionError, source: str, line: int) -> InvalidTraceError:
    if isinstance(error, json.JSONDecodeError):
        return fault(source, error.lineno, f"not JSON: {error.msg}")
    return fault(source, line, f"not JSON: {error}")
