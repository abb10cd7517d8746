from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.scripted_server import DONE_EVENT, event, token_event, usage_event
from tuner.loadgen.sse import (
    CONTENT,
    EMPTY,
    UNCLEAR,
    Frame,
    FrameSplitter,
    is_next_token,
    quick_count,
    read_frame,
)
from tuner.loadgen.stream_fault import StreamFault

STREAM = token_event("data: {\n\ndata: ", total=1) + token_event(total=2) + DONE_EVENT
PAYLOADS = [part.removeprefix(b"data: ") for part in STREAM.split(b"\n\n")[:-1]]


def payload_of(event_bytes: bytes) -> bytes:
    (payload,) = FrameSplitter().feed(event_bytes)
    return payload


def test_one_read_with_everything_gives_every_event() -> None:
    assert FrameSplitter().feed(STREAM) == PAYLOADS


@pytest.mark.parametrize("cut", range(len(STREAM) + 1))
def test_a_read_may_end_at_any_byte(cut: int) -> None:
    splitter = FrameSplitter()
    assert splitter.feed(STREAM[:cut]) + splitter.feed(STREAM[cut:]) == PAYLOADS
    assert splitter.rest == b""


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
def test_single_bytes_give_the_same_events(line_end: bytes) -> None:
    splitter = FrameSplitter()
    stream = STREAM.replace(b"\n", line_end)
    found = [payload for value in stream for payload in splitter.feed(bytes([value]))]
    assert found == PAYLOADS


@given(cuts=st.lists(st.integers(0, len(STREAM)), max_size=20))
def test_reads_may_fall_anywhere(cuts: list[int]) -> None:
    splitter = FrameSplitter()
    edges = [0, *sorted(cuts), len(STREAM)]
    parts = [STREAM[a:b] for a, b in pairwise(edges)]
    assert [payload for part in parts for payload in splitter.feed(part)] == PAYLOADS


def test_an_unfinished_event_stays_as_rest() -> None:
    splitter = FrameSplitter()
    assert splitter.feed(b'data: {"a"') == []
    assert splitter.rest == b'data: {"a"'


@pytest.mark.parametrize(
    ("event_bytes", "payload"),
    [
        (b"data:{}\n\n", b"{}"),
        (b"data:  x\n\n", b" x"),
        (b"event: message\nid: 3\ndata: {}\n\n", b"{}"),
        (b"data: a\ndata: b\n\n", b"a\nb"),
        (b": comment\ndata: {}\n\n", b"{}"),
    ],
)
def test_the_other_ways_to_write_an_event(event_bytes: bytes, payload: bytes) -> None:
    assert FrameSplitter().feed(event_bytes) == [payload]


@pytest.mark.parametrize("silence", [b": ping\n\n", b"\n\n", b"event: x\n\n", b"data:\n\n"])
def test_comments_and_empty_events_say_nothing(silence: bytes) -> None:
    assert FrameSplitter().feed(silence + b"data: x\n\n") == [b"x"]


@pytest.mark.parametrize(
    ("event_bytes", "count"),
    [
        (token_event(total=17), 17),
        (token_event("", total=0), 0),
        (token_event(), CONTENT),
        (token_event(""), EMPTY),
        (token_event(total=9, finish_reason="length"), UNCLEAR),
        (usage_event(9), UNCLEAR),
        (DONE_EVENT, UNCLEAR),
        (event({"error": {"message": "no"}}), UNCLEAR),
        (event({"choices": [{"delta": {"content": "x"}, "finish_reason": None}]}), UNCLEAR),
    ],
)
def test_a_quick_look_counts_ordinary_chunks_and_leaves_the_rest(
    event_bytes: bytes, count: int
) -> None:
    assert quick_count(payload_of(event_bytes)) == count


@pytest.mark.parametrize(
    "text",
    [
        '"completion_tokens":99,',
        '"finish_reason":"length"',
        '"text":""',
        "data: [DONE]",
        "\r\n\r\n",
        '{"error": 1}',
        "\\",
        "é\u2028😀",
    ],
)
def test_generated_text_cannot_imitate_the_protocol(text: str) -> None:
    assert quick_count(payload_of(token_event(text, total=5))) == 5
    assert quick_count(payload_of(token_event(text))) == CONTENT


@given(text=st.text(min_size=1), total=st.integers(0, 10**6))
def test_a_quick_look_agrees_with_decoding(text: str, total: int) -> None:
    counted, plain = payload_of(token_event(text, total=total)), payload_of(token_event(text))
    assert quick_count(counted) == read_frame(counted).total_tokens == total
    assert quick_count(plain) == CONTENT
    assert read_frame(plain).has_content


def test_other_spacing_is_left_to_decoding_and_read_the_same() -> None:
    payload = json.dumps(json.loads(payload_of(token_event(total=4)))).encode()
    assert quick_count(payload) == UNCLEAR
    assert read_frame(payload) == Frame(has_content=True, has_choice=True, total_tokens=4)


@pytest.mark.parametrize(
    "delta",
    [
        {"content": "x"},
        {"reasoning": "x"},
        {"reasoning_content": "x"},
        {"tool_calls": [{"index": 0}]},
    ],
)
def test_reasoning_and_tool_calls_are_content(delta: dict[str, object]) -> None:
    chunk = {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    assert read_frame(json.dumps(chunk).encode()).has_content


@pytest.mark.parametrize(
    "delta", [{"role": "assistant"}, {"role": "assistant", "content": ""}, {}, None]
)
def test_a_role_alone_is_no_content(delta: dict[str, object] | None) -> None:
    chunk = {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    assert not read_frame(json.dumps(chunk).encode()).has_content


def test_the_usage_chunk_has_a_count_but_no_choice() -> None:
    frame = read_frame(payload_of(usage_event(12)))
    assert frame == Frame(has_content=False, has_choice=False, total_tokens=12)


def test_the_last_token_comes_with_the_finish_reason() -> None:
    frame = read_frame(payload_of(token_event("x", finish_reason="length")))
    assert frame.finish_reason == "length"
    assert frame.has_content


@pytest.mark.parametrize(
    ("error", "text"),
    [
        ({"message": "too much", "type": "x", "code": 503}, "503: too much"),
        ({"message": "too much"}, "too much"),
        ("plain", "plain"),
    ],
)
def test_an_error_in_the_stream_is_told(error: object, text: str) -> None:
    assert read_frame(json.dumps({"error": error}).encode()).error == text


@pytest.mark.parametrize("payload", [b"{", b"[]", b"3", b'{"id":"x"}', b"<html>"])
def test_what_is_no_chunk_is_a_fault(payload: bytes) -> None:
    with pytest.raises(StreamFault, match="an event"):
        read_frame(payload)


@given(text=st.text(), total=st.integers(0, 10**6))
def test_the_ordinary_event_is_recognised_whatever_its_text(text: str, total: int) -> None:
    ordinary = token_event(text, total=total)
    assert is_next_token(ordinary, total)
    assert quick_count(payload_of(ordinary)) == total


@given(text=st.text(), total=st.integers(0, 200), other=st.integers(0, 200))
def test_another_count_is_not_the_next_token(text: str, total: int, other: int) -> None:
    assert is_next_token(token_event(text, total=total), other) is (total == other)


@pytest.mark.parametrize(
    "data",
    [
        token_event(total=7) * 2,
        token_event(total=6) + token_event(total=7),
        b": ping\n\n" + token_event(total=7),
        token_event(total=7)[:-1],
        token_event(total=7)[1:],
        token_event(total=7).replace(b"\n", b"\r\n"),
        token_event(total=7, finish_reason="length"),
        token_event(total=17),
        token_event(total=70),
        token_event('"completion_tokens":7}}'),
        usage_event(7),
        event({"error": "x", "usage": {"completion_tokens": 7}}),
        DONE_EVENT,
        b"",
    ],
)
def test_anything_else_must_be_taken_apart(data: bytes) -> None:
    assert not is_next_token(data, 7)
