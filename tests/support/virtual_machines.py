"""Small machines, loads and studies in virtual time for tests of the benchmarks."""

from __future__ import annotations

import json
from collections.abc import Mapping

from benchmarks.virtual_time.virtual_engine import VirtualEngine
from tuner.domain.document import load_study
from tuner.domain.engine_config import EngineConfig, FlagValue, LaunchCommand
from tuner.domain.study_spec import StudySpec
from tuner.engine.launcher import LaunchRequest
from tuner.loadgen.plan import ClosedLoopSegment, OpenLoopSegment, PlannedRequest
from tuner.simulator.command import simulator_argv
from tuner.simulator.server.launch import Launch

MODEL = "Qwen/Qwen2.5-0.5B-Instruct"
LENGTH = 2048


def small_spec(baseline: Mapping[str, FlagValue] | None = None, **workload: object) -> StudySpec:
    """Short windows, few requests: the interpreted engine model serves it in moments."""
    lengths = {
        "prompt_tokens": {"type": "uniform", "low": 50, "high": 400},
        "output_tokens": {"type": "uniform", "low": 5, "high": 40},
    }
    document = {
        "model": {"id": MODEL, "max_model_len": LENGTH},
        "engine": {"kind": "simulated", "gpu": "L4", "hardware_seed": 7},
        "baseline": {"flags": dict(baseline or {"max-num-seqs": 8})},
        "workload": {
            "lengths": lengths,
            "warmup_s": 1,
            "latency_window_s": 6,
            "capacity_window_s": 4,
            "seed": 3,
            **workload,
        },
        "search_space": {
            "max_num_seqs": {"low": 8, "high": 32},
            "max_num_batched_tokens": {"low": 256, "high": 2048},
        },
        "budget": {"trials": 3},
        "confirmation": {"finalists": 1, "rounds": 2, "max_rounds": 2},
    }
    return load_study(json.dumps(document), where="test")


def engine(
    speed: float = 1.0, gpu: str = "L4", model: str = MODEL, **flags: FlagValue
) -> VirtualEngine:
    """A virtual engine from flags spelt with underscores."""
    given = {name.replace("_", "-"): value for name, value in flags.items()}
    given.setdefault("max-model-len", LENGTH)
    command = LaunchCommand(model, EngineConfig.of(given))
    argv = simulator_argv(command, gpu, 1, 1.0, 7, "127.0.0.1", 8000)
    return VirtualEngine(launch_request(argv), speed)


def launch_request(argv: tuple[str, ...], attempt: str = "attempt-1") -> LaunchRequest:
    from pathlib import Path

    log = Path("state/study-1/trial-2") / attempt / "engine.log"
    return LaunchRequest(argv, {}, "127.0.0.1", 8000, MODEL, log, 1.0)


def started(speed: float = 1.0, **flags: int) -> Launch:
    """The launch of an engine that starts."""
    launch = engine(speed, "L4", MODEL, **flags).launch
    assert launch is not None
    return launch


def requests(count: int, rate_per_s: float | None, output: int = 20) -> tuple[PlannedRequest, ...]:
    """Prompts of 100 to 300 tokens, due at equal gaps, or whenever a slot is free."""
    return tuple(
        PlannedRequest(
            i, 100 + 50 * (i % 5), output, i, None if rate_per_s is None else i / rate_per_s
        )
        for i in range(count)
    )


def open_loop(count: int = 60, rate_per_s: float = 10.0, drain_s: float = 5.0) -> OpenLoopSegment:
    return OpenLoopSegment(requests(count, rate_per_s), 1.0, 4.0, drain_s)


def closed_loop(count: int = 3000, concurrency: int = 8) -> ClosedLoopSegment:
    return ClosedLoopSegment(requests(count, None), concurrency, 1.0, 3.0)
