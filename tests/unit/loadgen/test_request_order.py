from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.loadgen.request_order import (
    Order,
    conversations_in_lanes,
    recorded_order,
    recorded_stretch,
    repetitions,
    timed_conversations,
)
from tuner.loadgen.trace import ALONE, IntArray
from tuner.loadgen.workload import Workload


def workload_of(turns: list[int], *, pause_s: float = 10.0) -> Workload:
    """Conversations of so many turns each, one after the other."""
    previous = [entry - 1 if turn else ALONE for entry, turn in enumerate(_turns(turns))]
    size = len(previous)
    return Workload(
        title="t",
        prompt_tokens=np.full(size, 10),
        output_tokens=np.full(size, 5),
        gaps_s=None,
        max_model_len=100,
        clipped=0,
        digest="",
        previous=np.array(previous, dtype=np.int64),
        turn_pause_s=pause_s,
    )


def _turns(turns: list[int]) -> list[int]:
    return [turn for count in turns for turn in range(count)]


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def require_turns_in_order(workload: Workload, order: Order) -> None:
    """Each row that follows another is the turn after it, comes later, and no two follow one."""
    assert workload.previous is not None
    followed = [after for after in order.after.tolist() if after != ALONE]
    assert len(set(followed)) == len(followed)
    for row, (entry, after) in enumerate(zip(order.pool_index, order.after, strict=True)):
        if after != ALONE:
            assert after < row
            assert order.pool_index[after] == workload.previous[entry]


conversations = st.lists(st.integers(1, 6), min_size=1, max_size=12)


@settings(max_examples=40)
@given(turns=conversations, count=st.integers(1, 200), seed=st.integers(0, 2**32))
def test_every_way_keeps_turns_in_order_and_is_repeated_by_its_seed(
    turns: list[int], count: int, seed: int
) -> None:
    workload = workload_of(turns)
    due_s = np.linspace(0.0, count / 2, count)
    ways: tuple[Callable[[], Order], ...] = (
        lambda: timed_conversations(workload, due_s, rng(seed)),
        lambda: conversations_in_lanes(workload, count, 3, rng(seed)),
        lambda: recorded_stretch(workload, count, rng(seed)),
    )
    for way in ways:
        order, again = way(), way()
        assert order.pool_index.size >= count
        assert order.pool_index.tolist() == again.pool_index.tolist()
        assert order.after.tolist() == again.after.tolist()
        require_turns_in_order(workload, order)


def test_conversations_are_in_their_midst_from_the_first_moment_on() -> None:
    workload = workload_of([4] * 50)
    due_s = np.arange(4000) / 10.0
    order = timed_conversations(workload, due_s, rng())
    first_turns = order.pool_index % 4 == 0
    assert first_turns[:400].mean() == pytest.approx(0.25, abs=0.08)
    assert first_turns.mean() == pytest.approx(0.25, abs=0.02)


def test_a_pause_lies_between_two_turns() -> None:
    due_s = np.arange(8000) / 10.0
    order = timed_conversations(workload_of([4] * 50, pause_s=7.0), due_s, rng())
    rows = np.flatnonzero(order.after != ALONE)
    assert (due_s[rows] - due_s[order.after[rows]]).mean() == pytest.approx(7.0, rel=0.1)


def test_each_slot_holds_one_conversation_at_a_time() -> None:
    order = conversations_in_lanes(workload_of([3, 1, 5, 2]), 60, 4, rng())
    for lane in range(4):
        rows = np.arange(lane, order.pool_index.size, 4)
        follows = [after for after in order.after[rows].tolist() if after != ALONE]
        assert set(follows) <= set(rows.tolist())


def test_slots_begin_in_the_midst_of_conversations() -> None:
    order = conversations_in_lanes(workload_of([10] * 40), 400, 40, rng())
    entered = order.pool_index[:40] % 10
    assert len(set(entered.tolist())) > 5


def test_every_conversation_comes_once_before_any_comes_twice() -> None:
    workload = workload_of([2] * 10)
    order = conversations_in_lanes(workload, 200, 1, rng())
    begun = [int(entry) // 2 for entry in order.pool_index[order.pool_index % 2 == 0]]
    counts = Counter(begun)
    assert max(counts.values()) - min(counts.values()) <= 2
    found = repetitions(workload, order)
    after = order.after.tolist()
    assert all(found[row] == found[before] for row, before in enumerate(after) if before != ALONE)
    assert max(found) >= 8


def test_recorded_order_goes_on_at_the_beginning_and_counts_its_rounds() -> None:
    workload = workload_of([1] * 5)
    order = recorded_stretch(workload, 12, rng(3))
    steps: IntArray = np.diff(order.pool_index) % 5
    assert set(steps.tolist()) == {1}
    assert repetitions(workload, order) == [0] * 5 + [1] * 5 + [2] * 2


def test_a_turn_whose_beginning_lies_before_the_stretch_waits_for_nobody() -> None:
    workload = workload_of([3])
    order = recorded_order(workload, np.array([1, 2, 0, 1, 2]))
    assert order.after.tolist() == [ALONE, 0, ALONE, 2, 3]


def test_a_workload_without_conversations_has_none() -> None:
    workload = workload_of([1])
    alone = Workload(
        **{
            name: getattr(workload, name)
            for name in ("title", "prompt_tokens", "output_tokens", "gaps_s", "max_model_len")
        },
        clipped=0,
        digest="",
    )
    with pytest.raises(ValueError, match="no conversations"):
        conversations_in_lanes(alone, 3, 1, rng())
