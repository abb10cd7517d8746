"""Why an engine ended or fell ill, as data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Consequence(Enum):
    """What follows for the study."""

    INFEASIBLE = "infeasible"
    RETRY = "retry"
    STOP_STUDY = "stop_study"


class Phase(Enum):
    """How far the deepest engine process had come."""

    INIT = "init"
    LOAD = "load"
    PROFILE = "profile"
    KV_SIZING = "kv_sizing"
    CAPTURE = "capture"
    WARMUP = "warmup"
    SERVING = "serving"


@dataclass(frozen=True, slots=True)
class Remedy:
    """Move `knob` (a vLLM flag in snake case, or a plain noun) in `direction`, perhaps to `value`."""

    knob: str
    direction: str
    value: str | None = None


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """A class of `facts/vllm.md` §C with the log lines that decided it; `unknown` is never a guess."""

    failure_class: str
    phase: Phase
    consequence: Consequence
    summary: str
    evidence: tuple[str, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    returncode: int | None = None
    severity: float | None = None
    """How far off the configuration was, in the failing resource's own ratio; None when unknown."""
