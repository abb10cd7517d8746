from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.virtual_time.best_in_space import BestInSpace, Point
from benchmarks.virtual_time.truth import HiddenMachine
from benchmarks.virtual_time.virtual_engine import StartNoise
from tests.support.virtual_machines import small_spec
from tuner.domain.engine_config import EngineConfig
from tuner.simulator.engine_model import warm_up
from tuner.study.calibration import LoadCalibration, RateSource
from tuner.study.target import baseline_config


@pytest.fixture(scope="module")
def machine() -> HiddenMachine:
    warm_up()
    load = LoadCalibration(20.0, 40, RateSource.GIVEN)
    spec = small_spec(latency_window_s=3, capacity_window_s=2)
    return HiddenMachine(spec, load, StartNoise(0.0, 1), base_dir=Path())


@pytest.fixture(scope="module")
def baseline(machine: HiddenMachine) -> EngineConfig:
    return baseline_config(machine.spec, machine.target)


@pytest.fixture(scope="module")
def best(machine: HiddenMachine, baseline: EngineConfig) -> EngineConfig:
    return BestInSpace(machine, baseline).find([baseline])


def test_the_best_beats_a_baseline_of_few_sequences(
    machine: HiddenMachine, baseline: EngineConfig, best: EngineConfig
) -> None:
    assert best.max_num_seqs is not None
    assert best.max_num_seqs > 8
    (gains,) = machine.differences([best], baseline, (101, 102, 103))
    assert all(gain is not None and gain > 0.05 for gain in gains)


def test_the_best_is_within_the_space(machine: HiddenMachine, best: EngineConfig) -> None:
    ranges = machine.spec.search_space
    assert best.max_num_seqs is not None
    assert best.max_num_batched_tokens is not None
    assert best.gpu_memory_utilization is not None
    assert ranges.max_num_seqs.low <= best.max_num_seqs <= ranges.max_num_seqs.high
    tokens = ranges.max_num_batched_tokens
    assert max(tokens.low, best.max_num_seqs) <= best.max_num_batched_tokens <= tokens.high
    assert best.gpu_memory_utilization <= ranges.gpu_memory_utilization.high


def test_utilisation_is_the_largest_that_survives(
    machine: HiddenMachine, baseline: EngineConfig
) -> None:
    search = BestInSpace(machine, baseline)
    config = search.config_of(Point(16, 512, True))
    assert config is not None
    assert machine.measure(config, 1) is not None
    higher = config.with_flags({"gpu-memory-utilization": 0.999})
    assert machine.measure(higher, 1) is None


def test_a_known_configuration_wins_where_it_is_better(
    machine: HiddenMachine, baseline: EngineConfig
) -> None:
    search = BestInSpace(machine, baseline)
    impossible = baseline.with_flags({"gpu-memory-utilization": 0.999})
    assert search._play_off([impossible, baseline]) == baseline
