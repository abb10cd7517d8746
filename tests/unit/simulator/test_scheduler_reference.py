"""The kernel against a second, plain implementation of the same rules."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.engine_model import config, request, scheduler
from tests.support.reference_scheduler import ReferenceScheduler
from tuner.domain.engine_config import EngineConfig

MAX_LEN = 200


@st.composite
def engines(draw: st.DrawFn) -> EngineConfig:
    chunked = draw(st.booleans())
    tokens = draw(st.integers(8, 300)) if chunked else draw(st.integers(MAX_LEN, 2 * MAX_LEN))
    return config(
        draw(st.integers(1, min(12, tokens))),
        tokens,
        enable_chunked_prefill=chunked,
        enable_prefix_caching=False,
        long_prefill_token_threshold=draw(st.sampled_from([0, 0, 16, 90])),
        scheduling_policy=draw(st.sampled_from(["fcfs", "priority"])),
        scheduler_reserve_full_isl=draw(st.booleans()),
        block_size=draw(st.sampled_from([4, 16])),
    )


def check_same_steps(engine: EngineConfig, spare: float, seed: int) -> None:
    source = random.Random(seed)
    block_size = engine.get("block-size")
    assert isinstance(block_size, int)
    num_blocks = int(spare * -(-MAX_LEN // block_size))
    kernel = scheduler(engine, num_blocks=num_blocks, max_model_len=MAX_LEN)
    reference = ReferenceScheduler(kernel.limits, num_blocks)
    pending = [
        request(index, source.randint(1, MAX_LEN - 1), source.randint(1, 50), priority=index % 3)
        for index in range(source.randint(1, 20))
    ]
    for _ in range(20_000):
        for _ in range(source.randint(0, 2)):
            if pending:
                one = pending.pop()
                kernel.add(one)
                reference.add(one)
        assert kernel.has_work() == reference.has_work()
        if not pending and not kernel.has_work():
            return
        step, expected = kernel.step(0.0), reference.step()
        assert step.scheduled_tokens == sum(expected.scheduled.values())
        assert list(step.emitted) == expected.emitted
        assert list(step.finished) == expected.finished
        assert list(step.preempted) == expected.preempted
        assert step.used_blocks == expected.used_blocks
        assert step.waiting == len(reference.waiting)
        assert kernel.running == len(reference.running)
    raise AssertionError("no end")


@settings(deadline=None, max_examples=120)
@given(engine=engines(), spare=st.floats(1.0, 3.0), seed=st.integers(0, 2**32))
def test_both_take_the_same_steps(engine: EngineConfig, spare: float, seed: int) -> None:
    check_same_steps(engine, spare, seed)


@settings(deadline=None, max_examples=120)
@given(
    tokens=st.integers(6, 14),
    threshold=st.integers(3, 6),
    policy=st.sampled_from(["fcfs", "priority", "priority"]),
    spare=st.floats(1.0, 1.4),
    seed=st.integers(0, 2**32),
)
def test_both_do_with_tight_budgets_and_a_tight_pool(
    tokens: int, threshold: int, policy: str, spare: float, seed: int
) -> None:
    """Here preemption hits requests that this step had already given tokens."""
    engine = config(
        6,
        tokens,
        enable_prefix_caching=False,
        long_prefill_token_threshold=threshold,
        scheduling_policy=policy,
        scheduler_reserve_full_isl=False,
        block_size=4,
    )
    check_same_steps(engine, spare, seed)
