from __future__ import annotations

import json

import pytest

from tuner.errors import InvalidTraceError
from tuner.loadgen.jsonl_trace import parse_jsonl
from tuner.loadgen.prefix_share import shared_tokens
from tuner.loadgen.trace import ALONE, Trace

LENGTHS = {"prompt_tokens": 100, "output_tokens": 7}


def parse(*lines: object) -> Trace:
    return parse_jsonl("".join(json.dumps(line) + "\n" for line in lines), source="c.jsonl")


def shared(trace: Trace) -> list[int]:
    assert trace.blocks is not None
    blocks = trace.blocks
    return shared_tokens(blocks.of_request(row) for row in range(trace.size))


def test_lengths_and_moments() -> None:
    trace = parse({**LENGTHS, "arrival_s": 2}, {**LENGTHS, "prompt_tokens": 3, "arrival_s": 4.5})
    assert trace.prompt_tokens.tolist() == [100, 3]
    assert trace.output_tokens.tolist() == [7, 7]
    assert trace.gaps_s is not None
    assert trace.gaps_s.tolist() == [2.5, 2.5]
    assert (trace.blocks, trace.previous, trace.token_ids) == (None, None, None)


def test_lengths_alone_have_no_arrivals() -> None:
    assert parse(LENGTHS, LENGTHS).gaps_s is None


def test_named_prefixes_are_shared() -> None:
    prefixed = {**LENGTHS, "prefix_id": "system", "prefix_tokens": 60}
    trace = parse(prefixed, prefixed, {**prefixed, "prefix_id": "other"}, LENGTHS)
    assert shared(trace) == [0, 60, 0, 0]


def test_texts_that_begin_alike_share_a_prefix_of_whole_pieces() -> None:
    head = "You are helpful. " * 12  # 204 bytes: three whole pieces of 64
    trace = parse(
        {"prompt": head + "one", "output_tokens": 1}, {"prompt": head + "two!", "output_tokens": 1}
    )
    assert trace.prompt_tokens.tolist() == [52, 52]
    assert shared(trace) == [0, 48]
    assert "estimated" in trace.notes[0]


def test_a_text_that_nobody_shares_needs_no_blocks() -> None:
    assert parse({"prompt": "hello", "output_tokens": 1}).blocks is None


def test_token_ids_are_kept_and_their_prefixes_found() -> None:
    ids = list(range(100, 140))
    trace = parse(
        {"token_ids": ids, "output_tokens": 1}, {"token_ids": [*ids[:20], 7], "output_tokens": 1}
    )
    assert trace.token_ids is not None
    assert [each.tolist() for each in trace.token_ids] == [ids, [*ids[:20], 7]]
    assert shared(trace) == [0, 16]
    assert trace.notes == ()


def test_a_session_carries_what_was_said_before_and_orders_its_turns() -> None:
    trace = parse(
        {**LENGTHS, "session": "a"},
        {**LENGTHS, "session": 1},
        {**LENGTHS, "session": "a"},
        {**LENGTHS, "session": "a", "prompt_tokens": 10},
        LENGTHS,
    )
    assert trace.previous is not None
    assert trace.previous.tolist() == [ALONE, ALONE, 0, 2, ALONE]
    assert trace.prompt_tokens.tolist() == [100, 100, 207, 224, 100]
    # The last turn shares all of the prompt before it, and not its answer.
    assert shared(trace) == [0, 0, 100, 207, 0]


def test_sessions_with_named_prefixes_and_texts_share_across_sessions() -> None:
    prefixed = {**LENGTHS, "prefix_id": "system", "prefix_tokens": 60}
    trace = parse({**prefixed, "session": "a"}, {**prefixed, "session": "b"})
    assert shared(trace) == [0, 60]


def test_sessions_of_token_ids_only_order_their_turns() -> None:
    line = {"token_ids": [5, 6, 7], "output_tokens": 2, "session": "a"}
    trace = parse(line, {**line, "token_ids": [5, 6, 7, 8]})
    assert trace.previous is not None
    assert trace.previous.tolist() == [ALONE, 0]
    assert trace.prompt_tokens.tolist() == [3, 4]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"output_tokens": 3}, "exactly one of prompt, token_ids, prompt_tokens"),
        ({**LENGTHS, "prompt": "x"}, "found prompt and prompt_tokens"),
        ({"prompt_tokens": 3}, "output_tokens must be"),
        ({**LENGTHS, "prompt_tokens": True}, "prompt_tokens must be"),
        ({**LENGTHS, "prompt_tokens": 2.0}, "prompt_tokens must be"),
        ({**LENGTHS, "prompt_tokens": 10**12}, "prompt_tokens must be"),
        ({"prompt": "", "output_tokens": 3}, "prompt must be text"),
        ({"token_ids": [3], "output_tokens": 3}, "token_ids must be on every line"),
        ({**LENGTHS, "arrival_s": 3}, "arrival_s must be on every line or on none"),
        ({**LENGTHS, "prompt_tokns": 3}, "unknown key 'prompt_tokns'"),
        ({**LENGTHS, "session": 1.5}, "session must be"),
        ({**LENGTHS, "prefix_id": "x"}, "belong together"),
        ({**LENGTHS, "prefix_id": "x", "prefix_tokens": 101}, "is more than prompt_tokens"),
        ({"prompt": "x", "output_tokens": 1, "prefix_id": 1, "prefix_tokens": 1}, "its own prefix"),
        ([3], "not a JSON object"),
    ],
)
def test_a_malformed_line_is_named_and_never_dropped(line: object, message: str) -> None:
    with pytest.raises(InvalidTraceError, match=message) as caught:
        parse(LENGTHS, line, LENGTHS)
    assert caught.value.where == "c.jsonl, line 2"


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ({**LENGTHS}, "arrival_s must be on every line or on none"),
        ({**LENGTHS, "arrival_s": 0.5}, "lies before"),
        ({**LENGTHS, "arrival_s": "x"}, "arrival_s must be seconds"),
    ],
)
def test_moments_must_be_whole_and_in_order(second: object, message: str) -> None:
    with pytest.raises(InvalidTraceError, match=message) as caught:
        parse({**LENGTHS, "arrival_s": 1}, second)
    assert caught.value.where == "c.jsonl, line 2"


@pytest.mark.parametrize("ids", [[], "x", [1, -1], [1, 2**40], [1.5], [True]])
def test_token_ids_must_be_ids(ids: object) -> None:
    with pytest.raises(InvalidTraceError, match="token_ids must be a list"):
        parse({"token_ids": ids, "output_tokens": 1})


def test_a_line_ends_where_json_says_and_nowhere_else() -> None:
    text = '{"prompt": "one\u2028two\x0bthree", "output_tokens": 1}\r\n'.replace("\x0b", "\\u000b")
    assert parse_jsonl(text * 2, source="c.jsonl").size == 2


def test_histories_that_would_fill_the_memory_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tuner.loadgen.trace_lines.MOST_BLOCKS", 10)
    turn = {"prompt_tokens": 1, "output_tokens": 1, "session": "a"}
    assert parse(*[turn] * 3).size == 3
    with pytest.raises(InvalidTraceError, match="more than 10 pieces") as caught:
        parse(*[turn] * 9)
    assert caught.value.where == "c.jsonl, line 4"


def test_an_empty_file_is_refused() -> None:
    with pytest.raises(InvalidTraceError, match="no request"):
        parse_jsonl("", source="c.jsonl")


def test_a_conversation_that_grows_beyond_reason_is_refused() -> None:
    turn = {"prompt_tokens": 6_000_000, "output_tokens": 1, "session": "a"}
    with pytest.raises(InvalidTraceError, match="has grown"):
        parse(turn, turn)
