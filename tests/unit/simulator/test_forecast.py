from __future__ import annotations

import json

import numpy as np
import pytest

from tests.support.engine_model import H100, L4, LLAMA_7B, LLAMA_8B, config, random_load, request
from tuner.simulator.engine_model import simulate
from tuner.simulator.forecast import LABEL, Forecast, forecast, inter_token_s, load_forecast
from tuner.simulator.gpus import Gpu
from tuner.simulator.models import ModelGeometry, model_preset
from tuner.simulator.requests import EngineRequest

CHAT = random_load(150, 1, prompt=(100, 700), output=(20, 200), rate_per_s=4.0)


def predict(
    requests: list[EngineRequest] = CHAT,
    *,
    seqs: int = 64,
    tokens: int = 2048,
    gpu: Gpu = H100,
    model: ModelGeometry = LLAMA_8B,
    max_model_len: int = 4096,
    concurrency: int | None = None,
    **flags: bool | int | float,
) -> Forecast:
    return forecast(
        requests,
        config(seqs, tokens, **flags),
        gpu,
        1,
        model,
        max_model_len,
        concurrency=concurrency,
    )


def test_a_forecast_says_that_it_is_one() -> None:
    assert predict().label == LABEL
    assert "not a measurement" in LABEL


def test_a_forecast_is_plain_json() -> None:
    document = json.loads(json.dumps(predict().as_dict(), allow_nan=False))
    assert document["memory"]["kv_cache_tokens"] > 0
    assert document["at_rate"]["ttft_ms"]["p95"] > document["at_rate"]["ttft_ms"]["p50"] > 0
    assert document["saturated"]["output_tokens_per_s"] > document["at_rate"]["output_tokens_per_s"]


@pytest.mark.parametrize(
    ("model_id", "kib"),
    [("meta-llama/Llama-2-7b-chat-hf", 512), ("meta-llama/Llama-3.2-3B-Instruct", 112)],
)
def test_the_two_kv_examples_are_accounted_for(model_id: str, kib: int) -> None:
    memory = predict(model=model_preset(model_id), max_model_len=4096).memory
    assert memory.kv_bytes_per_token == kib * 1024
    assert memory.kv_cache_tokens == pytest.approx(
        memory.kv_cache_gib * 1024**3 / (kib * 1024), rel=1e-3
    )


def test_the_account_adds_up_to_the_utilisation() -> None:
    memory = predict().memory
    parts = (
        memory.weights_gib
        + memory.activation_gib
        + memory.graph_gib
        + memory.non_torch_gib
        + memory.kv_cache_gib
    )
    assert parts == pytest.approx(0.9 * memory.total_gib)


def test_how_many_of_the_workload_fit_is_told_for_median_and_long_requests() -> None:
    memory = predict(model=LLAMA_7B, gpu=H100).memory
    lengths = [r.prompt_tokens + r.output_tokens for r in CHAT]
    assert memory.fit_p50 == pytest.approx(memory.kv_cache_tokens / np.percentile(lengths, 50))
    assert memory.fit_p50 is not None
    assert memory.fit_p95 is not None
    assert memory.fit_p95 < memory.fit_p50


def test_what_cannot_start_has_a_reason_and_no_metrics() -> None:
    made = predict(gpu=L4, gpu_memory_utilization=0.5)
    assert made.memory.failure == "kv_none"
    assert made.memory.failure_message is not None
    assert "No available memory" in made.memory.failure_message
    assert made.at_rate is None
    assert made.saturated is None


def test_without_requests_there_is_a_memory_account_only() -> None:
    made = predict([])
    assert made.memory.fit_p50 is None
    assert made.at_rate is None


def test_an_idle_engine_keeps_up_and_an_overloaded_one_does_not() -> None:
    calm = predict().at_rate
    flood = predict(
        random_load(300, 1, prompt=(1000, 2000), output=(100, 300), rate_per_s=60.0), seqs=16
    ).at_rate
    assert calm is not None
    assert flood is not None
    assert calm.kept_up
    assert not flood.kept_up


def test_saturation_uses_the_sequences_unless_told_otherwise() -> None:
    full, few = predict(seqs=32).saturated, predict(seqs=32, concurrency=4).saturated
    assert full is not None
    assert few is not None
    assert full.running_peak == 32
    assert few.running_peak == 4
    assert full.output_tokens_per_s is not None
    assert few.output_tokens_per_s is not None
    assert full.output_tokens_per_s > 2 * few.output_tokens_per_s


def test_preemptions_are_forecast_per_request() -> None:
    load = random_load(60, 1, prompt=(200, 400), output=(200, 600))
    made = predict(load, seqs=256, gpu=L4, model=LLAMA_7B).saturated
    assert made is not None
    assert made.preemptions_per_request > 0.1
    assert made.recomputed_tokens > 0


def test_prefix_hits_are_a_share_of_the_tokens_asked_for() -> None:
    prefix = tuple(range(100))
    load = [request(i, 2000, 5, at_s=float(i), prefix=prefix) for i in range(10)]
    made = predict(load).at_rate
    assert made is not None
    assert made.prefix_hit_share == pytest.approx(9 * 1600 / (10 * 2000))
    uncached = predict(load, enable_prefix_caching=False).at_rate
    assert uncached is not None
    assert uncached.prefix_hit_share is None


def test_gaps_between_tokens_are_those_of_decoding_requests() -> None:
    run = simulate([request(1, 100, 5)], config(8, 2048), H100, 1, LLAMA_8B, 4096)
    gaps = inter_token_s(run)
    assert len(gaps) == 4
    np.testing.assert_array_equal(gaps, run.steps.duration_s[1:])
    made = load_forecast(run)
    assert made.itl_ms.p50 == pytest.approx(1e3 * float(np.median(gaps)))


def test_latencies_that_nobody_has_are_missing_and_not_zero() -> None:
    made = predict([request(1, 100, 1)]).at_rate
    assert made is not None
    assert made.tpot_ms.p95 is None
    assert made.itl_ms.p99 is None
    assert made.ttft_ms.p50 is not None


def test_bottlenecks_are_named_with_their_shares() -> None:
    made = predict().at_rate
    assert made is not None
    assert sum(made.bottleneck_shares.values()) == pytest.approx(1.0)
