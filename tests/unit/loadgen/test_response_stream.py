from __future__ import annotations

import pytest

from tests.support.scripted_server import DONE_EVENT, event, token_event, usage_event
from tuner.loadgen.records import Outcome
from tuner.loadgen.response_stream import ResponseStream
from tuner.loadgen.stream_fault import StreamFault

ROLE_EVENT = event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})


def fed(*parts: bytes, asked: int = 3) -> ResponseStream:
    """A stream that read one part per second, from second 1 on."""
    stream = ResponseStream(asked)
    for second, part in enumerate(parts, start=1):
        stream.feed(float(second), part)
    return stream


def conclusion(stream: ResponseStream) -> Outcome:
    with pytest.raises(StreamFault) as caught:
        stream.conclude()
    return caught.value.outcome


def test_tokens_are_stamped_frame_by_frame() -> None:
    last = token_event(total=3, finish_reason="length")
    stream = fed(token_event(total=1), token_event(total=2), last, usage_event(3) + DONE_EVENT)
    assert stream.frame_s.tolist() == [1.0, 2.0, 3.0]
    assert stream.frame_tokens.tolist() == [1, 1, 1]
    assert stream.last_token_s == 3.0
    stream.conclude()


def test_the_running_count_tells_how_many_tokens_a_frame_holds() -> None:
    stream = fed(token_event(total=2), token_event(total=6), asked=6)
    assert stream.frame_tokens.tolist() == [2, 4]


def test_a_frame_whose_count_did_not_grow_holds_no_token() -> None:
    stream = fed(token_event("", total=0), token_event(total=1), token_event("x", total=1))
    assert stream.frame_s.tolist() == [2.0]


def test_a_token_without_visible_text_counts_when_the_engine_counted_it() -> None:
    assert fed(token_event("", total=1)).frame_s.tolist() == [1.0]


def test_without_a_count_frames_with_text_are_tokens() -> None:
    last = token_event("x", finish_reason="length")
    stream = fed(token_event(""), token_event(), last, usage_event(2), asked=2)
    assert stream.frame_s.tolist() == [2.0, 3.0]
    assert not stream.running_count
    stream.conclude()


def test_a_role_chunk_is_not_the_first_token() -> None:
    assert fed(ROLE_EVENT, token_event()).frame_s.tolist() == [2.0]


def test_an_empty_last_chunk_with_the_finish_reason_is_no_token() -> None:
    stream = fed(token_event(), token_event("", finish_reason="length"), asked=1)
    assert stream.frame_s.tolist() == [1.0]
    assert stream.finish_reason == "length"


def test_the_usage_chunk_does_not_extend_the_answer() -> None:
    stream = fed(token_event(total=1), usage_event(1), DONE_EVENT, asked=1)
    assert stream.last_token_s == 1.0
    assert stream.received_tokens == 1


def test_final_usage_wins_over_counted_frames() -> None:
    stream = fed(token_event() + token_event(), usage_event(5), DONE_EVENT, asked=5)
    assert stream.received_tokens == 5
    stream.conclude()


def test_several_events_of_one_read_share_its_stamp() -> None:
    stream = fed(token_event(total=1) + token_event(total=2) + token_event(total=3))
    assert stream.frame_s.tolist() == [1.0, 1.0, 1.0]


def test_an_error_inside_the_stream_is_a_failure() -> None:
    with pytest.raises(StreamFault, match="503: busy") as caught:
        fed(token_event(), event({"error": {"code": 503, "message": "busy"}}), DONE_EVENT)
    assert caught.value.outcome is Outcome.ERROR_EVENT


def test_fewer_tokens_than_asked_is_a_failure() -> None:
    stream = fed(token_event(total=1, finish_reason="length"), usage_event(1), DONE_EVENT)
    assert conclusion(stream) is Outcome.WRONG_TOKEN_COUNT


def test_more_tokens_than_asked_is_a_failure() -> None:
    stream = fed(token_event(total=4, finish_reason="length"), usage_event(4), DONE_EVENT)
    assert conclusion(stream) is Outcome.WRONG_TOKEN_COUNT


def test_an_abort_is_a_failure_although_the_stream_ends_well() -> None:
    stream = fed(token_event(total=3, finish_reason="abort"), usage_event(3), DONE_EVENT)
    assert conclusion(stream) is Outcome.ABORTED


def test_a_stream_without_an_end_is_a_failure() -> None:
    assert conclusion(fed(token_event(total=3))) is Outcome.DISCONNECTED


def test_a_stream_that_ends_inside_an_event_is_a_failure() -> None:
    assert conclusion(fed(token_event(total=3) + b"data: {")) is Outcome.PROTOCOL_ERROR


def test_an_empty_answer_is_a_failure() -> None:
    assert conclusion(fed(usage_event(0), DONE_EVENT)) is Outcome.WRONG_TOKEN_COUNT
    assert conclusion(fed()) is Outcome.DISCONNECTED


def test_a_finished_answer_without_done_is_complete() -> None:
    fed(token_event(total=3, finish_reason="length")).conclude()


def test_only_the_first_fault_is_kept_and_the_connection_closed() -> None:
    stream, closed = ResponseStream(1), []
    stream.close_connection = lambda: closed.append(True)
    first = StreamFault("first", Outcome.STALLED)
    stream.fail(first)
    stream.fail(StreamFault("second"))
    assert stream.fault is first
    assert closed


def test_a_fault_before_the_connection_exists_is_kept() -> None:
    stream = ResponseStream(1)
    stream.fail(StreamFault("early", Outcome.STALLED))
    assert stream.fault is not None


def test_a_long_complaint_of_the_engine_is_cut() -> None:
    assert len(StreamFault("x" * 10_000).detail) == 300
