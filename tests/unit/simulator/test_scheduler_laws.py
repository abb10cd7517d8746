"""Conservation laws of the scheduler, on random loads under random limits."""

from __future__ import annotations

import random
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.engine_model import LLAMA_8B, MISTRAL_7B, config, request, scheduler
from tuner.domain.engine_config import EngineConfig
from tuner.simulator import kernel_state as kernel
from tuner.simulator.models import ModelGeometry
from tuner.simulator.requests import EngineRequest, StepResult
from tuner.simulator.scheduler import Scheduler

MAX_LEN = 256


@dataclass(frozen=True)
class Case:
    engine: EngineConfig
    num_blocks: int
    model: ModelGeometry
    requests: list[EngineRequest]


@st.composite
def engines(draw: st.DrawFn) -> EngineConfig:
    chunked = draw(st.booleans())
    tokens = draw(st.integers(16, 512)) if chunked else draw(st.integers(MAX_LEN, 2 * MAX_LEN))
    return config(
        draw(st.integers(1, min(16, tokens))),
        tokens,
        enable_chunked_prefill=chunked,
        long_prefill_token_threshold=draw(st.sampled_from([0, 0, 24, 100])),
        scheduling_policy=draw(st.sampled_from(["fcfs", "priority"])),
        enable_prefix_caching=draw(st.booleans()),
        scheduler_reserve_full_isl=draw(st.booleans()),
        block_size=draw(st.sampled_from([8, 16])),
    )


@st.composite
def cases(draw: st.DrawFn) -> Case:
    engine = draw(engines())
    block_size = engine.get("block-size")
    assert isinstance(block_size, int)
    # The pool holds one request of full length at least, as the start-up check demands.
    smallest = -(-MAX_LEN // block_size)
    families = draw(st.integers(1, 4))
    requests = []
    for index in range(draw(st.integers(1, 14))):
        prompt = draw(st.integers(1, MAX_LEN - 1))
        family = draw(st.integers(0, families - 1))
        shared = draw(st.integers(0, 20))
        hashes = tuple(
            1000 * family + k if k < shared else 10**6 * (index + 1) + k
            for k in range(prompt // block_size)
        )
        requests.append(
            request(
                index,
                prompt,
                draw(st.integers(1, 60)),
                priority=draw(st.integers(0, 2)),
                prefix=hashes if draw(st.booleans()) else (),
            )
        )
    return Case(
        engine,
        draw(st.integers(smallest, 3 * smallest)),
        draw(st.sampled_from([LLAMA_8B, LLAMA_8B, MISTRAL_7B])),
        requests,
    )


def build(case: Case) -> Scheduler:
    return scheduler(
        case.engine, num_blocks=case.num_blocks, max_model_len=MAX_LEN, model=case.model
    )


def blocks_accounted_for(engine: Scheduler) -> int:
    """Free, cached without users, private, and shared ones counted once."""
    state = engine._state
    numbers = state.numbers
    private = sum(state.private[slot] for slot in engine._slot_of.values())
    in_use = sum(1 for users in state.users if users > 0)
    return numbers[kernel.FREE_BLOCKS] + numbers[kernel.EVICTABLE_BLOCKS] + private + in_use


def check_blocks(engine: Scheduler) -> None:
    state = engine._state
    assert state.numbers[kernel.FREE_BLOCKS] >= 0
    assert state.numbers[kernel.EVICTABLE_BLOCKS] >= 0
    assert all(users >= 0 for users in state.users)
    assert all(state.private[slot] >= 0 for slot in engine._slot_of.values())
    assert blocks_accounted_for(engine) == engine.num_blocks
    running = state.running[: engine.running]
    for slot in set(engine._slot_of.values()) - set(running):
        holdings = (state.private[slot], state.shared[slot], state.computed[slot])
        assert holdings == (0, 0, 0), "a waiting request holds something"
    for slot in running:
        held = (state.private[slot] + state.shared[slot]) * engine.limits.block_size
        assert state.computed[slot] <= held, "tokens without a block"


def check_step(engine: Scheduler, step: StepResult) -> None:
    limits = engine.limits
    assert step.scheduled_tokens == step.prefill_tokens + step.decode_tokens
    assert step.scheduled_tokens <= limits.max_num_batched_tokens
    assert step.running <= limits.max_num_seqs
    assert len(set(step.emitted)) == len(step.emitted)
    assert set(step.finished) <= set(step.emitted)
    assert not set(step.preempted) & set(step.emitted)
    assert step.duration_s > 0.0
    assert 0 <= step.used_blocks <= engine.num_blocks
    if step.preempted:
        assert step.admitted == ()


def drive(engine: Scheduler) -> list[StepResult]:
    steps: list[StepResult] = []
    now_s = 0.0
    while engine.has_work():
        step = engine.step(now_s)
        check_step(engine, step)
        check_blocks(engine)
        assert step.end_s > now_s, "virtual time does not move"
        now_s = step.end_s
        steps.append(step)
        assert len(steps) < 20_000, "no end"
    return steps


@settings(deadline=None, max_examples=100)
@given(case=cases())
def test_every_request_is_served_whole_and_every_token_accounted_for(case: Case) -> None:
    engine = build(case)
    for one in case.requests:
        engine.add(one)
    steps = drive(engine)
    emitted: dict[int, int] = {}
    for step in steps:
        for request_id in step.emitted:
            emitted[request_id] = emitted.get(request_id, 0) + 1
    wanted = {r.request_id: min(r.output_tokens, MAX_LEN - r.prompt_tokens) for r in case.requests}
    assert emitted == wanted
    assert sorted(i for s in steps for i in s.finished) == sorted(wanted)
    assert engine.generated_tokens == sum(wanted.values())
    assert engine.prompt_tokens == sum(r.prompt_tokens for r in case.requests)
    # What went through the model = every prompt, every output but the last of each request,
    # less what the cache spared, plus what preemption lost.
    needed = sum(r.prompt_tokens + wanted[r.request_id] - 1 for r in case.requests)
    skipped = engine._state.numbers[kernel.SKIPPED_TOKENS]
    assert engine.computed_tokens == needed - skipped + engine.recomputed_tokens
    assert engine.computed_tokens == sum(s.scheduled_tokens for s in steps)
    if not case.engine.get("enable-prefix-caching"):
        assert skipped == 0
    if engine.preemptions == 0:
        assert engine.recomputed_tokens == 0


@settings(deadline=None, max_examples=100)
@given(case=cases())
def test_all_blocks_come_back(case: Case) -> None:
    engine = build(case)
    for one in case.requests:
        engine.add(one)
    drive(engine)
    assert engine.used_blocks == 0
    state = engine._state
    assert state.numbers[kernel.FREE_BLOCKS] + engine.cached_blocks == case.num_blocks
    assert engine.cached_blocks == sum(state.cached)


@settings(deadline=None, max_examples=100)
@given(case=cases(), seed=st.integers(0, 2**32))
def test_laws_hold_with_late_arrivals_and_aborts(case: Case, seed: int) -> None:
    source = random.Random(seed)
    engine = build(case)
    pending = list(case.requests)
    alive: set[int] = set()
    finished: set[int] = set()
    aborted: set[int] = set()
    for _ in range(5_000):
        if not pending and not engine.has_work():
            break
        for _ in range(source.randint(0, 3)):
            if pending:
                one = pending.pop()
                engine.add(one)
                alive.add(one.request_id)
        if alive and source.random() < 0.1:
            victim = source.choice(sorted(alive))
            assert engine.abort(victim)
            alive.discard(victim)
            aborted.add(victim)
            check_blocks(engine)
        step = engine.step(0.0)
        check_step(engine, step)
        check_blocks(engine)
        assert not set(step.emitted) & aborted
        alive -= set(step.finished)
        finished |= set(step.finished)
        assert engine.running + engine.waiting == len(alive)
    assert finished | aborted == {r.request_id for r in case.requests}
    assert engine.used_blocks == 0


@settings(deadline=None, max_examples=100)
@given(case=cases())
def test_no_step_is_wasted_while_work_could_be_done(case: Case) -> None:
    """Work is conserved: a step without tokens only follows from preempting the last one."""
    engine = build(case)
    for one in case.requests:
        engine.add(one)
    for step in drive(engine):
        if step.scheduled_tokens == 0:
            assert step.preempted
            assert step.running == 0


@settings(deadline=None, max_examples=60)
@given(case=cases())
def test_the_same_load_gives_the_same_steps(case: Case) -> None:
    runs = []
    for _ in range(2):
        engine = build(case)
        for one in case.requests:
            engine.add(one)
        runs.append(drive(engine))
    assert runs[0] == runs[1]
