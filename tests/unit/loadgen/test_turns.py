from __future__ import annotations

import pytest

from tuner.loadgen.plan import PlannedRequest
from tuner.loadgen.turns import Turns


def request(index: int, after: int | None = None) -> PlannedRequest:
    return PlannedRequest(index, 1, 1, index, 0.0, after=after)


def test_a_turn_may_begin_when_the_one_before_has_ended() -> None:
    turns = Turns([request(0), request(1), request(2, after=0)])
    assert [turns.begins(row) for row in range(3)] == [True, True, False]
    assert turns.may_begin(1)
    assert not turns.may_begin(2)
    assert turns.ended(1) is None
    assert turns.ended(0) == 2


def test_a_turn_that_is_not_due_yet_is_not_sent_with_the_end_of_the_one_before() -> None:
    turns = Turns([request(0), request(1, after=0)])
    assert turns.ended(0) is None
    assert turns.may_begin(1)


def test_rows_are_found_by_the_index_of_the_request() -> None:
    turns = Turns([request(7), request(9, after=7)])
    assert turns.following(0) == 1
    assert turns.following(1) is None


@pytest.mark.parametrize("after", [0, 5])
def test_a_turn_that_follows_nobody_here_is_an_error(after: int) -> None:
    with pytest.raises(ValueError, match="request 0 waits for"):
        Turns([request(0, after=after)])


def test_two_turns_cannot_follow_one() -> None:
    with pytest.raises(ValueError, match="two requests wait"):
        Turns([request(0), request(1, after=0), request(2, after=0)])
