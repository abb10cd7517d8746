"""ServeTune's own trace format: one JSON object a line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tuner.loadgen.conversations import Conversation
from tuner.loadgen.text_tokens import (
    ESTIMATED,
    Pieces,
    block_id,
    id_pieces,
    only_shared,
    text_pieces,
    text_token_count,
)
from tuner.loadgen.trace import ALONE, IntArray, PromptBlocks, Trace, gaps_between
from tuner.loadgen.trace_lines import (
    LONGEST_LENGTH_TOKENS,
    fault,
    json_lines,
    length_of_json,
    require_few_blocks,
    require_order,
    require_requests,
    seconds,
)

KEYS = frozenset(
    {
        "prompt",
        "token_ids",
        "prompt_tokens",
        "output_tokens",
        "arrival_s",
        "session",
        "prefix_id",
        "prefix_tokens",
    }
)
PROMPTS = ("prompt", "token_ids", "prompt_tokens")
LARGEST_TOKEN_ID = 2**31


@dataclass(slots=True)
class _Columns:
    """What has been read so far."""

    prompts: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    stamps_s: list[float] = field(default_factory=list)
    pieces: list[Pieces] = field(default_factory=list)
    previous: list[int] = field(default_factory=list)
    token_ids: list[IntArray] = field(default_factory=list)
    conversations: dict[str, Conversation] = field(default_factory=dict)
    texts: int = 0
    block_count: int = 0

    def add(self, prompt_tokens: int, output_tokens: int, pieces: Pieces, previous: int) -> None:
        self.prompts.append(prompt_tokens)
        self.outputs.append(output_tokens)
        self.pieces.append(pieces)
        self.block_count += len(pieces)
        self.previous.append(previous)


def parse_jsonl(text: str, *, source: str) -> Trace:
    """Each line one of prompt, token_ids and prompt_tokens; output_tokens; on every line or on none

    arrival_s and token_ids; session where a line is a turn of a conversation: then its prompt is
    what the user says next, and what was said before comes in front of it.
    """
    read = _Columns()
    for line, values in json_lines(text, source):
        _read_line(read, values, source, line)
        require_few_blocks(read.block_count, source, line)
    require_requests(len(read.prompts), source)
    stamps = read.stamps_s
    literal = bool(read.token_ids)
    blocks = PromptBlocks.of(only_shared(read.pieces))
    previous = np.asarray(read.previous, dtype=np.int64)
    return Trace(
        source=source,
        format="jsonl",
        prompt_tokens=np.asarray(read.prompts, dtype=np.int64),
        output_tokens=np.asarray(read.outputs, dtype=np.int64),
        gaps_s=gaps_between(np.asarray(stamps)) if stamps else None,
        blocks=blocks if blocks.ids.size else None,
        previous=previous if (previous != ALONE).any() else None,
        token_ids=tuple(read.token_ids) if literal else None,
        notes=(ESTIMATED,) if read.texts else (),
    )


def _read_line(read: _Columns, values: Mapping[str, Any], source: str, line: int) -> None:
    _require_keys(values, source, line)
    row = len(read.prompts)
    output = length_of_json(values, "output_tokens", source, line)
    tokens, pieces = _prompt(read, values, source, line)
    session = values.get("session")
    if session is None:
        read.add(tokens, output, pieces, ALONE)
    else:
        if type(session) not in (str, int):
            raise fault(source, line, "session must be text or a whole number")
        name = f"{type(session).__name__} {session}"
        conversation = read.conversations.setdefault(name, Conversation(name))
        previous = conversation.last_row
        if "token_ids" in values:
            conversation.last_row = row
            read.add(tokens, output, pieces, previous)
        else:
            own = pieces or [(block_id("own", name, row), tokens)]
            history = conversation.turn(row, own, output)
            total = sum(count for _, count in history)
            if total > LONGEST_LENGTH_TOKENS:
                raise fault(source, line, f"the conversation has grown to {total} tokens")
            read.add(total, output, history, previous)
    _read_arrival(read, values, row, source, line)


def _require_keys(values: Mapping[str, Any], source: str, line: int) -> None:
    unknown = sorted(set(values) - KEYS)
    if unknown:
        raise fault(source, line, f"unknown key {unknown[0]!r}; known: {', '.join(sorted(KEYS))}")
    given = [key for key in PROMPTS if key in values]
    if len(given) != 1:
        found = " and ".join(given) or "none"
        raise fault(source, line, f"exactly one of {', '.join(PROMPTS)} is needed, found {found}")
    if ("prefix_id" in values) != ("prefix_tokens" in values):
        raise fault(source, line, "prefix_id and prefix_tokens belong together")
    if "prefix_id" in values and "prompt_tokens" not in values:
        raise fault(
            source, line, "prefix_id goes with prompt_tokens; a prompt shows its own prefix"
        )


def _prompt(
    read: _Columns, values: Mapping[str, Any], source: str, line: int
) -> tuple[int, Pieces]:
    if bool(read.token_ids) != ("token_ids" in values) and read.prompts:
        raise fault(source, line, "token_ids must be on every line or on none")
    if "token_ids" in values:
        ids = _token_ids(values["token_ids"], source, line)
        read.token_ids.append(ids)
        return int(ids.size), id_pieces(ids)
    if "prompt" in values:
        prompt = values["prompt"]
        if not isinstance(prompt, str) or not prompt:
            raise fault(source, line, "prompt must be text that is not empty")
        read.texts += 1
        return text_token_count(prompt), text_pieces(prompt)
    tokens = length_of_json(values, "prompt_tokens", source, line)
    if "prefix_id" not in values:
        return tokens, []
    shared = length_of_json(values, "prefix_tokens", source, line)
    if shared > tokens:
        raise fault(source, line, f"prefix_tokens {shared} is more than prompt_tokens {tokens}")
    pieces = [(block_id("prefix", values["prefix_id"]), shared)]
    if "session" in values and shared < tokens:
        pieces.append((block_id("own", line), tokens - shared))
    return tokens, pieces


def _token_ids(value: object, source: str, line: int) -> IntArray:
    if (
        not isinstance(value, list)
        or not value
        or len(value) > LONGEST_LENGTH_TOKENS
        or not all(type(each) is int and 0 <= each < LARGEST_TOKEN_ID for each in value)
    ):
        raise fault(source, line, "token_ids must be a list of whole numbers of at least 0")
    return np.asarray(value, dtype=np.int64)


def _read_arrival(
    read: _Columns, values: Mapping[str, Any], row: int, source: str, line: int
) -> None:
    given = "arrival_s" in values
    if row > 0 and given != bool(read.stamps_s):
        raise fault(source, line, "arrival_s must be on every line or on none")
    if given:
        read.stamps_s.append(seconds(values["arrival_s"], "arrival_s", source, line))
        require_order(read.stamps_s, values["arrival_s"], source, line)
