from __future__ import annotations

import json

import pytest

from tuner.errors import InvalidTraceError
from tuner.loadgen.prefix_share import shared_tokens
from tuner.loadgen.sharegpt_trace import parse_sharegpt
from tuner.loadgen.trace import ALONE, Trace

TALK = ("human", "x" * 40), ("gpt", "y" * 20), ("human", "z" * 8), ("gpt", "w" * 80)


def conversation(*messages: tuple[str, str]) -> dict[str, object]:
    return {"conversations": [{"from": speaker, "value": said} for speaker, said in messages]}


def parse(*conversations: object) -> Trace:
    return parse_sharegpt(json.dumps(conversations), source="s.json")


def blocks(trace: Trace, row: int) -> list[tuple[int, int]]:
    assert trace.blocks is not None
    return trace.blocks.of_request(row)


def test_each_answer_is_a_request_that_carries_what_was_said_before() -> None:
    trace = parse(conversation(*TALK))
    assert trace.prompt_tokens.tolist() == [10, 10 + 5 + 2]
    assert trace.output_tokens.tolist() == [5, 20]
    assert trace.previous is not None
    assert trace.previous.tolist() == [ALONE, 0]
    first, second = blocks(trace, 0), blocks(trace, 1)
    assert second[: len(first)] == first
    assert [tokens for _, tokens in second] == [10, 5, 2]
    assert trace.gaps_s is None


def test_equal_system_prompts_are_equal_blocks_and_equal_answers_are_not() -> None:
    one = conversation(("system", "be kind" * 20), *TALK)
    trace = parse(one, one)
    found = shared_tokens(blocks(trace, row) for row in range(4))
    # Of the last, the answer to its predecessor stands between what was asked twice.
    assert found == [0, 35 + 10, 35 + 10, 35 + 10]


def test_chat_messages_and_a_line_each_are_read_alike() -> None:
    names = {"human": "user", "gpt": "assistant"}
    messages = [{"role": names[speaker], "content": said} for speaker, said in TALK]
    trace = parse_sharegpt(json.dumps({"messages": messages}) + "\n", source="s.jsonl")
    assert trace.prompt_tokens.tolist() == parse(conversation(*TALK)).prompt_tokens.tolist()


def test_what_asks_for_nothing_is_counted_out_loud() -> None:
    trace = parse(
        conversation(*TALK, ("human", "and then?")),
        conversation(("human", "anybody?")),
        conversation(("gpt", "I begin."), ("human", "you did"), ("gpt", "yes")),
        conversation(),
    )
    assert trace.size == 3
    assert trace.prompt_tokens[2] == 2 + 2
    assert "2 last messages without an answer are no requests" in trace.notes
    assert "2 conversations without any answer are left out" in trace.notes
    assert "estimated" in trace.notes[0]


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        ("[\n{},\n]", 2, "expected a list under"),
        ('[\n{"conversations": [1]}\n]', 2, "message 1 is not"),
        ('[\n{"conversations": []},\n\n{"conversations": 3}]', 4, "expected a list"),
        ('[{"conversations": [{"from": "me", "value": "x"}]}]', 1, "'me': nobody known"),
        ('[{"conversations": [{"from": "gpt"}]}]', 1, "has no text"),
        ('[\n{"conversations": [}\n]', 2, "not JSON"),
        ('[\n{"conversations": []}\n{"conversations": []}]', 3, "expected ',' or"),
        ('[{"conversations": []},\n]', 2, "not JSON"),
        ('[{"conversations": []}\n', 2, "expected ',' or"),
        ('[{"conversations": []}]\nmore', 2, "text after the list"),
        ("[[]]", 1, "is not a JSON object"),
        ("[" * 200_000, 1, "not JSON"),
        ('{"messages": []}\n\n', 2, "the line is empty"),
        ('{"messages": [}\n', 1, "not JSON"),
    ],
)
def test_a_malformed_place_is_named(text: str, where: int, message: str) -> None:
    with pytest.raises(InvalidTraceError, match=message) as caught:
        parse_sharegpt(text, source="s.json")
    assert caught.value.where == f"s.json, line {where}"


def test_histories_that_would_fill_the_memory_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tuner.loadgen.trace_lines.MOST_BLOCKS", 3)
    with pytest.raises(InvalidTraceError, match="more than 3 pieces"):
        parse(conversation(*TALK))


def test_a_file_without_answers_is_refused() -> None:
    with pytest.raises(InvalidTraceError, match="no answer"):
        parse(conversation(("human", "anybody?")))
