from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.engine_model import H100, L4, LLAMA_7B, LLAMA_8B, config, random_load, request
from tuner.domain.engine_config import EngineConfig
from tuner.errors import InvalidInputError
from tuner.simulator.engine_model import SimulatedRun, simulate
from tuner.simulator.gpus import Gpu, gpu_preset, known_gpus
from tuner.simulator.hardware import Hardware
from tuner.simulator.limits import engine_limits
from tuner.simulator.models import ModelGeometry
from tuner.simulator.requests import EngineRequest
from tuner.simulator.scheduler import BOTTLENECKS, Scheduler


def serve(
    requests: list[EngineRequest],
    engine: EngineConfig,
    *,
    gpu: Gpu = H100,
    model: ModelGeometry = LLAMA_8B,
    max_model_len: int = 4096,
    hardware: Hardware | None = None,
    concurrency: int | None = None,
    until_s: float | None = None,
) -> SimulatedRun:
    return simulate(
        requests,
        engine,
        gpu,
        1,
        model,
        max_model_len,
        hardware,
        concurrency=concurrency,
        backend="python",
        until_s=until_s,
    )


def test_an_idle_engine_waits_for_the_next_arrival() -> None:
    run = serve([request(1, 100, 2, at_s=1.0), request(2, 100, 2, at_s=50.0)], config(8, 2048))
    assert run.steps.start_s[0] == 1.0
    assert run.steps.start_s[2] == 50.0
    assert run.busy_share is not None
    assert run.busy_share < 0.01


def test_times_are_counted_from_arrival_and_per_token() -> None:
    run = serve([request(1, 100, 5, at_s=2.0)], config(8, 2048))
    ends = run.steps.start_s + run.steps.duration_s
    assert run.ttft_s[0] == pytest.approx(ends[0] - 2.0)
    assert run.e2e_s[0] == pytest.approx(ends[4] - 2.0)
    assert run.tpot_s[0] == pytest.approx((ends[4] - ends[0]) / 4)
    assert run.max_gap_s[0] == pytest.approx(run.steps.duration_s[1:].max())


def test_the_largest_gap_is_kept_when_smaller_ones_follow() -> None:
    load = [request(1, 100, 60), request(2, 2000, 2, at_s=0.1)]
    run = serve(load, config(8, 4096))
    row = int(np.flatnonzero(run.steps.prefill_tokens == 2000)[0])
    assert run.steps.decode_tokens[row] == 1
    assert run.max_gap_s[0] == pytest.approx(run.steps.duration_s[row])
    assert run.max_gap_s[0] > 2 * run.steps.duration_s[-1]


def test_results_come_in_the_order_of_the_requests_given() -> None:
    late, early = request(10, 500, 3, at_s=5.0), request(20, 50, 7, at_s=0.0)
    run = serve([late, early], config(8, 2048))
    assert run.request_ids == (10, 20)
    assert list(run.output_tokens) == [3, 7]
    assert list(run.entered_s) == [5.0, 0.0]


def test_a_request_with_one_token_has_no_time_per_output_token() -> None:
    run = serve([request(1, 10, 1)], config(8, 2048))
    assert np.isnan(run.tpot_s[0])
    assert not np.isnan(run.ttft_s[0])


def test_the_batch_and_the_online_scheduler_take_the_same_steps() -> None:
    load = random_load(40, 3, prompt=(50, 900), output=(2, 60), rate_per_s=30.0)
    engine = config(16, 512)
    run = serve(load, engine)
    limits = engine_limits(engine, 4096)
    online = Scheduler(limits, LLAMA_8B, run.cost_model.costs(512), run.memory.num_blocks)
    now_s, pending, seen = 0.0, list(load), []
    while pending or online.has_work():
        while pending and pending[0].arrival_s <= now_s:
            online.add(pending.pop(0))
        if not online.has_work():
            now_s = pending[0].arrival_s
            continue
        step = online.step(now_s)
        seen.append((step.start_s, step.duration_s, step.prefill_tokens, step.decode_tokens))
        now_s = step.end_s
    columns = (
        run.steps.start_s,
        run.steps.duration_s,
        run.steps.prefill_tokens,
        run.steps.decode_tokens,
    )
    assert seen == list(zip(*(column.tolist() for column in columns), strict=True))


def test_a_closed_loop_keeps_its_concurrency() -> None:
    load = random_load(50, 1, prompt=(50, 100), output=(5, 40))
    run = serve(load, config(64, 2048), concurrency=8)
    assert run.steps.running.max() == 8
    assert run.finished.all()
    # A new request begins when one has ended, so nobody waits long.
    assert float(np.nanmax(run.ttft_s)) < 1.0
    assert run.entered_s.max() > 0.0


@pytest.mark.parametrize("concurrency", [None, 8])
def test_a_run_that_is_stopped_shows_what_the_whole_one_showed_until_then(
    concurrency: int | None,
) -> None:
    load = random_load(400, 1, prompt=(50, 100), output=(5, 40), rate_per_s=20.0)
    whole = serve(load, config(64, 2048), concurrency=concurrency)
    until_s = whole.end_s / 4
    stopped = serve(load, config(64, 2048), concurrency=concurrency, until_s=until_s)
    assert len(stopped.steps) < len(whole.steps)
    assert stopped.end_s >= until_s
    assert not stopped.stalled
    assert not stopped.finished.all()
    ended = whole.last_token_s <= until_s
    assert ended.any()
    np.testing.assert_array_equal(stopped.last_token_s[ended], whole.last_token_s[ended])
    np.testing.assert_array_equal(
        stopped.steps.duration_s, whole.steps.duration_s[: len(stopped.steps)]
    )


def test_a_run_that_is_over_before_its_end_is_the_whole_run() -> None:
    load = random_load(20, 1, prompt=(50, 100), output=(5, 40), rate_per_s=20.0)
    whole = serve(load, config(64, 2048))
    ended = serve(load, config(64, 2048), until_s=whole.end_s + 1.0)
    assert ended.finished.all()
    np.testing.assert_array_equal(ended.last_token_s, whole.last_token_s)


def test_a_configuration_that_does_not_start_gives_its_failure_and_nothing_else() -> None:
    run = serve(
        [request(1, 10, 5)], config(64, 2048, gpu_memory_utilization=0.5), gpu=L4, model=LLAMA_8B
    )
    assert run.failure is not None
    assert run.failure.failure_class == "kv_none"
    assert len(run.steps) == 0
    assert not run.finished.any()
    assert np.isnan(run.ttft_s).all()
    assert run.output_tokens_per_s is None
    assert run.kv_usage_peak is None
    assert run.busy_share is None
    assert run.achieved_compute is None
    assert run.achieved_bandwidth is None
    assert run.bottleneck_shares() == {}
    assert (run.end_s, run.span_s) == (0.0, 0.0)


def test_an_engine_out_of_memory_dies_with_the_step_that_was_too_large() -> None:
    load = random_load(200, 1, prompt=(1500, 3000), output=(5, 10))
    engine = config(256, 32768, gpu_memory_utilization=0.98)
    run = serve(load, engine)
    assert run.failure is None
    assert run.out_of_memory
    assert not run.finished.all()
    gentle = random_load(200, 1, prompt=(100, 200), output=(5, 10), rate_per_s=5.0)
    assert serve(gentle, engine).finished.all()


def test_a_prompt_without_room_for_output_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="request 7"):
        serve([request(7, 4096, 1)], config(8, 2048))


def test_prefix_hits_shorten_the_time_to_the_first_token() -> None:
    prefix = tuple(range(180))
    load = [request(i, 3000, 5, at_s=float(i), prefix=prefix) for i in range(5)]
    cached = serve(load, config(8, 8192))
    plain = serve(load, config(8, 8192, enable_prefix_caching=False))
    assert cached.counters["prefix_hit_tokens"] == 4 * 2880
    assert plain.counters["prefix_hit_tokens"] == 0
    assert cached.ttft_s[0] == plain.ttft_s[0]
    assert (cached.ttft_s[1:] < 0.4 * plain.ttft_s[1:]).all()


def test_preemptions_are_counted_per_request_and_in_total() -> None:
    load = random_load(60, 1, prompt=(200, 400), output=(200, 600))
    run = serve(load, config(256, 2048), gpu=gpu_preset("A10G"), model=LLAMA_7B)
    assert run.counters["preemptions"] > 0
    assert int(run.preemptions.sum()) == run.counters["preemptions"]
    assert int(run.steps.preempted.sum()) == run.counters["preemptions"]
    assert run.counters["recomputed_tokens"] > 0
    assert run.finished.all()
    assert run.kv_usage_peak == pytest.approx(1.0, abs=0.02)


def test_shares_of_bottlenecks_add_up_to_the_busy_time() -> None:
    run = serve(random_load(50, 2, prompt=(50, 900), output=(2, 60)), config(16, 512))
    shares = run.bottleneck_shares()
    assert set(shares) == set(BOTTLENECKS)
    assert sum(shares.values()) == pytest.approx(1.0)
    assert shares["compute"] > 0.0
    assert shares["weights_bandwidth"] > 0.0


def test_prefill_achieves_compute_and_decode_achieves_bandwidth() -> None:
    prefill = serve(random_load(40, 2, prompt=(3000, 4000), output=(1, 1)), config(64, 8192))
    decode = serve(random_load(4, 2, prompt=(10, 20), output=(400, 400)), config(64, 8192))
    assert prefill.achieved_compute is not None
    assert decode.achieved_compute is not None
    assert prefill.achieved_bandwidth is not None
    assert decode.achieved_bandwidth is not None
    assert 0.45 < prefill.achieved_compute < 0.62
    assert prefill.achieved_bandwidth < 0.1
    assert 0.55 < decode.achieved_bandwidth < 0.78
    assert decode.achieved_compute < 0.1


HARDWARE = st.one_of(st.none(), st.integers(0, 500)).map(Hardware.of_seed)


@settings(deadline=None, max_examples=40)
@given(
    hardware=HARDWARE,
    seed=st.integers(0, 1000),
    name=st.sampled_from(known_gpus()),
    seqs=st.sampled_from([4, 32, 256]),
    tokens=st.sampled_from([256, 2048, 8192]),
    chunked=st.booleans(),
    rate=st.sampled_from([None, 2.0, 40.0]),
)
def test_no_request_and_no_run_beats_the_roofline(
    hardware: Hardware,
    seed: int,
    name: str,
    seqs: int,
    tokens: int,
    chunked: bool,
    rate: float | None,
) -> None:
    if not chunked:
        tokens = max(tokens, 2048)
    load = random_load(25, seed, prompt=(1, 1500), output=(1, 60), rate_per_s=rate)
    run = serve(
        load,
        config(seqs, tokens, enable_chunked_prefill=chunked),
        gpu=gpu_preset(name),
        hardware=hardware,
        max_model_len=2048,
    )
    assert run.finished.all() or run.out_of_memory
    bound = run.cost_model.roofline_step_s
    for index, one in enumerate(load):
        pairs = one.prompt_tokens * (one.prompt_tokens + 1) // 2
        prefill = bound(one.prompt_tokens, 0, pairs, 1)
        if run.finished[index]:
            assert run.ttft_s[index] >= prefill
            assert run.e2e_s[index] >= prefill + (one.output_tokens - 1) * bound(1, 0, 0, 1)
    steps = run.steps
    columns = (steps.kv_read_tokens, steps.attention_pairs, steps.sequences)
    scheduled = steps.prefill_tokens + steps.decode_tokens
    for row in range(len(steps)):
        work = (int(scheduled[row]), *(int(column[row]) for column in columns))
        assert steps.duration_s[row] >= bound(*work)
    # Steps follow one another, and none begins before the one before has ended.
    assert np.all(steps.start_s[1:] >= (steps.start_s + steps.duration_s)[:-1])
    assert run.achieved_compute is not None
    assert run.achieved_bandwidth is not None
    assert run.achieved_compute < 1.0
    assert run.achieved_bandwidth < 1.0
    assert run.busy_share is not None
    assert run.busy_share <= 1.0 + 1e-9


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 1000), shift=st.floats(0.0, 1e4))
def test_a_later_start_shifts_everything_and_changes_nothing(seed: int, shift: float) -> None:
    load = random_load(20, seed, prompt=(1, 900), output=(1, 40), rate_per_s=20.0)
    later = [replace(one, arrival_s=one.arrival_s + shift) for one in load]
    first, second = serve(load, config(8, 512)), serve(later, config(8, 512))
    np.testing.assert_allclose(first.ttft_s, second.ttft_s, atol=1e-6)
    assert len(first.steps) == len(second.steps)


def test_an_empty_load_only_has_a_memory_account() -> None:
    run = serve([], config(8, 2048))
    assert run.memory.num_blocks > 0
    assert run.finished.size == 0
    assert not run.stalled


@pytest.mark.parametrize("turnaround_s", [0.001, 0.5])
def test_a_client_needs_its_time_from_an_answer_to_the_next_request(turnaround_s: float) -> None:
    load = random_load(60, 5, prompt=(50, 400), output=(5, 40))
    run = simulate(
        load, config(32, 1024), H100, 1, LLAMA_8B, 4096, concurrency=4, turnaround_s=turnaround_s
    )
    assert run.finished.all()
    ends = np.sort(run.last_token_s)
    entered = np.sort(run.entered_s)
    assert entered[:4].tolist() == [0.0] * 4
    assert entered[4:] == pytest.approx(ends[:-4] + turnaround_s)
    assert run.steps.running.max() <= 4


def test_without_a_turnaround_the_next_request_is_in_the_next_step() -> None:
    load = random_load(60, 5, prompt=(50, 400), output=(5, 40))
    at_once = simulate(load, config(32, 1024), H100, 1, LLAMA_8B, 4096, concurrency=4)
    later = simulate(
        load, config(32, 1024), H100, 1, LLAMA_8B, 4096, concurrency=4, turnaround_s=1e-4
    )
    assert np.median(later.ttft_s) > 1.2 * np.median(at_once.ttft_s)


def test_both_backends_agree_on_a_turnaround() -> None:
    load = random_load(80, 6, prompt=(50, 900), output=(5, 60))
    arguments = (load, config(8, 512), H100, 1, LLAMA_8B, 4096)
    plain = simulate(*arguments, concurrency=12, turnaround_s=0.003, backend="python")
    compiled = simulate(*arguments, concurrency=12, turnaround_s=0.003, backend="numba")
    assert plain.entered_s.tolist() == compiled.entered_s.tolist()
    assert plain.last_token_s.tolist() == compiled.last_token_s.tolist()


def test_a_stalled_engine_waits_for_no_client_that_waits_for_it() -> None:
    load = [EngineRequest(i, 0.0, 300, 5) for i in range(3)]
    engine = config(4, 256, enable_chunked_prefill=False)
    run = simulate(load, engine, H100, 1, LLAMA_8B, 4096, concurrency=1, turnaround_s=0.01)
    assert run.stalled
