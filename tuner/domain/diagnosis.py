"""Why an engine ended or fell ill, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

FactValue = bool | int | float | str | tuple[str, ...] | None


class Consequence(Enum):
    """What follows for the study."""

    INFEASIBLE = "infeasible"
    RETRY = "retry"
    STOP_STUDY = "stop_study"
    NONE = "none"
    """Nothing is wrong (class `ok`), or nothing follows for this configuration."""


class Phase(Enum):
    """How far the deepest engine process had come; `any` when the log does not tell."""

    ARGPARSE = "argparse"
    CONFIG = "config"
    INIT = "init"
    LOAD = "load"
    PROFILE = "profile"
    KV_SIZING = "kv_sizing"
    CAPTURE = "capture"
    WARMUP = "warmup"
    READY = "ready"
    SERVING = "serving"
    ANY = "any"


@dataclass(frozen=True, slots=True)
class Remedy:
    """Move `knob` (a vLLM flag in snake case, or a noun) in `direction`, perhaps to `value`."""

    knob: str
    direction: str
    value: bool | int | float | str | None = None


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """A class of failure with the log lines that decided it; `unknown` is never a guess."""

    failure_class: str
    phase: Phase
    consequence: Consequence
    summary: str
    evidence: tuple[str, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    returncode: int | None = None
    severity: float | None = None
    """How far off the configuration was: needed over available in the failing resource, so that 1
    would just have fitted; None when the log does not tell. The engine model and forecasts use the
    same ratio."""
    tunable: bool = False
    """Whether a launch parameter can cure it."""
    facts: Mapping[str, FactValue] = field(default_factory=dict, hash=False)
    """Numbers read from the log, named as in docs/diagnosis.md; None where the text has none."""

    @property
    def retry_same_config(self) -> bool:
        """Whether the same configuration may well run when it is started again."""
        return self.consequence is Consequence.RETRY
