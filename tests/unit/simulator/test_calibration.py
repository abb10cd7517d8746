"""Calibration against machines whose constants and laws the model does not know."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support.engine_model import H100, L4, LLAMA_8B, config, random_load
from tuner.domain.engine_config import EngineConfig
from tuner.simulator.calibration import (
    Calibration,
    Machine,
    ObservedLoad,
    ObservedStart,
    calibrate,
    deviations,
)
from tuner.simulator.engine_model import simulate, warm_up
from tuner.simulator.gpus import Gpu
from tuner.simulator.hardware import MAX_SHARE, Hardware
from tuner.simulator.requests import EngineRequest

RATES = {"H100": (12.0, 8.0), "L4": (1.0, 0.6)}
SEEN = (config(64, 2048), config(128, 8192), config(32, 512))
HELD_OUT = (
    config(48, 4096),
    config(16, 1024),
    config(128, 4096, enable_chunked_prefill=False),
)


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """Hundreds of load tests per fit: worth compiling for."""
    warm_up()


def machine(gpu: Gpu = H100) -> Machine:
    return Machine(gpu, 1, LLAMA_8B, 4096)


def observe(
    where: Machine, truth: Hardware, engine: EngineConfig, requests: list[EngineRequest]
) -> tuple[ObservedStart, ObservedLoad]:
    """What an engine on the machine `truth` reports and shows."""
    run = simulate(
        requests, engine, where.gpu, where.count, where.model, where.max_model_len, truth
    )
    assert run.finished.all()
    start = ObservedStart(engine, run.memory.kv_cache_tokens, run.memory.graph_gib)
    load = ObservedLoad(
        engine,
        tuple(requests),
        output_tokens_per_s=run.output_tokens_per_s,
        ttft_p50_s=float(np.median(run.ttft_s)),
        tpot_p50_s=float(np.nanmedian(run.tpot_s)),
    )
    return start, load


def observations(
    where: Machine, truth: Hardware, engines: tuple[EngineConfig, ...], seed: int
) -> tuple[list[ObservedStart], list[ObservedLoad]]:
    rate = RATES[where.gpu.name][0 if engines is SEEN else 1]
    requests = random_load(60, seed, prompt=(100, 900), output=(20, 120), rate_per_s=rate)
    pairs = [observe(where, truth, engine, requests) for engine in engines]
    return [start for start, _ in pairs], [load for _, load in pairs]


def fitted(where: Machine, seed: int) -> tuple[Calibration, Hardware]:
    truth = Hardware.hidden(seed)
    return calibrate(where, *observations(where, truth, SEEN, seed)), truth


@pytest.mark.parametrize("gpu", [H100, L4], ids=lambda gpu: gpu.name)
@pytest.mark.parametrize("seed", [0, 3])
def test_held_out_configurations_are_predicted_after_calibration_on_three(
    gpu: Gpu, seed: int
) -> None:
    where = machine(gpu)
    calibration, truth = fitted(where, seed)
    starts, loads = observations(where, truth, HELD_OUT, seed + 100)
    after = deviations(where, starts, loads, calibration.hardware)
    assert {d.quantity for d in after} == {
        "kv_cache_tokens",
        "graph_gib",
        "output_tokens_per_s",
        "ttft_p50_s",
        "tpot_p50_s",
    }
    for deviation in after:
        limit = 0.05 if deviation.kind == "start" else 0.25
        assert abs(deviation.error) < limit, deviation


def test_calibration_reports_its_error_before_and_after() -> None:
    where = machine()
    calibration, truth = fitted(where, 5)
    starts, loads = observations(where, truth, SEEN, 5)
    assert calibration.before == deviations(where, starts, loads, Hardware.nominal())
    assert calibration.after == deviations(where, starts, loads, calibration.hardware)
    assert calibration.worst_before is not None
    assert calibration.worst_after is not None
    assert calibration.worst_after < 0.5 * calibration.worst_before


def test_constants_are_reported_relative_to_the_prior() -> None:
    calibration, _ = fitted(machine(), 5)
    nominal = Hardware.nominal()
    for name, factor in calibration.factors.items():
        expected = getattr(nominal, name) * factor
        assert getattr(calibration.hardware, name) == pytest.approx(expected)
    assert any(abs(factor - 1.0) > 0.05 for factor in calibration.factors.values())


def test_nothing_observed_leaves_the_prior_alone() -> None:
    prior = Hardware.hidden(4)
    calibration = calibrate(machine(), [], [], prior)
    assert calibration.hardware == prior
    assert calibration.before == calibration.after == ()
    assert calibration.worst_after is None


def test_a_machine_like_the_prior_is_left_as_it_is() -> None:
    where = machine()
    calibration = calibrate(where, *observations(where, Hardware.nominal(), SEEN, 1))
    assert calibration.worst_before == pytest.approx(0.0, abs=2e-3)
    for factor in calibration.factors.values():
        assert factor == pytest.approx(1.0, abs=0.02)


def test_starts_alone_fit_memory_and_leave_times_alone() -> None:
    where = machine(L4)
    starts, _ = observations(where, Hardware.hidden(3), SEEN, 3)
    calibration = calibrate(where, starts, [])
    nominal = Hardware.nominal()
    assert calibration.hardware.mfu == nominal.mfu
    assert calibration.hardware.step_overhead_s == nominal.step_overhead_s
    assert calibration.hardware.graph_gib_per_size != nominal.graph_gib_per_size
    assert all(abs(d.error) < 0.02 for d in calibration.after)


def test_loads_alone_fit_times_and_leave_memory_alone() -> None:
    where = machine()
    _, loads = observations(where, Hardware.hidden(3), SEEN, 3)
    calibration = calibrate(where, [], loads)
    assert calibration.hardware.activation_scale == Hardware.nominal().activation_scale
    assert calibration.hardware.mfu != Hardware.nominal().mfu


def test_a_share_never_passes_the_cap() -> None:
    where = machine()
    impossible = Hardware(mfu=0.95, weight_bandwidth_share=0.95, step_overhead_s=1e-5)
    starts, loads = observations(where, impossible, SEEN, 1)
    faster = [
        ObservedLoad(
            load.config,
            load.requests,
            ttft_p50_s=0.5 * (load.ttft_p50_s or 0.0),
            tpot_p50_s=0.5 * (load.tpot_p50_s or 0.0),
        )
        for load in loads
    ]
    made = calibrate(where, starts, faster).hardware
    for name in ("mfu", "weight_bandwidth_share", "kv_bandwidth_share", "attention_mfu"):
        assert getattr(made, name) <= MAX_SHARE


def test_what_was_not_measured_is_not_compared() -> None:
    where = machine()
    _, loads = observations(where, Hardware.hidden(3), SEEN, 3)
    only_rate = ObservedLoad(
        loads[0].config, loads[0].requests, output_tokens_per_s=loads[0].output_tokens_per_s
    )
    found = deviations(where, [ObservedStart(config(64, 2048))], [only_rate], Hardware.nominal())
    assert [d.quantity for d in found] == ["output_tokens_per_s"]


def test_a_start_that_the_model_thinks_impossible_is_no_deviation_but_still_pulls() -> None:
    """The real engine started where the forecast saw no room: the fit must come to see room."""
    where = machine(L4)
    tight = config(256, 24576)
    pessimist = Hardware(activation_scale=3.0)
    start = ObservedStart(tight, kv_cache_tokens=4_000)
    assert deviations(where, [start], [], pessimist) == ()
    calibration = calibrate(where, [start], [], pessimist)
    assert calibration.hardware.activation_scale < 3.0
    assert calibration.before == ()
    assert [abs(d.error) < 0.3 for d in calibration.after] == [True]


def test_a_window_sees_what_came_in_it_and_nothing_else() -> None:
    where, engine = machine(), config(32, 2048)
    requests = tuple(random_load(400, 5, prompt=(50, 800), output=(10, 80)))
    run = simulate(requests, engine, where.gpu, 1, where.model, 4096, concurrency=16)
    inside = (run.steps.start_s + run.steps.duration_s >= 2) & (
        run.steps.start_s + run.steps.duration_s < 6
    )
    sent = (run.entered_s >= 2) & (run.entered_s < 6) & (run.first_token_s < 6)
    seen = ObservedLoad(
        engine,
        requests,
        concurrency=16,
        output_tokens_per_s=float(run.steps.emitted[inside].sum()) / 4,
        ttft_p50_s=float(np.median(run.ttft_s[sent])),
        window=(2.0, 6.0),
    )
    found = deviations(where, [], [seen], Hardware.nominal())
    assert {d.quantity for d in found} == {"output_tokens_per_s", "ttft_p50_s"}
    assert all(d.error == pytest.approx(0.0, abs=1e-12) for d in found)
    whole = deviations(where, [], [replace(seen, window=None)], Hardware.nominal())
    assert any(abs(d.error) > 0.01 for d in whole)
