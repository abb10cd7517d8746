from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.scenarios import machine_of
from benchmarks.virtual_time.executor import serve
from benchmarks.virtual_time.metric_series import metric_series
from benchmarks.virtual_time.truth import (
    HiddenMachine,
    bare_measurement,
    true_gain,
    truth_seeds,
)
from benchmarks.virtual_time.virtual_engine import StartNoise
from tests.support.virtual_machines import engine, small_spec
from tuner.domain.engine_config import EngineConfig
from tuner.simulator.engine_model import warm_up
from tuner.study.calibration import LoadCalibration, RateSource
from tuner.study.confirmation import held_out_seed
from tuner.study.load_segments import workload_of
from tuner.study.loaded import Loaded
from tuner.study.measurement_summary import summarise

LOAD = LoadCalibration(12.0, 16, RateSource.GIVEN)
QUIET = StartNoise(0.0, 1)


@pytest.fixture(autouse=True, scope="module")
def _compiled() -> None:
    warm_up()


def machine(noise: StartNoise = QUIET) -> HiddenMachine:
    return HiddenMachine(small_spec(), LOAD, noise, base_dir=Path())


def config(seqs: int, tokens: int = 1024) -> EngineConfig:
    flags = {"max-num-seqs": seqs, "max-num-batched-tokens": tokens, "max-model-len": 2048}
    return EngineConfig.of(flags)


def test_bare_values_are_those_of_the_load_generators_summary() -> None:
    own = machine()
    running = engine(max_num_seqs=8)
    request = own.request(config(8), 5)
    result, runs = serve(running, own.segments(5))
    series = metric_series(runs, 1.0)
    facts = own.measure(config(8), 5)
    assert facts is not None
    whole = summarise(request, workload_of(request), facts.engine, Loaded(result, series))
    bare = bare_measurement(runs, 5)
    assert whole.instrument.valid, whole.instrument.reasons
    for name in ("p50", "p90", "p95", "p99", "mean", "max"):
        for ours, theirs in (
            (bare.latency.ttft_ms, whole.latency.ttft_ms),
            (bare.latency.tpot_ms, whole.latency.tpot_ms),
        ):
            assert ours is not None
            assert theirs is not None
            assert getattr(ours, name).value == getattr(theirs, name).value
    assert bare.capacity.output_tokens_per_s is not None
    assert whole.capacity.output_tokens_per_s is not None
    assert bare.capacity.output_tokens_per_s.value == pytest.approx(
        whole.capacity.output_tokens_per_s.value
    )
    assert bare.latency.preemptions_per_request == whole.latency.preemptions_per_request
    assert bare.capacity.preemptions_per_request == whole.capacity.preemptions_per_request
    assert own.difference(bare, whole) == pytest.approx(0.0, abs=1e-9)


def test_a_measurement_repeats_without_noise_and_varies_with_it() -> None:
    quiet, noisy = machine(), machine(StartNoise(0.05, 1))
    assert quiet.measure(config(8), 5, start="a") == quiet.measure(config(8), 5, start="b")
    assert noisy.measure(config(8), 5, start="a") != noisy.measure(config(8), 5, start="b")
    assert noisy.measure(config(8), 5) == quiet.measure(config(8), 5)


def test_what_does_not_start_is_not_measured() -> None:
    impossible = config(8).with_flags({"gpu-memory-utilization": 0.999})
    assert machine().measure(impossible, 5) is None


def test_differences_are_paired_by_load_and_zero_against_oneself() -> None:
    same, better = machine().differences([config(8), config(32)], config(8), (1, 2, 3))
    assert same == (0.0, 0.0, 0.0)
    assert len(better) == 3
    assert all(value is not None and value > 0 for value in better)


def test_a_candidate_that_fails_leaves_a_hole() -> None:
    impossible = config(8).with_flags({"gpu-memory-utilization": 0.999})
    ((first, second),) = machine().differences([impossible], config(8), (1, 2))
    assert first is None
    assert second is None
    assert true_gain((first, second)) is None


def test_a_reference_that_fails_is_no_reference() -> None:
    impossible = config(8).with_flags({"gpu-memory-utilization": 0.999})
    with pytest.raises(ValueError, match="reference does not run"):
        machine().differences([config(8)], impossible, (1,))


def test_the_true_gain_is_the_mean_of_what_ran() -> None:
    gain = true_gain((0.1, None, 0.3))
    assert gain is not None
    assert gain.mean == pytest.approx(0.2)
    assert gain.standard_error == pytest.approx(0.1)
    assert (gain.loads, gain.failures) == (2, 1)
    with_a_gap = true_gain((0.1, float("nan"), 0.3))
    assert with_a_gap is not None
    assert (with_a_gap.loads, with_a_gap.failures) == (2, 0)
    assert true_gain((float("nan"),)) is None
    assert gain.percent == pytest.approx(22.14, abs=0.01)


def test_the_truth_uses_loads_that_no_study_sees() -> None:
    spec = small_spec()
    seeds = truth_seeds(spec, "loads", 50)
    assert len(set(seeds)) == 50
    studied = {spec.workload.seed, *(held_out_seed(spec.workload.seed, i) for i in range(40))}
    assert not studied & set(seeds)
    assert seeds[:3] == truth_seeds(spec, "loads", 3)
    assert not set(seeds) & set(truth_seeds(spec, "search", 50))


def test_without_a_load_the_baselines_own_calibration_is_used(tmp_path: Path) -> None:
    found = machine_of(small_spec(), None, QUIET, tmp_path).calibration
    assert found.source is RateSource.CALIBRATED
    assert found.capacity_per_s is not None
    assert found.rate_per_s is not None
    assert 0 < found.rate_per_s < found.capacity_per_s
    assert machine_of(small_spec(), LOAD, QUIET, Path()).calibration == LOAD
