"""What a failure signature is: words by which a cause is recognised, and what follows from it.

Source: facts of vLLM 0.6.6 to 0.33, read in its code and run on 0.32. Line numbers inside vLLM
(`core.py:708`) differ per version and are never matched.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tuner.domain.diagnosis import Consequence, FactValue, Phase, Remedy

EXPLICIT, BARE_OUT_OF_MEMORY, CONSEQUENCE = range(3)


@dataclass(frozen=True, slots=True)
class Hit:
    """Where a signature matched: the match, the lines around it, and facts from further up."""

    match: re.Match[str]
    before: str
    after: str
    facts: Mapping[str, FactValue]

    def number(self, name: str) -> float | None:
        """A named group as a number; None when it did not take part."""
        text = self.match[name]
        return float(text) if text else None

    def whole(self, name: str) -> int | None:
        number = self.number(name)
        return int(number) if number is not None else None


@dataclass(frozen=True, slots=True)
class Reading:
    """What a hit says beyond its class."""

    remedies: tuple[Remedy, ...] = ()
    facts: Mapping[str, FactValue] = field(default_factory=dict)
    severity: float | None = None
    consequence: Consequence | None = None


@dataclass(frozen=True, slots=True)
class Signature:
    """One way in which a cause shows. `phase` None: where the writing process had come.

    Among the hits of processes as deep as each other the lowest `precedence` wins: EXPLICIT texts
    before BARE_OUT_OF_MEMORY, both before what is often a CONSEQUENCE of another fault.
    """

    failure_class: str
    pattern: re.Pattern[str]
    phase: Phase | None
    consequence: Consequence
    summary: str
    tunable: bool = False
    precedence: int = EXPLICIT
    read: Callable[[Hit], Reading] = lambda _hit: Reading()
    phase_unknown: Phase = Phase.ANY
    """The phase when `phase` is None and no milestone is in the log."""
    quoted: tuple[int, int] = (0, 0)
    """How many lines before and after the one that matched are quoted with it."""


def ratio(numerator: float | None, denominator: float | None) -> float | None:
    """How many times too large; None where a number is missing or printed as zero."""
    if numerator is None or denominator is None or denominator <= 0:
        return None
    return numerator / denominator


def floor_hundredth(value: float) -> float:
    """Rounded down to two decimals, safely against binary fractions."""
    return math.floor(value * 100 + 1e-9) / 100


def just(*remedies: Remedy) -> Callable[[Hit], Reading]:
    """A reading that does not depend on the hit."""
    return lambda _hit: Reading(remedies)
