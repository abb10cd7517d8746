"""The benchmark on real vLLM, on a machine that is simulated: does it find what is there?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.real_vllm import predicting
from benchmarks.real_vllm.configurations import (
    CALIBRATION,
    CONCURRENCY,
    CONFIGURATIONS,
    DECODERS,
    EPISODES,
    HELD_OUT,
    LONE_PROMPT_TOKENS,
    MAX_MODEL_LEN,
    MIXED,
    WARMUP_S,
    WINDOW_S,
    Configuration,
    configuration,
    long_prompt_among_decodes,
    mixed_load,
)
from benchmarks.real_vllm.predicting import JUDGED, LIMIT, PRIOR, report, tiny_machine, verdict
from benchmarks.real_vllm.recorded import Recorded
from tuner.simulator.calibration import seen_in
from tuner.simulator.engine_model import simulate, warm_up
from tuner.simulator.hardware import Hardware

TRUTH = Hardware(
    eager_launch_s_per_layer=3e-4, step_overhead_s=4e-3, sequence_overhead_s=1.5e-4, mfu=0.4
)


def served(each: Configuration) -> dict[str, Any]:
    """What a run would record of this configuration on the machine `TRUTH`."""
    machine = tiny_machine()
    flags = each.flags.with_flags({"gpu-memory-utilization": 0.9})
    end_s = WARMUP_S + WINDOW_S
    run = simulate(
        MIXED,
        flags,
        machine.gpu,
        1,
        machine.model,
        MAX_MODEL_LEN,
        TRUTH,
        concurrency=CONCURRENCY,
        until_s=end_s,
    )
    rate, ttft_s, tpot_s = seen_in(run, (WARMUP_S, end_s))
    mixed = {
        "output_tokens_per_s": rate,
        "ttft_p50_ms": 1e3 * float(np.nanmedian(ttft_s)),
        "ttft_mean_ms": 1e3 * float(np.nanmean(ttft_s)),
        "tpot_p50_ms": 1e3 * float(np.nanmedian(tpot_s)),
        "tpot_mean_ms": 1e3 * float(np.nanmean(tpot_s)),
    }
    facts = {"version": "0", "kv_cache_tokens": run.memory.kv_cache_tokens}
    return {"configuration": each.name, "round": 0, "facts": facts, "mixed": mixed}


@pytest.fixture(scope="module")
def recorded() -> Recorded:
    warm_up()
    return Recorded({"cpus": 2}, tuple(served(each) for each in CONFIGURATIONS))


def test_three_configurations_calibrate_and_at_least_five_are_held_out() -> None:
    roles = [each.role for each in CONFIGURATIONS]
    assert (roles.count(CALIBRATION), len(roles)) == (3, len(CONFIGURATIONS))
    assert roles.count(HELD_OUT) >= 5
    with pytest.raises(KeyError):
        configuration("none of them")


def test_the_held_out_ones_are_predicted_and_play_no_part_in_the_fit(recorded: Recorded) -> None:
    found = verdict(recorded)
    assert {name for name, _ in found.after} == {
        each.name for each in CONFIGURATIONS if each.role == HELD_OUT
    }
    for quantity in JUDGED:
        assert found.worst(quantity) < LIMIT, quantity
        before = max(abs(e) for (_, q), e in found.before.items() if q == quantity)
        assert before > found.worst(quantity)
    without = Recorded(
        recorded.machine,
        tuple(
            run if configuration(run["configuration"]).role == CALIBRATION else _doubled(run)
            for run in recorded.runs
        ),
    )
    assert verdict(without).calibration.hardware == found.calibration.hardware


def _doubled(run: Any) -> dict[str, Any]:
    return {**run, "mixed": {name: 2 * value for name, value in run["mixed"].items()}}


def test_the_report_names_every_held_out_configuration(recorded: Recorded) -> None:
    text = report(recorded)
    for each in CONFIGURATIONS:
        assert (f"| {each.name} |" in text) is (each.role == HELD_OUT)
    assert "worst after calibration: throughput" in text


def test_medians_are_over_rounds_and_missing_is_left_out(tmp_path: Path) -> None:
    runs = [
        {"configuration": "base", "round": i, "facts": {}, "mixed": {"x": value}}
        for i, value in enumerate([1.0, None, 5.0, 9.0])
    ]
    kept = Recorded({"cpus": 2}, ())
    for run in runs:
        kept = kept.with_run(run)
    kept.save(tmp_path / "results.json")
    read = Recorded.load(tmp_path / "results.json")
    assert (read.rounds, read.values("base", "mixed", "x")) == (4, [1.0, 5.0, 9.0])
    assert read.median("base", "mixed", "x") == 5.0


def test_the_loads_are_the_ones_the_model_is_asked_about() -> None:
    segment = mixed_load(3)
    planned = [(r.prompt_tokens, r.output_tokens) for r in segment.requests]
    assert planned == [(r.prompt_tokens, r.output_tokens) for r in MIXED]
    assert not {r.prompt_seed for r in segment.requests} & {
        r.prompt_seed for r in mixed_load(4).requests
    }


def test_each_episode_has_a_lone_prompt_and_one_among_decodes() -> None:
    requests = long_prompt_among_decodes(1).requests
    size = DECODERS + 2
    assert len(requests) == EPISODES * size
    for episode in range(EPISODES):
        alone, *decodes, amid = requests[episode * size : (episode + 1) * size]
        assert alone.prompt_tokens == amid.prompt_tokens == LONE_PROMPT_TOKENS
        assert all((d.due_s or 0) < (amid.due_s or 0) for d in decodes)
        assert (alone.due_s or 0) < (decodes[0].due_s or 0)


def test_the_model_is_the_one_that_is_set_up() -> None:
    config = json.loads(predicting.MODEL.read_text(encoding="utf-8"))
    assert tiny_machine().model.kv_bytes_per_token() == 4096
    assert config["vocab_size"] == tiny_machine().model.vocab
    assert PRIOR.step_overhead_s == Hardware.nominal().step_overhead_s
