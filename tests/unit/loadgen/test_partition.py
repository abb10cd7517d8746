from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.loadgen.partition import most_processes, owners, partition
from tuner.loadgen.plan import (
    ClosedLoopSegment,
    LoadPlan,
    OpenLoopSegment,
    PlannedRequest,
    UserLoopSegment,
)
from tuner.loadgen.turns import Turns


def plan_of(open_count: int, closed_count: int, concurrency: int) -> LoadPlan:
    timed = tuple(PlannedRequest(i, 5 + i, 2, 100 + i, i * 0.25) for i in range(open_count))
    untimed = tuple(PlannedRequest(i, 5, 2, 500 + i) for i in range(closed_count))
    segments = (
        OpenLoopSegment(timed, 1.0, 2.0, 3.0),
        ClosedLoopSegment(untimed, concurrency, 1.0, 2.0),
        UserLoopSegment(untimed, concurrency, 1.0, 2.0, 3.0),
    )
    return LoadPlan("http://127.0.0.1:1", "m", segments, 100, 7, 1.0, 30.0)


plans = st.builds(plan_of, st.integers(1, 40), st.integers(1, 40), st.integers(1, 12))


@given(plan=plans, data=st.data())
def test_the_parts_together_are_the_plan(plan: LoadPlan, data: st.DataObject) -> None:
    processes = data.draw(st.integers(1, most_processes(plan)))
    parts = partition(plan, processes)
    assert len(parts) == processes
    for number, segment in enumerate(plan.segments):
        shares = [part.segments[number] for part in parts]
        together = sorted(
            (request for share in shares for request in share.requests), key=lambda r: r.index
        )
        assert tuple(together) == segment.requests
        sizes = [len(share.requests) for share in shares]
        assert max(sizes) - min(sizes) <= 1
        assert min(sizes) > 0
        if not isinstance(segment, OpenLoopSegment):
            assert {type(share) for share in shares} == {type(segment)}
            slots = [
                share.concurrency for share in shares if not isinstance(share, OpenLoopSegment)
            ]
            assert sum(slots) == segment.concurrency
            assert min(slots) > 0
            assert max(slots) - min(slots) <= 1
        assert {share.window_s for share in shares} == {segment.window_s}
        assert {share.warmup_s for share in shares} == {segment.warmup_s}


def test_what_all_requests_share_goes_to_every_part() -> None:
    plan = plan_of(4, 4, 4)
    for part in partition(plan, 3):
        assert (part.salt, part.model, part.vocabulary_size) == (7, "m", 100)
        assert (part.base_url, part.time_scale, part.stall_s) == (plan.base_url, 1.0, 30.0)


def test_one_process_gets_the_plan_as_it_is() -> None:
    plan = plan_of(4, 4, 4)
    assert partition(plan, 1) == (plan,)


def test_no_process_is_left_without_requests_or_slots() -> None:
    assert most_processes(plan_of(4, 9, 3)) == 3
    assert most_processes(plan_of(2, 9, 3)) == 2
    assert most_processes(plan_of(0, 9, 3)) == 1
    with pytest.raises(ValueError, match="4 processes for a plan that 3 can share"):
        partition(plan_of(4, 9, 3), 4)


@st.composite
def conversations(draw: st.DrawFn) -> tuple[PlannedRequest, ...]:
    """Requests, each of which may follow an earlier one that none follows yet."""
    ends: list[int] = []
    found = []
    for index in range(draw(st.integers(1, 40))):
        after = draw(st.sampled_from([None, *ends]))
        if after is not None:
            ends.remove(after)
        ends.append(index)
        found.append(PlannedRequest(index, 5, 2, index, index * 0.25, after=after))
    return tuple(found)


@given(requests=conversations(), concurrency=st.integers(1, 8), data=st.data())
def test_turns_of_a_conversation_stay_in_one_process(
    requests: tuple[PlannedRequest, ...], concurrency: int, data: st.DataObject
) -> None:
    plan = replace(
        plan_of(1, 1, 1),
        segments=(
            OpenLoopSegment(requests, 1.0, 2.0, 3.0),
            ClosedLoopSegment(requests, concurrency, 1.0, 2.0),
        ),
    )
    begun = sum(request.after is None for request in requests)
    assert most_processes(plan) == min(begun, concurrency)
    parts = partition(plan, data.draw(st.integers(1, most_processes(plan))))
    for number in range(2):
        shares = [part.segments[number].requests for part in parts]
        for share in shares:
            Turns(share)  # raises where a turn's predecessor is elsewhere
            assert [r.index for r in share] == sorted(r.index for r in share)
        firsts = [sum(r.after is None for r in share) for share in shares]
        assert max(firsts) - min(firsts) <= 1
        assert sorted(r.index for share in shares for r in share) == list(range(len(requests)))


def test_a_turn_that_follows_nothing_is_refused() -> None:
    lost = PlannedRequest(1, 5, 2, 1, 0.5, after=7)
    with pytest.raises(ValueError, match="request 1 waits for 7, which is not here"):
        owners((PlannedRequest(0, 5, 2, 0, 0.0), lost), 2)
    early = (PlannedRequest(0, 5, 2, 0, 0.0, after=1), PlannedRequest(1, 5, 2, 1, 0.5))
    with pytest.raises(ValueError, match="request 0 waits for 1, which comes later"):
        owners(early, 2)


def test_requests_that_are_alone_are_dealt_out_in_turn() -> None:
    requests = tuple(PlannedRequest(i, 5, 2, i, i * 0.25) for i in range(7))
    assert owners(requests, 3) == [0, 1, 2, 0, 1, 2, 0]
