"""The options of the simulated engine that vLLM does not have; all start with `--sim-`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field, fields


@dataclass(frozen=True, slots=True)
class Faults:
    """What a test asks the engine to do wrong. Steps count from 1; None is never.

    crash: a fatal engine error, exit code 1. exit_zero: the engine process vanishes and the server
    leaves with exit code 0, as vLLM does. oom: out of memory under load. kill: SIGKILL of itself,
    as the host's out-of-memory killer does. hang: no step after this one, `/health` stays 200.
    """

    crash_at_step: int | None = None
    exit_zero_at_step: int | None = None
    oom_at_step: int | None = None
    kill_at_step: int | None = None
    hang_after_step: int | None = None
    startup_delay_s: float = 0.0
    startup_failure: str | None = None
    gpu_busy_gib: float = 0.0
    ignore_sigterm: bool = False
    orphan: bool = False


@dataclass(frozen=True, slots=True)
class SimulatorOptions:
    """Which hardware is simulated and how fast engine time passes."""

    gpu: str = "H100"
    gpu_count: int = 1
    time_scale: float = 1.0
    hardware_seed: int | None = None
    truth: bool = False
    faults: Faults = field(default_factory=Faults)


STARTUP_FAILURES = (
    "oom_weights",
    "oom_profile",
    "kv_none",
    "kv_too_small",
    "oom_capture",
    "oom_sampler_warmup",
)


def split_simulator_options(args: Sequence[str]) -> tuple[SimulatorOptions, tuple[str, ...]]:
    """The options named `--sim-…` and, in order, everything else; exits with 2 on a bad value."""
    known, rest = _parser().parse_known_args(list(args))
    values = {name.removeprefix("sim_"): value for name, value in vars(known).items()}
    fault_names = {entry.name for entry in fields(Faults)}
    faults = Faults(**{name: values.pop(name) for name in fault_names})
    return SimulatorOptions(faults=faults, **values), tuple(rest)


def simulator_option_argv(options: SimulatorOptions) -> tuple[str, ...]:
    """The arguments that `split_simulator_options` reads back; defaults are left out."""
    default = SimulatorOptions()
    words: list[str] = []
    for part, standard in ((options, default), (options.faults, default.faults)):
        for entry in fields(part):
            value = getattr(part, entry.name)
            if entry.name == "faults" or value == getattr(standard, entry.name):
                continue
            name = f"--sim-{entry.name.replace('_', '-')}"
            words += [name] if value is True else [name, str(value)]
    return tuple(words)


def simulator_help() -> str:
    """The `--sim-…` options, one a line."""
    return _parser().format_help().split("\n\n", 1)[1].replace("options:", "simulator options:")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="vllm", add_help=False, allow_abbrev=False)
    parser.add_argument("--sim-gpu", default="H100")
    parser.add_argument("--sim-gpu-count", type=_positive_int, default=1)
    parser.add_argument("--sim-time-scale", type=_positive_float, default=1.0)
    parser.add_argument("--sim-hardware-seed", type=int)
    parser.add_argument("--sim-truth", action="store_true")
    for event in ("crash-at", "exit-zero-at", "oom-at", "kill-at", "hang-after"):
        parser.add_argument(f"--sim-{event}-step", type=_positive_int)
    parser.add_argument("--sim-startup-delay-s", type=float, default=0.0)
    parser.add_argument("--sim-startup-failure", choices=STARTUP_FAILURES)
    parser.add_argument("--sim-gpu-busy-gib", type=float, default=0.0)
    parser.add_argument("--sim-ignore-sigterm", action="store_true")
    parser.add_argument("--sim-orphan", action="store_true")
    return parser


def _positive_int(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not at least 1")
    return value


def _positive_float(text: str) -> float:
    value = float(text)
    if not value > 0:
        raise argparse.ArgumentTypeError(f"{value} is not above 0")
    return value
