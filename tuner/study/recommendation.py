"""The verdict on a study, from confirmed measurements only, with the quantities it rests on."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from objectives import preemption
from objectives.measurement import Distribution, Estimate, Measurement
from tuner.domain.engine_config import EngineConfig, FlagValue
from tuner.study.intervals import PRACTICAL_GAIN, GainInterval, gain_interval, gain_percent


class Verdict(Enum):
    BETTER = "better"
    KEEP_BASELINE = "keep_baseline"
    BETTER_BUT_FRAGILE = "better_but_fragile"
    NO_FEASIBLE = "no_feasible"


@dataclass(frozen=True, slots=True)
class PairedRound:
    """One round's two fresh starts under the same requests; `score` is against that baseline."""

    round: int
    score: float
    candidate: Measurement
    reference: Measurement


@dataclass(frozen=True, slots=True)
class Candidate:
    """A finalist and what confirmation showed.

    `failure` says why it is out; `weaknesses` what it suffered although it was measured.
    """

    trial_number: int
    config: EngineConfig
    rounds: tuple[PairedRound, ...]
    failure: str | None = None
    weaknesses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reference:
    """What the finalists are compared with: the baseline, or the first that could run at all."""

    trial_number: int
    config: EngineConfig
    is_baseline: bool
    bottleneck: str | None = None
    """A sentence on the resource that bound it."""


@dataclass(frozen=True, slots=True)
class MetricChange:
    """A quantity before and after, each the geometric mean over the confirmation's rounds."""

    name: str
    unit: str
    before: float
    after: float

    @property
    def change_percent(self) -> float:
        return 100 * (self.after / self.before - 1)


@dataclass(frozen=True, slots=True)
class FlagChange:
    """A flag that differs; None is the engine's own default."""

    flag: str
    before: FlagValue | None
    after: FlagValue | None


@dataclass(frozen=True, slots=True)
class FinalistReport:
    """How one finalist fared."""

    trial_number: int
    gain: GainInterval | None
    failure: str | None
    weaknesses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Recommendation:
    """What is handed over. `trial_number` and `config` are what to run; None when nothing can."""

    verdict: Verdict
    headline: str
    reason: str
    trial_number: int | None
    config: EngineConfig | None
    reference_trial: int | None
    reference_is_baseline: bool
    gain: GainInterval | None
    metrics: tuple[MetricChange, ...]
    changes: tuple[FlagChange, ...]
    finalists: tuple[FinalistReport, ...]
    simulated: bool


def recommend(
    reference: Reference | None,
    candidates: Sequence[Candidate],
    *,
    simulated: bool,
    why_infeasible: str | None = None,
) -> Recommendation:
    """The verdict. `why_infeasible` is the most telling failure when nothing could run."""
    if reference is None:
        return _no_feasible(why_infeasible, simulated)
    winner = _winner(candidates)
    if winner is None:
        return _keep(reference, candidates, simulated)
    return _change(reference, winner, candidates, simulated)


def _no_feasible(why: str | None, simulated: bool) -> Recommendation:
    reason = "No configuration of the search space, nor the baseline, could serve this workload."
    return Recommendation(
        verdict=Verdict.NO_FEASIBLE,
        headline="No feasible configuration was found.",
        reason=f"{reason} {why}" if why else reason,
        trial_number=None,
        config=None,
        reference_trial=None,
        reference_is_baseline=False,
        gain=None,
        metrics=(),
        changes=(),
        finalists=(),
        simulated=simulated,
    )


def _winner(candidates: Sequence[Candidate]) -> Candidate | None:
    """The best candidate that is significantly better; a robust one goes before a fragile one."""
    better = [(c, g) for c in candidates if (g := _gain(c)) and g.significant and not c.failure]
    if not better:
        return None
    return min(better, key=lambda pair: (_fragile(pair[0]), -pair[1].mean))[0]


def _gain(candidate: Candidate) -> GainInterval | None:
    return gain_interval([r.score for r in candidate.rounds])


def _fragile(candidate: Candidate) -> bool:
    return bool(_weaknesses(candidate))


def _weaknesses(candidate: Candidate) -> tuple[str, ...]:
    """What was told, and preemption beyond what the reference itself shows in the same round."""
    worst: float | None = None
    for pair in candidate.rounds:
        own, other = preemption.rate(pair.candidate), preemption.rate(pair.reference)
        if own is None or own <= preemption.HEALTHY_PER_REQUEST or own <= (other or 0.0):
            continue
        worst = own if worst is None else max(worst, own)
    if worst is None:
        return candidate.weaknesses
    return (*candidate.weaknesses, f"up to {worst:.2f} preemptions per request, more than before")


def _change(
    reference: Reference, winner: Candidate, candidates: Sequence[Candidate], simulated: bool
) -> Recommendation:
    gain = _gain(winner)
    weaknesses = _weaknesses(winner)
    metrics = metric_changes(winner.rounds)
    changes = flag_changes(reference.config, winner.config)
    percent = gain.percent if gain else ""
    name = _reference_name(reference)
    headline = f"Trial {winner.trial_number} is better than {name} by {percent}."
    if weaknesses:
        headline = f"Trial {winner.trial_number} is better by {percent}, but fragile."
    return Recommendation(
        verdict=Verdict.BETTER_BUT_FRAGILE if weaknesses else Verdict.BETTER,
        headline=headline,
        reason=_reason_for_change(reference, gain, metrics, changes, weaknesses),
        trial_number=winner.trial_number,
        config=winner.config,
        reference_trial=reference.trial_number,
        reference_is_baseline=reference.is_baseline,
        gain=gain,
        metrics=metrics,
        changes=changes,
        finalists=_reports(candidates),
        simulated=simulated,
    )


def _reason_for_change(
    reference: Reference,
    gain: GainInterval | None,
    metrics: Sequence[MetricChange],
    changes: Sequence[FlagChange],
    weaknesses: Sequence[str],
) -> str:
    sentences = [_reference_remark(reference)]
    if reference.bottleneck:
        sentences.append(reference.bottleneck)
    if changes:
        sentences.append(f"Changed: {', '.join(_change_text(c) for c in changes)}.")
    if metrics:
        sentences.append(f"Measured: {', '.join(_metric_text(m) for m in metrics)}.")
    if gain is not None:
        level = f"{100 * gain.level:.0f}%"
        sentences.append(
            f"The improvement is the weighted mean of these on a log scale, over {gain.rounds} "
            f"paired rounds of fresh starts ({level} interval {gain.percent})."
        )
    if weaknesses:
        sentences.append(f"Fragile: {'; '.join(weaknesses)}.")
    return " ".join(s for s in sentences if s)


def _keep(reference: Reference, candidates: Sequence[Candidate], simulated: bool) -> Recommendation:
    best = _best_of(candidates)
    name = _reference_name(reference)
    remark = f"{_reference_remark(reference)} " if not reference.is_baseline else ""
    return Recommendation(
        verdict=Verdict.KEEP_BASELINE,
        headline=f"No significant gain: keep {name}.",
        reason=remark + _reason_to_keep(best, candidates),
        trial_number=reference.trial_number,
        config=reference.config,
        reference_trial=reference.trial_number,
        reference_is_baseline=reference.is_baseline,
        gain=_gain(best) if best else None,
        metrics=metric_changes(best.rounds) if best else (),
        changes=(),
        finalists=_reports(candidates),
        simulated=simulated,
    )


def _best_of(candidates: Sequence[Candidate]) -> Candidate | None:
    measured = [(c, g) for c in candidates if not c.failure and (g := _gain(c)) is not None]
    return max(measured, key=lambda pair: pair[1].mean)[0] if measured else None


def _reason_to_keep(best: Candidate | None, candidates: Sequence[Candidate]) -> str:
    sentences = []
    gain = _gain(best) if best else None
    threshold = f"{gain_percent(PRACTICAL_GAIN):.0f}%"
    if best is None or gain is None:
        if not candidates:
            sentences.append("No trial of the search scored above it.")
    elif gain.low is None:
        sentences.append(
            f"Trial {best.trial_number} was confirmed in one round only ({gain.percent}); "
            "one pair of starts says nothing of its own spread."
        )
    else:
        sentences.append(
            f"The best finalist, trial {best.trial_number}, gained {gain.percent} over "
            f"{gain.rounds} paired rounds; a recommendation needs the whole "
            f"{100 * gain.level:.0f}% interval above zero and a mean of at least {threshold}."
        )
    sentences += [f"Trial {c.trial_number} is out: {c.failure}" for c in candidates if c.failure]
    return " ".join(sentences)


def _reference_name(reference: Reference) -> str:
    if reference.is_baseline:
        return "the baseline"
    return f"the first feasible configuration (trial {reference.trial_number})"


def _reference_remark(reference: Reference) -> str:
    if reference.is_baseline:
        return ""
    return (
        "The baseline could not run, so everything is compared with the first feasible "
        f"configuration, trial {reference.trial_number}."
    )


def _reports(candidates: Sequence[Candidate]) -> tuple[FinalistReport, ...]:
    return tuple(
        FinalistReport(c.trial_number, _gain(c), c.failure, _weaknesses(c)) for c in candidates
    )


def flag_changes(before: EngineConfig, after: EngineConfig) -> tuple[FlagChange, ...]:
    """The flags in which two configurations differ, by name."""
    old, new = before.as_dict(), after.as_dict()
    names = sorted(old.keys() | new.keys())
    return tuple(
        FlagChange(name, old.get(name), new.get(name))
        for name in names
        if old.get(name) != new.get(name)
    )


def metric_changes(rounds: Sequence[PairedRound]) -> tuple[MetricChange, ...]:
    """TTFT p95, TPOT p95 and throughput before and after, where both sides measured them."""
    changes = (_metric_change(name, unit, read, rounds) for name, unit, read in _QUOTED)
    return tuple(change for change in changes if change is not None)


def _metric_change(
    name: str,
    unit: str,
    read: Callable[[Measurement], float | None],
    rounds: Sequence[PairedRound],
) -> MetricChange | None:
    pairs = [(read(r.reference), read(r.candidate)) for r in rounds]
    known = [(b, a) for b, a in pairs if b is not None and a is not None and b > 0 and a > 0]
    if not known:
        return None
    before = math.exp(math.fsum(math.log(b) for b, _ in known) / len(known))
    after = math.exp(math.fsum(math.log(a) for _, a in known) / len(known))
    return MetricChange(name, unit, before, after)


def _p95(distribution: Distribution | None) -> float | None:
    return distribution.p95.value if distribution is not None else None


def _value(estimate: Estimate | None) -> float | None:
    return estimate.value if estimate is not None else None


_QUOTED: tuple[tuple[str, str, Callable[[Measurement], float | None]], ...] = (
    ("TTFT p95", "ms", lambda m: _p95(m.latency.ttft_ms)),
    ("TPOT p95", "ms", lambda m: _p95(m.latency.tpot_ms)),
    ("throughput", "tokens/s", lambda m: _value(m.capacity.output_tokens_per_s)),
)


def _metric_text(metric: MetricChange) -> str:
    return (
        f"{metric.name} {metric.before:.4g} → {metric.after:.4g} {metric.unit} "
        f"({metric.change_percent:+.1f} %)"
    )


def _change_text(change: FlagChange) -> str:
    return f"{change.flag} {_flag_text(change.before)} → {_flag_text(change.after)}"


def _flag_text(value: FlagValue | None) -> str:
    if value is None:
        return "default"
    return str(value).lower() if isinstance(value, bool) else str(value)
