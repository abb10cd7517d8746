from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.support.load_records import Row, records_of
from tuner.loadgen.records import Outcome
from tuner.loadgen.silence import hung

STALL_S = 8.0


def stalled(sent_s: float, *frames: float) -> Row:
    last = frames[-1] if frames else sent_s
    return Row(sent_s=sent_s, frames=frames, outcome=Outcome.STALLED, ended_s=last + STALL_S)


def test_silence_after_the_last_token_is_a_hang() -> None:
    rows = [Row(sent_s=0.0, frames=(1.0, 2.0)), stalled(1.0, 1.5, 2.1), stalled(3.0)]
    assert hung(records_of(rows), STALL_S)


def test_an_engine_that_never_answered_hangs() -> None:
    assert hung(records_of([stalled(0.0), stalled(1.0)]), STALL_S)


def test_one_stalled_stream_beside_others_that_flow_is_no_hang() -> None:
    flowing = Row(sent_s=0.0, frames=tuple(float(t) for t in range(30)))
    assert not hung(records_of([flowing, stalled(1.0, 2.0)]), STALL_S)


def test_an_engine_that_came_back_does_not_hang() -> None:
    rows = [stalled(0.0, 1.0), Row(sent_s=20.0, frames=(21.0, 22.0))]
    assert not hung(records_of(rows), STALL_S)


@given(st.lists(st.floats(0, 100), max_size=8))
def test_without_stalled_requests_there_is_no_hang(sent: list[float]) -> None:
    rows = [Row(sent_s=at, outcome=Outcome.UNFINISHED, ended_s=at + 50) for at in sent]
    assert not hung(records_of(rows), STALL_S)
