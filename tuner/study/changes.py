"""What is different between two configurations: their flags, and what was measured of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from objectives.measurement import Distribution, Estimate, Measurement
from objectives.uncertainty import log_spread
from tuner.domain.engine_config import EngineConfig, FlagValue
from tuner.study.intervals import LEVEL, expected_spread, gain_interval, gain_percent

NOTHING_KNOWN = EngineConfig()
"""No default of the engine is known."""


@dataclass(frozen=True, slots=True)
class PairedRound:
    """One round's two fresh starts under the same requests; `score` is against that baseline.

    `spread` is the standard deviation that the two runs' intervals lead to expect of `score`.
    """

    round: int
    score: float
    candidate: Measurement
    reference: Measurement
    spread: float | None = None


@dataclass(frozen=True, slots=True)
class MetricChange:
    """A quantity before and after, each the geometric mean over the confirmation's rounds.

    `low_percent` and `high_percent` bound the change; None with a single round.
    """

    name: str
    unit: str
    before: float
    after: float
    low_percent: float | None = None
    high_percent: float | None = None

    @property
    def change_percent(self) -> float:
        return 100 * (self.after / self.before - 1)

    @property
    def text(self) -> str:
        values = f"{self.name} {self.before:.4g} → {self.after:.4g} {self.unit}"
        # A change of a percentage in per cent would be read as its points.
        return values if self.unit == "%" else f"{values} ({self.change_percent:+.1f} %)"


@dataclass(frozen=True, slots=True)
class FlagChange:
    """A flag whose value in the engine differs; None is a default that nobody knows."""

    flag: str
    before: FlagValue | None
    after: FlagValue | None
    before_is_default: bool = False
    after_is_default: bool = False

    @property
    def text(self) -> str:
        before = _flag_text(self.before, default=self.before_is_default)
        return f"{self.flag} {before} → {_flag_text(self.after, default=self.after_is_default)}"


@dataclass(frozen=True, slots=True)
class Served:
    """A configuration as given and, as far as known, as the engine applies it."""

    given: EngineConfig
    applied: EngineConfig = NOTHING_KNOWN

    def value(self, flag: str) -> FlagValue | None:
        own = self.given.get(flag)
        return self.applied.get(flag) if own is None else own

    def is_default(self, flag: str) -> bool:
        return self.given.get(flag) is None


def flag_changes(before: Served, after: Served) -> tuple[FlagChange, ...]:
    """The given flags whose value in the engine differs, by name.

    A flag that only writes out the other side's default changes nothing and is left out.
    """
    names = sorted(before.given.as_dict().keys() | after.given.as_dict().keys())
    return tuple(
        FlagChange(
            name,
            before.value(name),
            after.value(name),
            before_is_default=before.is_default(name),
            after_is_default=after.is_default(name),
        )
        for name in names
        if before.value(name) != after.value(name)
    )


def metric_changes(
    rounds: Sequence[PairedRound], look_level: float = LEVEL
) -> tuple[MetricChange, ...]:
    """TTFT, TPOT, throughput and GPU utilisation, where both sides measured them."""
    changes = (_metric_change(quoted, rounds, look_level) for quoted in _QUOTED)
    return tuple(change for change in changes if change is not None)


@dataclass(frozen=True, slots=True)
class _Quoted:
    name: str
    unit: str
    read: Callable[[Measurement], Estimate | None]


def _metric_change(
    quoted: _Quoted, rounds: Sequence[PairedRound], look_level: float
) -> MetricChange | None:
    pairs = [(quoted.read(r.reference), quoted.read(r.candidate)) for r in rounds]
    known = [(b, a) for b, a in pairs if b is not None and a is not None]
    known = [(b, a) for b, a in known if b.value > 0 and a.value > 0]
    if not known:
        return None
    interval = gain_interval(
        [math.log(a.value / b.value) for b, a in known],
        expected_spread=expected_spread([_pair_spread(b, a) for b, a in known]),
        look_level=look_level,
    )
    low, high = (None, None) if interval is None else (interval.low, interval.high)
    return MetricChange(
        quoted.name,
        quoted.unit,
        _geometric_mean([b.value for b, _ in known]),
        _geometric_mean([a.value for _, a in known]),
        None if low is None else gain_percent(low),
        None if high is None else gain_percent(high),
    )


def _pair_spread(before: Estimate, after: Estimate) -> float | None:
    one, other = log_spread(before), log_spread(after)
    return None if one is None or other is None else math.hypot(one, other)


def _geometric_mean(values: Sequence[float]) -> float:
    return math.exp(math.fsum(math.log(value) for value in values) / len(values))


def _p95(distribution: Distribution | None) -> Estimate | None:
    return distribution.p95 if distribution is not None else None


def _per_cent(share: float | None) -> Estimate | None:
    return None if share is None else Estimate(100 * share, 1)


_QUOTED = (
    _Quoted("TTFT p95", "ms", lambda m: _p95(m.latency.ttft_ms)),
    _Quoted("TPOT p95", "ms", lambda m: _p95(m.latency.tpot_ms)),
    _Quoted("throughput", "tokens/s", lambda m: m.capacity.output_tokens_per_s),
    _Quoted("GPU utilisation", "%", lambda m: _per_cent(m.latency.gpu_utilization)),
)


def _flag_text(value: FlagValue | None, *, default: bool) -> str:
    if value is None:
        return "default"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f"{text} (default)" if default else text
