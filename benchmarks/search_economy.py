"""What first points, early abort and the stopping rule are worth: the same studies without them.

python -m benchmarks.search_economy              # writes benchmarks/results/search_economy.*
python -m benchmarks.search_economy --studies 2  # so many of the studies, printed only
"""

from __future__ import annotations

import argparse
import json
import pickle
import random
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.economy_report import document, table
from benchmarks.known_study import KnownStudy, KnownTrial
from benchmarks.scenarios import Scenario, scenarios
from benchmarks.study_cost import TrialOutcome
from benchmarks.verdict_report import written
from benchmarks.verdict_study import Diligence, StudyOutcome, prepare_process, run_scenario
from benchmarks.virtual_time.best_in_space import BestInSpace
from benchmarks.virtual_time.truth import HiddenMachine, truth_seeds
from tuner.domain.engine_config import EngineConfig, FlagValue
from tuner.domain.states import TrialState

RESULTS = Path(__file__).parent / "results"
STUDIES = 20
LOADS = 6
DILIGENCE = Diligence(16)

NO_FIRST_POINTS = {"preset": False, "engine_model": False, "space_filling": False}
Variation = Mapping[str, Mapping[str, object]]
"""Values in sections of the study document."""

VARIANTS: Mapping[str, Variation] = {
    "as it is": {},
    "without the engine model's picks": {"first_points": {"engine_model": False}},
    "without any first points": {"first_points": NO_FIRST_POINTS},
    "without early abort": {"budget": {"early_abort": False}},
    "without the stopping rule": {"stopping": {"enabled": False}},
}

MEASURED = (TrialState.COMPLETE, TrialState.PRUNED)


def run_variants(
    scenario: Scenario, variants: Mapping[str, Variation] = VARIANTS
) -> tuple[KnownStudy, ...]:
    """The scenario under every variant, all on one machine and with one yardstick."""
    outcomes = {
        name: run_scenario(replace(scenario, variation=_with(scenario, changes)), DILIGENCE)
        for name, changes in variants.items()
    }
    with tempfile.TemporaryDirectory() as directory:
        return _known(scenario, outcomes, Path(directory))


def _known(
    scenario: Scenario, outcomes: Mapping[str, StudyOutcome], directory: Path
) -> tuple[KnownStudy, ...]:
    first = next(iter(outcomes.values()))
    spec = scenario.spec(_flags(first.baseline_flags))
    machine = HiddenMachine(spec, first.calibration, scenario.noise, base_dir=directory)
    baseline = machine.target.with_searched(dict(spec.baseline.flags))
    configs = {
        _key(trial): machine.target.with_searched(_flags(trial.config))
        for outcome in outcomes.values()
        for trial in outcome.trials
        if trial.state in MEASURED
    }
    best = BestInSpace(machine, baseline).find([baseline])
    gains = true_gains(machine, [*configs.values(), best], baseline)
    known = [gain for gain in gains if gain is not None]
    of = dict(zip(configs, gains, strict=False))
    return tuple(
        KnownStudy(
            name,
            outcome,
            tuple(KnownTrial(t, of[_key(t)]) for t in outcome.trials if t.state in MEASURED),
            max(known, default=0.0),
        )
        for name, outcome in outcomes.items()
    )


def true_gains(
    machine: HiddenMachine, configs: Sequence[EngineConfig], baseline: EngineConfig
) -> list[float | None]:
    """Mean score differences against the baseline over loads that no study saw."""
    totals: list[float | None] = [0.0] * len(configs)
    for seed in truth_seeds(machine.spec, "economy", LOADS):
        reference = machine.measure(baseline, seed)
        if reference is None:
            raise ValueError("the baseline does not run on its own machine")
        for index, config in enumerate(configs):
            total = totals[index]
            own = None if total is None else machine.measure(config, seed)
            gain = None if own is None else machine.difference(own, reference)
            totals[index] = None if total is None or gain is None else total + gain / LOADS
    return totals


def _with(scenario: Scenario, changes: Variation) -> Variation:
    own = scenario.variation
    return {name: {**own.get(name, {}), **changes.get(name, {})} for name in {**own, **changes}}


def _key(trial: TrialOutcome) -> str:
    return json.dumps(dict(trial.config), sort_keys=True)


def _flags(values: Mapping[str, object]) -> dict[str, FlagValue]:
    return {n: v for n, v in values.items() if isinstance(v, bool | int | float | str)}


def chosen_scenarios(count: int) -> tuple[Scenario, ...]:
    """So many of those with an ordinary baseline, drawn once."""
    return tuple(random.Random(0).sample(scenarios(150, 0), count))


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    found = _kept(options.raw)
    done = {known.study.number for known in found}
    prepare_process()
    for scenario in chosen_scenarios(options.studies):
        if scenario.number in done:
            continue
        found += run_variants(scenario)
        print(f"{len(found) // len(VARIANTS)}/{options.studies}", flush=True)
        if options.raw is not None:
            options.raw.write_bytes(pickle.dumps(found))
    text = table(found)
    print(text)
    if options.studies >= STUDIES:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "search_economy.json").write_text(written(document(found)))
        (RESULTS / "search_economy.md").write_text(text)
    return 0


def _kept(raw: Path | None) -> list[KnownStudy]:
    if raw is None or not raw.exists():
        return []
    found: list[KnownStudy] = pickle.loads(raw.read_bytes())  # noqa: S301  # our own file
    return found


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.search_economy", description=__doc__)
    parser.add_argument("--studies", type=int, default=STUDIES, help="how many, in every variant")
    parser.add_argument(
        "--raw", type=Path, help="keep the outcomes whole in this file, and go on from it"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    raise SystemExit(main())
