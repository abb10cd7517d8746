"""What the same requests for every configuration are worth, in virtual time.

    python -m benchmarks.load_client.common_requests [--loads 40] [--deployments 10] [--json FILE]

Two configurations are compared under one load each. With common requests both get the load of one
seed, without them each its own. Reported is by how much the variance of the difference of the logs
falls, per quantity: so many times fewer measurements say the same. The engine is the model of
ServeTune's embedded engine with a hidden hardware seed, free of noise between starts, so this is
about the requests' chance alone, and simulated.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from benchmarks.scenarios import Scenario, machine_of, scenarios
from benchmarks.virtual_time.truth import HiddenMachine, truth_seeds
from objectives.measurement import Distribution, Measurement
from tuner.domain.engine_config import EngineConfig, FlagValue
from tuner.simulator.engine_model import warm_up

QUANTITIES = ("ttft_p95", "tpot_p95", "throughput")
OTHER: dict[str, FlagValue] = {"max-num-batched-tokens": 4096, "max-num-seqs": 192}
"""Compared with the engine's defaults: a nearby configuration, as a search tries them."""


@dataclass(frozen=True, slots=True)
class Saving:
    """Variances of the difference of logs, and how many times the common one is smaller."""

    deployment: str
    quantity: str
    loads: int
    mean_difference: float
    variance_common: float
    variance_independent: float

    @property
    def ratio(self) -> float:
        return self.variance_independent / self.variance_common


def logs_of(measurement: Measurement) -> tuple[float, float, float]:
    """The quantities' logs; NaN where one was not measured."""
    latency, tokens = measurement.latency, measurement.capacity.output_tokens_per_s
    return (
        _log(_p95(latency.ttft_ms)),
        _log(_p95(latency.tpot_ms)),
        _log(None if tokens is None else tokens.value),
    )


def _p95(found: Distribution | None) -> float | None:
    return None if found is None else found.p95.value


def _log(value: float | None) -> float:
    return math.log(value) if value else math.nan


def savings(deployment: str, own: np.ndarray, other: np.ndarray) -> list[Saving]:
    """From the logs of two configurations under the same loads, a row a load.

    Shifting one of them by a load gives pairs of independent requests, from the same runs.
    """
    common = own - other
    independent = own - np.roll(other, 1, axis=0)
    found = []
    for column, name in enumerate(QUANTITIES):
        found.append(
            Saving(
                deployment,
                name,
                len(common),
                float(common[:, column].mean()),
                float(common[:, column].var(ddof=1)),
                float(independent[:, column].var(ddof=1)),
            )
        )
    return found


def measured(machine: HiddenMachine, config: EngineConfig, seeds: Sequence[int]) -> np.ndarray:
    """A row of logs for every load; NaN under which the configuration does not run."""
    rows = []
    for seed in seeds:
        measurement = machine.measure(config, seed)
        rows.append((math.nan,) * 3 if measurement is None else logs_of(measurement))
    return np.array(rows)


def compare(scenario: Scenario, loads: int, base_dir: Path) -> list[Saving]:
    """One deployment: its engine's defaults against the other configuration."""
    spec = scenario.spec(scenario.baseline or {})
    machine = machine_of(spec, None, scenario.noise, base_dir)
    default = machine.target.with_searched(dict(spec.baseline.flags))
    changed = machine.target.with_searched({**spec.baseline.flags, **OTHER})
    seeds = truth_seeds(spec, "common requests", loads)
    own, other = measured(machine, changed, seeds), measured(machine, default, seeds)
    whole = ~(np.isnan(own) | np.isnan(other)).any(axis=1)
    if np.count_nonzero(whole) < loads // 2:
        return []
    return savings(scenario.deployment.name, own[whole], other[whole])


def main() -> None:
    """A line per deployment and quantity, then the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--loads", type=int, default=40)
    parser.add_argument("--deployments", type=int, default=10)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    warm_up()
    found: list[Saving] = []
    with tempfile.TemporaryDirectory() as name:
        for scenario in scenarios(arguments.deployments, 0):
            here = compare(scenario, arguments.loads, Path(name))
            found.extend(here)
            words = "  ".join(f"{each.quantity} {each.ratio:.1f}x" for each in here)
            print(f"{scenario.deployment.name}: {words or 'one of them does not run'}", flush=True)
    for quantity in QUANTITIES:
        ratios = [each.ratio for each in found if each.quantity == quantity]
        print(f"{quantity}: median {np.median(ratios):.1f}x over {len(ratios)} deployments")
    if arguments.json:
        document = [{**asdict(each), "ratio": each.ratio} for each in found]
        arguments.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
