from __future__ import annotations

import json
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from objectives.measurement import Estimate, Measurement
from tests.support.study_measurements import measurement
from tuner.domain.engine_config import EngineConfig
from tuner.domain.study_spec import StudySpec
from tuner.search.model_picks import LEAST_DISTANCE
from tuner.search.space_filling import distance
from tuner.simulator.forecast import LABEL
from tuner.study.calibration import LoadCalibration, calibrated_rate
from tuner.study.prior import EnginePrior, engine_prior
from tuner.study.space import search_space
from tuner.study.target import Target, baseline_config, target_of

RATE_PER_S = 4.0


def spec(**changes: Any) -> StudySpec:
    document: dict[str, Any] = {
        "model": {"id": "meta-llama/Llama-3.2-3B-Instruct", "max_model_len": 4096},
        "engine": {"kind": "simulated", "gpu": "L4", "hardware_seed": 5},
        "search_space": {
            "max_num_seqs": {"low": 4, "high": 64},
            "max_num_batched_tokens": {"low": 512, "high": 4096},
        },
        "baseline": {"flags": {"max-num-seqs": 4}},
        "workload": {
            "lengths": {
                "prompt_tokens": {"type": "constant", "value": 400},
                "output_tokens": {"type": "constant", "value": 40},
            },
            "warmup_s": 2,
            "latency_window_s": 10,
            "capacity_window_s": 6,
        },
        **changes,
    }
    return StudySpec.model_validate(document)


def target(study: StudySpec) -> Target:
    return target_of(study, Path())


def load() -> LoadCalibration:
    return calibrated_rate(RATE_PER_S / 0.8, 32)


def prior(
    study: StudySpec | None = None, measured: Measurement | None = None
) -> EnginePrior | None:
    chosen = study or spec()
    its = target(chosen)
    reference = (baseline_config(chosen, its), measured or measurement(tokens_per_s=300.0))
    return engine_prior(chosen, its, Path(), load(), reference)


@lru_cache(maxsize=1)
def usual() -> EnginePrior:
    found = prior()
    assert found is not None
    return found


def engine(seqs: int) -> EngineConfig:
    return EngineConfig.of({"max-num-seqs": seqs, "gpu-memory-utilization": 0.9})


def test_the_reference_is_the_measure_of_every_prediction() -> None:
    found = usual().predict(baseline_config(spec(), target(spec())))
    assert found is not None
    assert found.score == pytest.approx(0.0)
    assert usual().reference_score == pytest.approx(0.0)


def test_a_baseline_of_few_sequences_is_predicted_to_be_beaten() -> None:
    found = usual().predict(engine(32))
    assert found is not None
    assert found.score is not None
    assert found.score > 0.3


def test_what_would_not_start_has_no_prediction() -> None:
    starved = EngineConfig.of({"max-num-seqs": 32, "gpu-memory-utilization": 0.2})
    assert usual().predict(starved) is None


def test_a_prediction_is_stored_with_its_label_and_numbers() -> None:
    found = usual().predict(engine(32))
    assert found is not None
    stored = json.loads(json.dumps(found.to_dict()))
    assert stored["label"] == LABEL
    assert stored["score"] == found.score
    assert stored["output_tokens_per_s"] > 0
    assert 0 < stored["tpot_p95_ms"] < stored["ttft_p95_ms"]
    assert stored["preemptions_per_request"] == 0


def test_the_modelled_machine_is_loaded_as_the_real_one_is() -> None:
    slow, fast = (prior(measured=measurement(tokens_per_s=rate)) for rate in (200.0, 400.0))
    assert slow is not None
    assert fast is not None
    rates = []
    for each in (slow, fast):
        found = each.predict(engine(16))
        assert found is not None
        assert found.rate_per_s is not None
        rates.append(found.rate_per_s)
    assert rates[0] == pytest.approx(2 * rates[1])


def test_a_machine_that_cannot_be_compared_keeps_the_studys_rate() -> None:
    blank = measurement(tokens_per_s=300.0)
    silent = prior(measured=_without_throughput(blank))
    assert silent is not None
    found = silent.predict(engine(16))
    assert found is not None
    assert found.rate_per_s == pytest.approx(RATE_PER_S)


def test_the_hidden_machine_changes_no_prediction() -> None:
    other = prior(spec(engine={"kind": "simulated", "gpu": "L4", "hardware_seed": 99}))
    assert other is not None
    assert other.predict(engine(16)) == usual().predict(engine(16))


def test_a_real_engine_has_a_prior_where_its_gpu_is_named() -> None:
    named = prior(spec(engine={"kind": "vllm", "gpu": "L4"}))
    assert named is not None
    assert named.predict(engine(16)) == usual().predict(engine(16))
    assert prior(spec(engine={"kind": "vllm"})) is None


def test_a_reference_that_the_model_does_not_see_run_gives_no_prior() -> None:
    assert prior(spec(baseline={"flags": {"gpu-memory-utilization": 0.2}})) is None


def test_picks_are_a_few_good_points_of_the_space_far_from_each_other() -> None:
    study = spec()
    space = search_space(study, target(study))
    picks = usual().picks(space, seed=3)
    assert 2 <= len(picks.chosen) <= 3
    assert all(pick.score > 0.3 for pick in picks.chosen)
    first, second = picks.chosen[:2]
    assert distance(space, first.coordinates, second.coordinates) > LEAST_DISTANCE
    assert usual().picks(space, seed=3) == picks


def _without_throughput(full: Measurement) -> Measurement:
    nothing: Estimate | None = None
    return replace(full, capacity=replace(full.capacity, output_tokens_per_s=nothing))
