from __future__ import annotations

from dataclasses import asdict

import pytest

from tests.support.simulated_server import launch_of
from tuner.simulator.hardware import Hardware
from tuner.simulator.startup import StartRates, start_durations


def test_without_a_seed_a_start_takes_what_is_forecast() -> None:
    launch = launch_of()
    nominal = start_durations(launch.model, launch.limits, launch.account, StartRates())
    assert launch.durations == nominal
    parts = asdict(nominal).values()
    assert nominal.total_s == pytest.approx(sum(parts))


@pytest.mark.parametrize("seed", range(12))
def test_a_hidden_machine_is_off_by_up_to_thirty_percent_in_every_rate(seed: int) -> None:
    nominal, hidden = asdict(StartRates()), asdict(StartRates.of_seed(seed))
    ratios = [hidden[name] / nominal[name] for name in nominal]
    assert all(0.7 <= ratio <= 1.3 for ratio in ratios)
    assert all(ratio != 1.0 for ratio in ratios)
    assert StartRates.of_seed(seed) == StartRates.of_seed(seed) != StartRates.of_seed(seed + 1)


def test_the_seed_of_the_hardware_decides_the_start_too() -> None:
    hidden = launch_of("--sim-hardware-seed", "3")
    assert hidden.durations.imports_s == StartRates.of_seed(3).imports_s
    assert hidden.hardware == Hardware.hidden(3)
