"""Deployments with hidden hardware, for whole studies in virtual time.

A scenario is a study document as a user would write it: the document's own defaults decide windows,
budget, sampler and confirmation. Nothing here was chosen by what the studies made of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.virtual_time.best_in_space import BestInSpace
from benchmarks.virtual_time.executor import VirtualLoad
from benchmarks.virtual_time.truth import HiddenMachine
from benchmarks.virtual_time.virtual_engine import StartNoise, VirtualEngine
from objectives.measurement import EngineFacts
from tuner.domain.cancellation import Cancellation
from tuner.domain.clock import SystemClock
from tuner.domain.document import load_study
from tuner.domain.engine_config import EngineConfig, FlagValue
from tuner.domain.study_spec import StudySpec
from tuner.engine.read_back import engine_facts
from tuner.study.attempt import LoadHooks
from tuner.study.calibration import LoadCalibration
from tuner.study.engine_launch import launch_request

START_NOISE = 0.015
"""Standard deviation of an engine's speed from start to start."""

FIRST_HARDWARE_SEED = 1000
IMPROVEMENTS = 2
"""How often a near-optimal baseline is replaced by the best under its own load."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """What is served where, for whom."""

    name: str
    gpu: str
    model: str
    max_model_len: int
    preset: str


DEPLOYMENTS = (
    Deployment("L4 · Llama-8B · chat", "L4", "meta-llama/Llama-3.1-8B-Instruct", 8192, "chat"),
    Deployment("A10G · Qwen-7B · chat", "A10G", "Qwen/Qwen2.5-7B-Instruct", 8192, "chat"),
    Deployment("L4 · Llama-3B · chat", "L4", "meta-llama/Llama-3.2-3B-Instruct", 8192, "chat"),
    Deployment(
        "L40S · Llama-8B · mixed", "L40S", "meta-llama/Llama-3.1-8B-Instruct", 16384, "mixed"
    ),
    Deployment(
        "A100 · Llama-8B · mixed", "A100-80", "meta-llama/Llama-3.1-8B-Instruct", 16384, "mixed"
    ),
    Deployment(
        "A100 · Llama-7B MHA · chat", "A100-80", "meta-llama/Llama-2-7b-chat-hf", 4096, "chat"
    ),
    Deployment("A100 · Qwen3-8B · long", "A100-80", "Qwen/Qwen3-8B", 16384, "long-context-qa"),
    Deployment("H100 · Llama-8B · chat", "H100", "meta-llama/Llama-3.1-8B-Instruct", 16384, "chat"),
    Deployment(
        "H100 · Qwen-72B int4 · chat", "H100", "Qwen/Qwen2.5-72B-Instruct-AWQ", 8192, "chat"
    ),
    Deployment(
        "H200 · Llama-8B · mixed", "H200", "meta-llama/Llama-3.1-8B-Instruct", 16384, "mixed"
    ),
)

BASELINES: tuple[tuple[str, Mapping[str, FlagValue]], ...] = (
    ("engine's defaults", {}),
    ("16 sequences", {"max-num-seqs": 16}),
    ("64 sequences, 512 tokens", {"max-num-seqs": 64, "max-num-batched-tokens": 512}),
    ("256 sequences, whole prompts", {"max-num-seqs": 256, "enable-chunked-prefill": False}),
)
NEAR_OPTIMAL = "near-optimal"


@dataclass(frozen=True, slots=True)
class Scenario:
    """One study to run: `number` draws hardware, requests, sampler and the starts' noise."""

    number: int
    deployment: Deployment
    baseline_name: str
    baseline: Mapping[str, FlagValue] | None
    """None: the best configuration of the space is found first and becomes the baseline."""
    variation: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    """Values in the document's sections other than its defaults, for comparing designs."""

    @property
    def noise(self) -> StartNoise:
        return StartNoise(START_NOISE, self.number)

    def spec(self, flags: Mapping[str, FlagValue]) -> StudySpec:
        """The study's document with these baseline flags."""
        deployment = self.deployment
        document: dict[str, object] = {
            "name": f"verdict-{self.number}",
            "model": {"id": deployment.model, "max_model_len": deployment.max_model_len},
            "engine": {
                "kind": "simulated",
                "gpu": deployment.gpu,
                "hardware_seed": FIRST_HARDWARE_SEED + self.number,
            },
            "baseline": {"flags": dict(flags)},
            "workload": {"preset": deployment.preset, "seed": self.number},
            "sampler": {"seed": self.number},
        }
        for section, values in self.variation.items():
            given = document.setdefault(section, {})
            document[section] = {**(given if isinstance(given, dict) else {}), **values}
        return load_study(json.dumps(document), where=f"scenario {self.number}")


def scenarios(
    with_gain: int,
    without: int,
    variation: Mapping[str, Mapping[str, object]] | None = None,
) -> tuple[Scenario, ...]:
    """So many with an ordinary baseline, then so many with a near-optimal one."""
    changes = variation or {}
    found = []
    for number in range(with_gain):
        deployment = DEPLOYMENTS[number % len(DEPLOYMENTS)]
        name, flags = BASELINES[(number // len(DEPLOYMENTS)) % len(BASELINES)]
        found.append(Scenario(number, deployment, name, flags, changes))
    for number in range(with_gain, with_gain + without):
        deployment = DEPLOYMENTS[(number - with_gain) % len(DEPLOYMENTS)]
        found.append(Scenario(number, deployment, NEAR_OPTIMAL, None, changes))
    return tuple(found)


def scenario_spec(scenario: Scenario, base_dir: Path) -> StudySpec:
    """The document; a near-optimal baseline is searched for with all knowledge of the machine."""
    if scenario.baseline is not None:
        return scenario.spec(scenario.baseline)
    flags: dict[str, FlagValue] = {}
    known: list[EngineConfig] = []
    for _ in range(IMPROVEMENTS):
        spec = scenario.spec(flags)
        machine = machine_of(spec, None, scenario.noise, base_dir)
        baseline = machine.target.with_searched(dict(spec.baseline.flags))
        best = BestInSpace(machine, baseline).find([*known, baseline])
        known.append(best)
        flags = best.without("max-model-len").as_dict()
    return scenario.spec(flags)


def machine_of(
    spec: StudySpec, calibration: LoadCalibration | None, noise: StartNoise, base_dir: Path
) -> HiddenMachine:
    """The machine under this load, or under the one its baseline would be given."""
    if calibration is not None:
        return HiddenMachine(spec, calibration, noise, base_dir=base_dir)
    nobody = LoadCalibration.from_dict(
        {"rate_per_s": 1.0, "concurrency": 1, "source": "given", "capacity_per_s": None}
    )
    machine = HiddenMachine(spec, nobody, noise, base_dir=base_dir)
    config = machine.target.with_searched(dict(spec.baseline.flags))
    return HiddenMachine(spec, _calibrated(machine, config), noise, base_dir=base_dir)


def _calibrated(machine: HiddenMachine, config: EngineConfig) -> LoadCalibration:
    """What a study's own calibration finds on a start of this configuration."""
    request = machine.request(config, machine.spec.workload.seed)
    engine = VirtualEngine(launch_request(request, 8000), 1.0)
    facts = engine_facts(engine.log_tail(2**20)) if engine.launch else EngineFacts()
    hooks = LoadHooks(Cancellation(), lambda: engine.exit_status() is None, lambda status: None)
    return VirtualLoad(SystemClock()).calibrate(request, engine, facts, hooks)
