from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.loadgen.partition import most_processes, partition
from tuner.loadgen.plan import (
    ClosedLoopSegment,
    LoadPlan,
    OpenLoopSegment,
    PlannedRequest,
    UserLoopSegment,
)


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


def test_turns_of_a_conversation_stay_in_one_process() -> None:
    requests = tuple(
        PlannedRequest(i, 5, 2, i, i * 0.25, after=i - 1 if i == 3 else None) for i in range(9)
    )
    plan = replace(plan_of(9, 9, 3), segments=(OpenLoopSegment(requests, 1.0, 2.0, 3.0),))
    assert most_processes(plan) == 1
