from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from objectives.measurement import Measurement
from objectives.slo import Slo
from tuner.domain.engine_config import EngineConfig
from tuner.domain.study_spec import PoissonArrivalSpec, TraceSpec, WorkloadSpec
from tuner.loadgen.schedule import open_loop_segment
from tuner.loadgen.workload import Workload, build_workload
from tuner.simulator.gpus import gpu_preset
from tuner.simulator.models import model_preset
from tuner.study.load_prediction import (
    WATCHED_S,
    Machine,
    ModelledLoad,
    PredictedLoad,
    predict_load,
)

MACHINE = Machine(
    gpu_preset("L4"), 1, model_preset("meta-llama/Llama-3.2-3B-Instruct"), max_model_len=4096
)
SPEC = WorkloadSpec.model_validate(
    {
        "lengths": {
            "prompt_tokens": {"type": "constant", "value": 500},
            "output_tokens": {"type": "constant", "value": 50},
        },
        "warmup_s": 2,
        "latency_window_s": 10,
        "capacity_window_s": 8,
    }
)


def workload() -> Workload:
    return build_workload(SPEC, max_model_len=4096, seed=SPEC.seed, base_dir=Path())


def load(rate_per_s: float = 2.0, concurrency: int = 64, slo: Slo | None = None) -> ModelledLoad:
    return ModelledLoad.of(workload(), SPEC, rate_per_s, concurrency, slo=slo)


def config(seqs: int = 64, tokens: int = 2048, utilization: float = 0.9) -> EngineConfig:
    flags: dict[str, Any] = {
        "max-num-seqs": seqs,
        "max-num-batched-tokens": tokens,
        "gpu-memory-utilization": utilization,
        "max-model-len": 4096,
    }
    return EngineConfig.of(flags)


def predicted(under: ModelledLoad, engine: EngineConfig) -> PredictedLoad:
    found = predict_load(under, engine, MACHINE)
    assert found is not None
    return found


def ttft_p95(of: Measurement) -> float:
    assert of.latency.ttft_ms is not None
    return of.latency.ttft_ms.p95.value


def tokens_per_s(of: Measurement) -> float:
    assert of.capacity.output_tokens_per_s is not None
    return of.capacity.output_tokens_per_s.value


def test_the_requests_are_those_that_the_generator_would_send() -> None:
    segment = open_loop_segment(workload(), PoissonArrivalSpec(), 2.0, 2, 10, WATCHED_S, SPEC.seed)
    own = load().at_rate
    assert [r.arrival_s for r in own] == [r.due_s for r in segment.requests]
    assert {(r.prompt_tokens, r.output_tokens) for r in own} == {(500, 50)}


def test_a_prediction_has_all_that_an_objective_scores() -> None:
    found = predicted(load(), config()).measurement
    latency = found.latency
    assert latency.ttft_ms is not None
    assert latency.tpot_ms is not None
    assert latency.itl_ms is not None
    assert latency.ttft_ms.p50.value <= latency.ttft_ms.p95.value <= latency.ttft_ms.max.value
    assert latency.preemptions_per_request == 0
    assert found.capacity.preemptions_per_request == 0
    assert found.simulated
    assert latency.goodput_per_s is None


def test_saturated_throughput_is_that_of_finished_requests_times_their_length() -> None:
    capacity = predicted(load(concurrency=8), config()).measurement.capacity
    assert capacity.requests_per_s is not None
    assert capacity.output_tokens_per_s is not None
    by_requests = 50 * capacity.requests_per_s.value
    assert capacity.output_tokens_per_s.value == pytest.approx(by_requests, rel=0.2)


def test_more_sequences_serve_more_and_a_higher_rate_waits_longer() -> None:
    few, many = (predicted(load(), config(seqs)).measurement for seqs in (2, 64))
    assert tokens_per_s(many) > 3 * tokens_per_s(few)
    calm, busy = (predicted(load(rate), config(4)).measurement for rate in (0.5, 6.0))
    assert ttft_p95(busy) > 2 * ttft_p95(calm)


def test_waiting_without_end_is_cut_at_the_cap_of_real_measurements() -> None:
    drowned = predicted(load(rate_per_s=30.0), config(seqs=1)).measurement
    assert ttft_p95(drowned) == 30_000


def test_what_does_not_start_or_dies_under_load_is_not_predicted() -> None:
    assert predict_load(load(), config(utilization=0.2), MACHINE) is None
    tight = config(seqs=64, tokens=32768, utilization=0.98)
    assert predict_load(load(rate_per_s=8.0), tight, MACHINE) is None


def test_goodput_counts_requests_within_every_limit() -> None:
    lenient = predicted(load(slo=Slo(ttft_ms=20_000, tpot_ms=10_000)), config()).measurement
    strict = predicted(load(slo=Slo(ttft_ms=0.001)), config()).measurement
    assert lenient.latency.slo_attainment is not None
    assert lenient.latency.slo_attainment.value == 1.0
    assert lenient.latency.goodput_per_s is not None
    assert lenient.latency.goodput_per_s.value == pytest.approx(lenient.latency.offered_per_s)
    assert strict.latency.goodput_per_s is not None
    assert strict.latency.goodput_per_s.value == 0


def test_work_grows_with_the_load() -> None:
    assert 0 < predicted(load(0.5, 8), config()).work < predicted(load(4.0, 64), config()).work


def test_equal_loads_are_predicted_equally() -> None:
    assert predict_load(load(), config(), MACHINE) == predict_load(load(), config(), MACHINE)


def test_what_prompts_share_is_found_in_the_modelled_prefix_cache(tmp_path: Path) -> None:
    line = {"prompt_tokens": 2000, "output_tokens": 20}
    found = []
    for extra in ({}, {"prefix_id": 1, "prefix_tokens": 1920}):
        (tmp_path / "t.jsonl").write_text((json.dumps({**line, **extra}) + "\n") * 50)
        spec = SPEC.model_copy(update={"lengths": None, "trace": TraceSpec(file="t.jsonl")})
        work = build_workload(spec, max_model_len=4096, seed=0, base_dir=tmp_path)
        modelled = ModelledLoad.of(work, spec, 1.0, 16)
        assert len(modelled.at_rate[1].prefix_blocks) == (120 if extra else 0)
        found.append(tokens_per_s(predicted(modelled, config()).measurement))
    unique, shared = found
    assert shared > 2 * unique


def users(count: int, think_s: float = 0.0) -> ModelledLoad:
    arrival = {"process": "closed_loop", "concurrency": count, "think_s": think_s}
    spec = WorkloadSpec.model_validate({**SPEC.model_dump(), "arrival": arrival})
    return ModelledLoad.of(workload(), spec, None, 64)


def test_users_in_a_closed_loop_are_foreseen() -> None:
    found = predicted(users(8), config()).measurement.latency
    assert (found.concurrency, found.think_s, found.running_peak) == (8, 0.0, 8.0)
    assert found.requests.scheduled > 30
    assert found.ttft_ms is not None
    assert found.ttft_ms.censored == 0


def test_more_users_than_sequences_queue() -> None:
    few, many = (predicted(users(count), config(seqs=8)).measurement for count in (8, 24))
    assert ttft_p95(many) > 5 * ttft_p95(few)
    assert many.latency.waiting_peak is not None
    assert many.latency.waiting_peak > 0


def test_users_who_think_send_less() -> None:
    busy, calm = (predicted(users(8, think_s), config()).measurement for think_s in (0.0, 4.0))
    assert calm.latency.offered_per_s < 0.6 * busy.latency.offered_per_s
    assert calm.capacity == busy.capacity
