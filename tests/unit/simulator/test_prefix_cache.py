from __future__ import annotations

import random

import pytest

from tests.support.engine_model import config, request, scheduler
from tuner.simulator import scheduler as scheduler_module
from tuner.simulator.requests import StepResult
from tuner.simulator.scheduler import Scheduler


def drain(engine: Scheduler) -> list[StepResult]:
    results = []
    while engine.has_work():
        results.append(engine.step(0.0))
        assert len(results) < 100_000
    return results


def test_a_repeated_prompt_computes_its_last_block_only() -> None:
    engine = scheduler(config(8, 2048))
    prompt = tuple(range(10))
    engine.add(request(1, 160, 1, prefix=prompt))
    assert drain(engine)[0].prefill_tokens == 160
    engine.add(request(2, 160, 1, prefix=prompt))
    # All ten blocks are cached, but one token at least must be computed: nine blocks hit.
    steps = drain(engine)
    assert steps[0].prefill_tokens == 16
    assert steps[0].admitted == ((2, 144),)
    assert engine.prefix_query_tokens == 320
    assert engine.prefix_hit_tokens == 144


def test_only_the_shared_beginning_hits() -> None:
    engine = scheduler(config(8, 2048))
    engine.add(request(1, 100, 1, prefix=(1, 2, 3, 40, 50, 60)))
    drain(engine)
    engine.add(request(2, 100, 1, prefix=(1, 2, 3, 41, 50, 60)))
    assert drain(engine)[0].prefill_tokens == 100 - 48


def test_without_prefix_caching_nothing_is_kept() -> None:
    engine = scheduler(config(8, 2048, enable_prefix_caching=False))
    for index in range(2):
        engine.add(request(index, 160, 1, prefix=tuple(range(10))))
        assert drain(engine)[0].prefill_tokens == 160
    assert engine.cached_blocks == 0
    assert engine.prefix_query_tokens == 0


def test_a_running_request_shares_blocks_with_a_new_one() -> None:
    engine = scheduler(config(8, 2048))
    prompt = tuple(range(10))
    engine.add(request(1, 160, 50, prefix=prompt))
    engine.step(0.0)
    engine.step(0.0)
    engine.add(request(2, 160, 50, prefix=prompt))
    step = engine.step(0.0)
    # Ten blocks and one for the first output; nine of them shared, one of its own.
    assert step.used_blocks == 11 + 1
    drain(engine)
    assert engine.used_blocks == 0
    assert engine.cached_blocks == 10


def test_requests_admitted_together_compute_their_prefix_each() -> None:
    engine = scheduler(config(8, 2048))
    for index in range(2):
        engine.add(request(index, 160, 1, prefix=tuple(range(10))))
    step = engine.step(0.0)
    assert step.prefill_tokens == 320
    assert engine.used_blocks == 0
    # The second copy is not kept.
    assert engine.cached_blocks == 10


def test_cached_blocks_make_way_when_blocks_are_needed() -> None:
    engine = scheduler(config(8, 2048), num_blocks=12, max_model_len=192)
    engine.add(request(1, 160, 1, prefix=tuple(range(10))))
    drain(engine)
    assert engine.cached_blocks == 10
    engine.add(request(2, 96, 1))
    assert engine.step(0.0).used_blocks == 6
    assert engine.cached_blocks == 6


def test_the_longest_unused_goes_first_and_the_end_of_a_prompt_before_its_beginning() -> None:
    engine = scheduler(config(8, 2048), num_blocks=10, max_model_len=160)
    engine.add(request(1, 64, 1, prefix=(1, 2, 3, 4)))
    drain(engine)
    engine.add(request(2, 64, 1, prefix=(11, 12, 13, 14)))
    drain(engine)
    engine.add(request(3, 60, 1))
    drain(engine)
    # Two free blocks were there; the last two of the older prompt had to go.
    engine.add(request(4, 65, 1, prefix=(1, 2, 3, 4)))
    assert drain(engine)[0].admitted == ((4, 32),)
    engine.add(request(5, 65, 1, prefix=(11, 12, 13, 14)))
    assert drain(engine)[0].admitted[0][1] >= 32


def test_a_hit_keeps_a_block_from_being_evicted() -> None:
    engine = scheduler(config(8, 2048), num_blocks=10, max_model_len=160)
    engine.add(request(1, 64, 1, prefix=(1, 2, 3, 4)))
    drain(engine)
    engine.add(request(2, 80, 20, prefix=(1, 2, 3, 4, 5)))
    engine.step(0.0)
    engine.add(request(3, 64, 1))
    drain(engine)
    engine.add(request(4, 80, 1, prefix=(1, 2, 3, 4, 5)))
    assert drain(engine)[0].admitted == ((4, 64),)


def test_output_blocks_are_cached_when_their_hashes_are_known() -> None:
    engine = scheduler(config(8, 2048))
    conversation = tuple(range(8))
    engine.add(request(1, 64, 65, prefix=conversation))
    drain(engine)
    engine.add(request(2, 130, 1, prefix=conversation))
    assert drain(engine)[0].admitted == ((2, 128),)


def test_a_preempted_request_finds_its_own_blocks_again() -> None:
    engine = scheduler(config(8, 2048), num_blocks=8, max_model_len=128)
    engine.add(request(1, 48, 40, prefix=(1, 2, 3)))
    engine.add(request(2, 48, 40, prefix=(11, 12, 13)))
    steps = drain(engine)
    assert engine.preemptions > 0
    # Statistics count a request's first admission only, as the engine's metric does.
    assert engine.prefix_query_tokens == 96
    assert engine.prefix_hit_tokens == 0
    assert engine.recomputed_tokens == sum(s.scheduled_tokens for s in steps) - 2 * 87


def test_a_preempted_copy_uses_the_blocks_of_the_one_that_was_faster() -> None:
    engine = scheduler(config(8, 2048), num_blocks=10, max_model_len=160)
    for index in (1, 2):
        engine.add(request(index, 64, 40, prefix=(1, 2, 3, 4)))
    drain(engine)
    assert engine.preemptions == 1
    # Four blocks are found again; only what came after them is computed twice.
    assert 0 < engine.recomputed_tokens < 20


def test_the_cache_can_be_reset_when_nobody_uses_it() -> None:
    engine = scheduler(config(8, 2048), num_blocks=50)
    engine.add(request(1, 160, 5, prefix=tuple(range(10))))
    engine.step(0.0)
    assert not engine.reset_prefix_cache()
    drain(engine)
    assert engine.reset_prefix_cache()
    assert engine.cached_blocks == engine.used_blocks == 0
    engine.add(request(2, 160, 1, prefix=tuple(range(10))))
    assert drain(engine)[0].prefill_tokens == 160
    engine.add(request(3, 750, 1))
    assert drain(engine)[0].used_blocks == 47


def test_a_long_life_needs_no_more_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler_module, "_SWEEP_MINIMUM", 256)
    engine = scheduler(config(8, 2048), num_blocks=40, max_model_len=400)
    source = random.Random(1)
    for index in range(300):
        shared = (source.randint(0, 3),)
        prefix = shared + tuple(10_000 + 20 * index + k for k in range(9))
        engine.add(request(index, 161, 3, prefix=prefix))
        if index % 5 == 4:
            drain(engine)
    drain(engine)
    state = engine._state
    assert len(state.hash_ids) < 8 * 40 + 2 * 10
    # 3,004 different blocks have been seen; the pool holds 40.
    assert len(state.cached) < 8 * 40 + 40
    assert engine.used_blocks == 0
    # What is cached is still found after the sweeps.
    engine.add(request(9_000, 161, 1, prefix=prefix))
    assert drain(engine)[0].admitted == ((9_000, 160),)
