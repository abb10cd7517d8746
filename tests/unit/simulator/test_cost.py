from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.engine_model import H100, L4, LLAMA_8B, config, cost_model, request, scheduler
from tuner.simulator.cost import CostModel
from tuner.simulator.gpus import gpu_preset, known_gpus
from tuner.simulator.hardware import Hardware
from tuner.simulator.limits import engine_limits
from tuner.simulator.models import known_models, model_preset
from tuner.simulator.scheduler import BOTTLENECKS, Scheduler

LIMITS = engine_limits(config(256, 8192), 8192)
HARDWARE = st.one_of(st.none(), st.integers(0, 500)).map(Hardware.of_seed)


def linear_seconds(model: CostModel, tokens: int) -> float:
    return float(model.tables(8192)[0][tokens])


@settings(deadline=None, max_examples=60)
@given(
    hardware=HARDWARE, gpu=st.sampled_from(known_gpus()), model_id=st.sampled_from(known_models())
)
def test_time_rises_with_tokens_and_never_beats_the_data_sheet(
    hardware: Hardware, gpu: str, model_id: str
) -> None:
    costs = cost_model(LIMITS, gpu=gpu_preset(gpu), model=model_preset(model_id), hardware=hardware)
    linear, _, _ = costs.tables(8192)
    assert linear[0] == 0.0
    assert np.all(np.diff(linear[1:]) >= 0.0)
    for tokens in (1, 64, 512, 8192):
        assert linear[tokens] >= costs.roofline_step_s(tokens, 0, 0, 0)


@settings(deadline=None, max_examples=60)
@given(hardware=HARDWARE, gpu=st.sampled_from(known_gpus()))
def test_time_per_token_falls_towards_the_achieved_peak(hardware: Hardware, gpu: str) -> None:
    costs = cost_model(LIMITS, gpu=gpu_preset(gpu), hardware=hardware)
    linear, _, _ = costs.tables(32768)
    tile = hardware.tile_tokens
    tokens = np.arange(tile, 32769, tile)
    per_token = linear[tokens] / tokens
    assert np.all(np.diff(per_token) <= 1e-15)
    floor = costs.flops_per_token / (costs.peak_flops * hardware.mfu)
    assert per_token[-1] >= floor
    assert per_token[-1] <= 1.15 * floor


def test_few_tokens_are_bound_by_reading_weights_and_many_by_computing() -> None:
    bound = cost_model(LIMITS).tables(8192)[2]
    assert bound[1] == 1
    assert bound[8192] == 0
    # One change only, somewhere below the ridge.
    assert int(np.abs(np.diff(bound[1:])).sum()) == 1


def test_one_token_takes_the_time_to_read_the_weights() -> None:
    costs = cost_model(LIMITS)
    weights = LLAMA_8B.linear_params * 2 + LLAMA_8B.embedding_params * 2
    rate = H100.memory_bytes_per_s * Hardware.nominal().weight_bandwidth_share
    assert linear_seconds(costs, 1) == pytest.approx(weights / rate, rel=0.05)


def test_a_large_batch_takes_its_operations_at_the_achieved_rate() -> None:
    costs = cost_model(LIMITS)
    expected = 2 * LLAMA_8B.active_params * 8192 / (H100.bf16_flops * 0.62)
    assert linear_seconds(costs, 8192) == pytest.approx(expected, rel=0.03)


def test_a_mixture_reads_few_experts_for_one_token_and_all_for_many() -> None:
    model = model_preset("mistralai/Mixtral-8x7B-Instruct-v0.1")
    costs = cost_model(LIMITS, model=model, gpu=gpu_preset("B200"))
    one, many = costs.weight_bytes(np.array([1.0, 4096.0]))
    always = (model.linear_params - model.expert_params) * 2 + model.embedding_params * 2
    assert one == pytest.approx(always + model.expert_params * 2 * 2 / 8)
    assert many == pytest.approx(always + model.expert_params * 2)


def test_a_dense_model_reads_all_weights_always() -> None:
    one, many = cost_model(LIMITS).weight_bytes(np.array([1.0, 4096.0]))
    assert one == many


def test_two_devices_are_faster_but_not_twice() -> None:
    one = cost_model(LIMITS)
    two = cost_model(engine_limits(config(256, 8192, tensor_parallel_size=2), 8192))
    for tokens in (1, 256, 8192):
        ratio = linear_seconds(one, tokens) / linear_seconds(two, tokens)
        assert 1.2 < ratio < 2.0


def test_pcie_makes_tensor_parallelism_poor_for_long_prefills() -> None:
    limits = engine_limits(config(256, 8192, tensor_parallel_size=2), 8192)
    ratio = [
        linear_seconds(cost_model(LIMITS, gpu=gpu), 8192)
        / linear_seconds(cost_model(limits, gpu=gpu), 8192)
        for gpu in (gpu_preset("L40S"), H100)
    ]
    assert ratio[0] < 1.4 < ratio[1]


def step_time(prompts: list[tuple[int, int]], steps: int, **flags: bool | int | str) -> float:
    """Duration of the last of `steps` steps over these (prompt, output) requests."""
    engine = scheduler(config(256, 8192, **flags), num_blocks=100_000, max_model_len=100_000)
    for index, (prompt, output) in enumerate(prompts):
        engine.add(request(index, prompt, output))
    return [engine.step(0.0).duration_s for _ in range(steps)][-1]


def test_a_longer_context_makes_a_decode_slower_by_its_kv_bytes() -> None:
    short, long = step_time([(100, 9)], 2), step_time([(8000, 9)], 2)
    rate = H100.memory_bytes_per_s * Hardware.nominal().kv_bandwidth_share
    assert long - short == pytest.approx(7900 * 128 * 1024 / rate)


def test_a_sequence_adds_its_overhead_kv_and_head() -> None:
    alone, together = step_time([(64, 9)], 2), step_time([(64, 9)] * 16, 2)
    assert alone < together < 16 * alone


def test_attention_makes_a_long_prompt_cost_more_than_its_tokens() -> None:
    many_short = step_time([(64, 1)] * 128, 1)
    one_long = step_time([(8192, 1)], 1)
    assert one_long > many_short


def test_eager_mode_pays_for_launches_in_small_steps_only() -> None:
    assert step_time([(64, 9)], 2, enforce_eager=True) == step_time([(64, 9)], 2)
    small_model = model_preset("Qwen/Qwen2.5-0.5B-Instruct")
    times = []
    for eager in (False, True):
        engine = scheduler(config(8, 2048, enforce_eager=eager), model=small_model)
        engine.add(request(1, 8, 9))
        engine.step(0.0)
        times.append(engine.step(0.0).duration_s)
    launches = Hardware.nominal().eager_launch_s_per_layer * small_model.layers
    assert times[1] == pytest.approx(launches + 1e-3, rel=0.02)
    assert times[0] < times[1]


def mixed_and_pure_steps(hardware: Hardware) -> tuple[float, float]:
    """Durations of a step with a decode beside a prefill, and of a prefill alone."""
    limits = engine_limits(config(8, 8192), 8192)
    costs = cost_model(limits, hardware=hardware).costs(8192)
    engine = Scheduler(limits, LLAMA_8B, costs, 10_000)
    engine.add(request(1, 4000, 5))
    pure = engine.step(0.0).duration_s
    engine.add(request(2, 4000, 5))
    return engine.step(0.0).duration_s, pure


def test_only_steps_of_prefill_and_decode_pay_the_mixing_penalty() -> None:
    mixed, pure = mixed_and_pure_steps(Hardware.nominal())
    penalised_mixed, penalised_pure = mixed_and_pure_steps(Hardware(mixed_step_penalty=0.5))
    assert penalised_pure == pure
    assert penalised_mixed > mixed


@pytest.mark.parametrize(
    ("prompt", "steps", "expected"),
    [(8192, 1, "compute"), (16, 2, "weights_bandwidth")],
)
def test_the_bottleneck_is_named(prompt: int, steps: int, expected: str) -> None:
    engine = scheduler(config(8, 8192), num_blocks=10_000, max_model_len=10_000)
    engine.add(request(1, prompt, 5))
    names = [engine.step(0.0).bottleneck for _ in range(steps)]
    assert names[-1] == expected
    assert set(names) <= set(BOTTLENECKS)


def test_many_long_decodes_are_bound_by_reading_kv() -> None:
    engine = scheduler(config(64, 8192), num_blocks=100_000, max_model_len=10_000)
    for index in range(64):
        engine.add(request(index, 8000, 200))
    while engine.step(0.0).prefill_tokens:
        pass
    assert engine.step(0.0).bottleneck == "kv_bandwidth"


def test_a_tiny_model_is_bound_by_overhead() -> None:
    engine = scheduler(config(8, 2048), model=model_preset("Qwen/Qwen2.5-0.5B-Instruct"))
    engine.add(request(1, 8, 9))
    engine.step(0.0)
    assert engine.step(0.0).bottleneck == "overhead"


def test_a_faster_gpu_is_faster() -> None:
    slow, fast = cost_model(LIMITS, gpu=L4), cost_model(LIMITS, gpu=H100)
    for tokens in (1, 8192):
        assert linear_seconds(slow, tokens) > 5 * linear_seconds(fast, tokens)


def test_a_bound_without_tokens_is_zero() -> None:
    assert cost_model(LIMITS).roofline_step_s(0, 0, 0, 0) == 0.0
